import Foundation
import SupervisedChannels
import Testing
import WebSocketHandling
import WebSocketServing
import WebSocketTesting
import WebSocketTransport

// The program of a feed with presence: what it is, without how it is connected.

struct Event: Sendable, Equatable, Codable {
  var text: String
}

enum Presence: String, Hashable, Sendable, Codable { case online, away, busy }

struct WebSocket: Sendable {
  let onEvent: @Sendable (@escaping @Sendable (Event) -> Void) -> Void
  let send: @Sendable (Presence) -> Void
  let close: @Sendable () -> Void
}

struct FeedEnv: Sendable { let open: @Sendable (URL, String) -> WebSocket }

enum FeedAction: Sendable {
  case event(Event)
  case setPresence(Presence)
  case rotated(token: String)
}

struct FeedState: Sendable {
  let url: URL
  var token: String
  var presence: Presence = .online
  var feed: [Event] = []
}

let feed = Behavior<FeedAction, FeedState, FeedEnv>
  .reduce { action, state in
    switch action {
    case .event(let e): state.feed.append(e)
    case .setPresence(let p): state.presence = p
    case .rotated(let token): state.token = token
    }
  }
  .supervise { state in
    Supervision { env in
      [
        Channel(
          id: "feed",
          lifetime: .ephemeral(resetKey: state.token),  // reconnect when the token rotates
          broadcasting: .onChange(state.presence)  // publish presence on open + on change
        ) { dispatch in
          let ws = env.open(state.url, state.token)
          ws.onEvent { dispatch(.event($0)) }  // inbound stream → actions
          return ChannelHandler(
            receive: { presence in ws.send(presence) },  // each presence value → ws.send
            cancel: { ws.close() }
          )
        }
      ]
    }
  }

/// The same without a value to send.
let receivingFeed = Behavior<FeedAction, FeedState, FeedEnv>
  .reduce { action, state in if case .event(let event) = action { state.feed.append(event) } }
  .supervise { state in
    Supervision { env in
      [
        Channel(id: "feed", lifetime: .ephemeral(resetKey: state.token)) { dispatch in
          let ws = env.open(state.url, state.token)
          ws.onEvent { dispatch(.event($0)) }
          return .cancelOnly { ws.close() }
        }
      ]
    }
  }

// A chat room: each line is an event of its own, and no state.

enum RoomAction: Sendable {
  case join(String?)
  case received(String)
}

struct RoomState: Sendable {
  let url: URL
  var room: String?
  var lines: [String] = []
}

let chatRoom = Behavior<RoomAction, RoomState, Void>
  .reduce { action, state in
    switch action {
    case .join(let room): state.room = room
    case .received(let line): state.lines.append(line)
    }
  }
  .supervise { state in
    Supervision { _ in
      guard let room = state.room else { return [] }
      let request = NetworkRequest(
        url: state.url.appending(path: room), connectTimeout: .seconds(240), closeTimeout: .seconds(240))
      return [
        Channel(id: "chat-socket", lifetime: .ephemeral(resetKey: room)) { dispatch -> ChannelHandler<String> in
          .webSocket(request, for: dispatch) { (line: String) in .received(line) }
        }
      ]
    }
  }

// A small store of the kind that such a program runs on.

struct Supervision<Env: Sendable, Action: Sendable>: Sendable {
  let channels: @Sendable (Env) -> [Channel<Action>]

  init(_ channels: @escaping @Sendable (Env) -> [Channel<Action>]) { self.channels = channels }
}

struct Behavior<Action: Sendable, State: Sendable, Env: Sendable>: Sendable {
  var reducer: @Sendable (Action, inout State) -> Void
  var supervision: @Sendable (State) -> Supervision<Env, Action>

  static func reduce(_ reducer: @escaping @Sendable (Action, inout State) -> Void) -> Behavior {
    Behavior(reducer: reducer) { _ in Supervision { _ in [] } }
  }

  func supervise(_ supervision: @escaping @Sendable (State) -> Supervision<Env, Action>) -> Behavior {
    Behavior(reducer: reducer, supervision: supervision)
  }
}

final class Store<Action: Sendable, State: Sendable, Env: Sendable>: Sendable {
  private let behavior: Behavior<Action, State, Env>
  private let env: Env
  private let state: Lock<State>
  private let supervisor = Lock<ChannelSupervisor<Action>?>(nil)
  private let onChange: @Sendable (State) -> Void

  init(
    _ behavior: Behavior<Action, State, Env>, state: State, env: Env,
    onChange: @escaping @Sendable (State) -> Void = { _ in }
  ) {
    self.behavior = behavior
    self.env = env
    self.state = Lock(state)
    self.onChange = onChange
    let supervisor = ChannelSupervisor<Action> { [weak self] in self?.dispatch($0) }
    self.supervisor.withLock { $0 = supervisor }
    supervisor.reconcile(behavior.supervision(state).channels(env))
  }

  func dispatch(_ action: Action) {
    let state = state.withLock { state in
      behavior.reducer(action, &state)
      return state
    }
    onChange(state)
    supervisor.withLock { $0 }?.reconcile(behavior.supervision(state).channels(env))
  }

  func broadcast(_ value: some Sendable, channel id: some Hashable & Sendable) -> BroadcastOutcome {
    supervisor.withLock { $0 }?.broadcast(value, channel: id) ?? .noSuchChannel
  }
}

/// The feed's environment over real sockets: the token travels in the query.
private func liveEnvironment() -> FeedEnv {
  FeedEnv { url, token in
    let socket = ChannelSocket(DefaultWebSocketHandler()) { Issue.record("\($0)") }
    let request = NetworkRequest(
      url: url.appending(queryItems: [URLQueryItem(name: "token", value: token)]), connectTimeout: .seconds(240),
      closeTimeout: .seconds(240))
    return WebSocket(
      onEvent: { deliver in
        socket.open(
          request,
          onMessage: { (event: Event, next) in
            deliver(event)
            next()
          },
          onEnd: { _ in })
      },
      send: { socket.publish($0) },
      close: { socket.close() })
  }
}

/// What the server saw, in order.
private enum Seen: Sendable, Equatable {
  case opened(String)
  case presence(Presence)
  case closed(clean: Bool)
}

@Suite("A feed over a real server", .timeLimit(.minutes(5)))
struct FeedTests {
  private let seen = AsyncStream.makeStream(of: Seen.self)

  private func server() throws -> WebSocketServer {
    let feed = seen.continuation
    return try WebSocketServer { connection in
      feed.yield(.opened(connection.head.target))
      connection.onMessage { message in
        if let presence = try? message.decode(Presence.self) { feed.yield(.presence(presence)) }
      }
      connection.onClose { feed.yield(.closed(clean: $0.isClean)) }
    }
  }

  /// The next things that the server sees, in no order where one connection replaces another.
  private func next(_ count: Int, _ iterator: inout AsyncStream<Seen>.Iterator) async -> [Seen] {
    var all: [Seen] = []
    while all.count < count, let one = await iterator.next() { all.append(one) }
    return all
  }

  @Test func `a new token connects anew, a new presence goes down the same wire, the same one is not sent again`()
    async throws
  {
    let server = try server()
    var iterator = seen.stream.makeAsyncIterator()
    let states = AsyncStream.makeStream(of: FeedState.self)
    let store = Store(
      feed, state: FeedState(url: server.url, token: "one"), env: liveEnvironment(),
      onChange: { states.continuation.yield($0) })
    #expect(await next(2, &iterator) == [.opened("/?token=one"), .presence(.online)])

    for presence in [.online, .away, .away, .busy] as [Presence] { store.dispatch(.setPresence(presence)) }
    #expect(await next(2, &iterator) == [.presence(.away), .presence(.busy)])

    store.dispatch(.rotated(token: "two"))
    let change = await next(3, &iterator)
    #expect(change.contains(.closed(clean: true)))
    #expect(change.filter { $0 != .closed(clean: true) } == [.opened("/?token=two"), .presence(.busy)])

    for connection in server.connections { connection.send(.text(#"{"text":"hello"}"#)) }
    var events: [Event] = []
    for await state in states.stream where !state.feed.isEmpty {
      events = state.feed
      break
    }
    #expect(events == [Event(text: "hello")])
    withExtendedLifetime(store) {}
  }

  @Test func `a feed that only receives closes with its store`() async throws {
    let server = try server()
    var iterator = seen.stream.makeAsyncIterator()
    let states = AsyncStream.makeStream(of: FeedState.self)
    do {
      let store = Store(
        receivingFeed, state: FeedState(url: server.url, token: "one"), env: liveEnvironment(),
        onChange: { states.continuation.yield($0) })
      #expect(await next(1, &iterator) == [.opened("/?token=one")])
      for connection in server.connections { connection.send(.text(#"{"text":"hello"}"#)) }
      var changes = states.stream.makeAsyncIterator()
      #expect(await changes.next()?.feed == [Event(text: "hello")])
      withExtendedLifetime(store) {}
    }
    #expect(await next(1, &iterator) == [.closed(clean: true)])
  }

  @Test func `a chat room sends each line, the same one twice too, and none once it was left`() async throws {
    let server = try LoopbackServer(.echo)
    let states = AsyncStream.makeStream(of: RoomState.self)
    let store = Store(
      chatRoom, state: RoomState(url: server.url), env: (), onChange: { states.continuation.yield($0) })
    #expect(store.broadcast("too early", channel: "chat-socket") == .noSuchChannel)
    store.dispatch(.join("swift"))
    // The socket is not open yet: both lines are kept for it.
    #expect(store.broadcast("hi", channel: "chat-socket") == .delivered)
    #expect(store.broadcast("hi", channel: "chat-socket") == .delivered)
    #expect(store.broadcast(1, channel: "chat-socket") == .typeMismatch)
    var lines: [String] = []
    for await state in states.stream where state.lines.count == 2 {
      lines = state.lines
      break
    }
    #expect(lines == ["hi", "hi"])
    store.dispatch(.join(nil))
    #expect(store.broadcast("too late", channel: "chat-socket") == .noSuchChannel)
    #expect(server.handshakeCount == 1)
  }
}
