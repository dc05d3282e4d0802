import ActionCable
import Dispatch
import Foundation
import StoreBridge
import Testing
import WebSocketHandling
import WebSocketTesting
import WebSocketTransport

// The program of a chat: its state, its actions, and what its server sends.

private struct Chat: Codable, Sendable, Equatable {
  typealias ID = Int
  var id: ID
  var lastMessage: ChatMessage?
}

private struct ChatMessage: Codable, Sendable, Equatable {
  var id: Int
  var text: String
}

private struct User: Sendable {
  var token: String?
}

private struct UserForm: Sendable {
  var token = ""
  var isLoggedIn = false
}

private struct ChatForm: Sendable {
  var chatId: Chat.ID?
  var isChatConnected = false
}

private struct AppState: Sendable {
  var userForm = UserForm()
  var chatForm = ChatForm()
  var chats: [Chat] = []
  var messages: [ChatMessage] = []
  var signals: [String] = []
}

private protocol AppAction: Sendable {}

private enum Actions {
  struct Logout: AppAction {}
  struct DidReceiveCurrentUser: AppAction { var user: User }
  struct UpdateAppStatus: AppAction {
    enum Status { case active, background }
    var appStatus: Status
  }
  struct ConnectChat: AppAction { var id: Chat.ID }
  struct DisconnectChat: AppAction { var id: Chat.ID }
  struct DidLoadItem<Item: Sendable>: AppAction { var item: Item }
  struct DidUpdateItem<Item: Sendable>: AppAction { var item: Item }
  struct DidSignal: AppAction { var text: String }
}

private enum SocketChannel {
  static let chat = "ChatChannel"
  static let notification = "NotificationChannel"
  enum Param { static let chatId = "chat_id" }
}

// The middleware.

private final class WebSocketsMiddleware: @unchecked Sendable {
  // Safe: what varies is used on `queue` alone.
  enum Cancellation: Hashable, Sendable {
    case socketChannelChat(Chat.ID)
    case socketChannelNotifications
  }

  struct Environment: Sendable {
    var clientBuilder: @Sendable (_ token: String) -> ActionCableClient
    var channelBuilder:
      @Sendable (_ client: ActionCableClient?, _ name: String, _ identifier: [String: JSONValue]?) throws
        -> SubscriptionSource?
  }

  let store: StorePort<AppState, any AppAction>
  let queue: DispatchQueue
  let environment: Environment
  private let effects = EffectRunner<Cancellation>()
  private var client: ActionCableClient?

  init(store: StorePort<AppState, any AppAction>, queue: DispatchQueue, environment: Environment) {
    self.store = store
    self.queue = queue
    self.environment = environment
  }

  func reduce(_ action: any AppAction, for state: AppState) {
    switch action {
    case is Actions.Logout:
      effects.cancelAll()
      client?.disconnect()
      client = nil

    case let action as Actions.DidReceiveCurrentUser:
      guard client == nil, let token = action.user.token else { break }
      client = environment.clientBuilder(token)
      client?.connect()

      runNotificationSocketEffects(state)

    case let action as Actions.UpdateAppStatus
    where action.appStatus == .active && client == nil && state.userForm.isLoggedIn == true:
      client = environment.clientBuilder(state.userForm.token)
      client?.connect()

      runNotificationSocketEffects(state)

    case let action as Actions.ConnectChat:
      effects.run(
        SocketChannelEffect(
          store: store,
          queue: queue,
          channelBuilder: { [unowned self] in
            try environment.channelBuilder(
              client,
              SocketChannel.chat,
              [SocketChannel.Param.chatId: .string(String(action.id))]
            )
          },
          outputMapper: ChatChannelOutputMapper(),
          actionMapper: ChatChannelActionMapper(),
          batching: .window(.milliseconds(5)),
          signal: { signal in signalActions(signal, "chat \(action.id)") }
        ),
        cancellation: .socketChannelChat(action.id)
      )

    case let action as Actions.DisconnectChat:
      effects.cancel(by: .socketChannelChat(action.id))

    default:
      break
    }
  }

  func runNotificationSocketEffects(_ state: AppState) {
    effects.run(
      SocketChannelEffect(
        store: store,
        queue: queue,
        channelBuilder: { [unowned self] in
          try environment.channelBuilder(client, SocketChannel.notification, nil)
        },
        outputMapper: NotificationChannelOutputMapper(),
        actionMapper: NotificationChannelActionMapper(),
        batching: .window(.milliseconds(5)),
        signal: { signal in signalActions(signal, "notifications") }
      ),
      cancellation: .socketChannelNotifications
    )
  }
}

private func signalActions(_ signal: BridgeSignal<CableMessage>, _ name: String) -> [any AppAction] {
  [Actions.DidSignal(text: "\(name) \(signal.name)")]
}

extension WebSocketsMiddleware {
  static func buildLiveEnvironment(
    host: String, handler: @escaping @Sendable () -> any WebSocketHandler = { DefaultWebSocketHandler() }
  ) -> Environment {
    Environment(
      clientBuilder: { token in
        let cableToken = token.dropFirst(7)
        let url = URL(string: "wss://\(host)/cable?token=\(cableToken)") ?? URL(filePath: "/")
        return ActionCableClient(url: url, handler: handler())
      },
      channelBuilder: { client, name, identifier in
        try client?.makeSource(name: name, identifier: identifier ?? [:])
      }
    )
  }

  static func buildTestEnvironment(url: URL) -> Environment {
    Environment(
      clientBuilder: { token in
        ActionCableClient(
          url: url.appending(queryItems: [URLQueryItem(name: "token", value: String(token.dropFirst(7)))]),
          staleAfter: nil, configuration: .patient)
      },
      channelBuilder: { client, name, identifier in
        try client?.makeSource(name: name, identifier: identifier ?? [:])
      }
    )
  }
}

private struct ChatChannelOutputMapper: OutputMapping {
  func map(from message: CableMessage) throws -> ChatMessage? { try message.decode(ChatMessage.self) }
}

private struct ChatChannelActionMapper: ActionMapping {
  func actions(from output: ChatMessage, state: AppState) -> [any AppAction] { [Actions.DidLoadItem(item: output)] }
}

private enum NotificationChannelOutput: Sendable {
  case newChat(Chat)
  case updateChat(Chat)
}

private struct NotificationChannelOutputMapper: OutputMapping {
  enum MessageType: String, Codable {
    case newChat = "new_chat"
    case updateChat = "update_chat"
  }

  let decoder: JSONDecoder = {
    let decoder = JSONDecoder()
    decoder.dateDecodingStrategy = .iso8601
    return decoder
  }()

  func map(from message: CableMessage) throws -> NotificationChannelOutput? {
    guard
      let messageTypeValue = message.typeData,
      let messageType = try? decoder.decode(MessageType.self, from: messageTypeValue),
      let textData = message.textData
    else {
      return nil
    }

    switch messageType {
    case .newChat:
      return .newChat(try decoder.decode(Chat.self, from: textData))
    case .updateChat:
      return .updateChat(try decoder.decode(Chat.self, from: textData))
    }
  }
}

private struct NotificationChannelActionMapper: ActionMapping {
  func actions(from output: NotificationChannelOutput, state: AppState) -> [any AppAction] {
    switch output {
    case .newChat(let chat):
      return [
        chat.lastMessage.map { Actions.DidLoadItem(item: $0) } as (any AppAction)?, Actions.DidLoadItem(item: chat),
      ]
      .compactMap { $0 }
    case .updateChat(let chat):
      var actions: [any AppAction] = [Actions.DidUpdateItem(item: chat)]
      if state.chatForm.chatId != chat.id || !state.chatForm.isChatConnected, let message = chat.lastMessage {
        actions.append(Actions.DidLoadItem(item: message))
      }
      return actions
    }
  }
}

// A small store: a queue, a state, a reducer, and the middleware behind it.

private final class Store: @unchecked Sendable {
  // Safe: what varies is used on `queue` alone, but for the middleware, which is set before the first action.
  private var state: AppState
  private let queue = DispatchQueue(label: "store")
  private var middleware: WebSocketsMiddleware?
  let states = AsyncStream.makeStream(of: AppState.self)

  init(_ state: AppState = AppState()) { self.state = state }

  /// The middleware hears of each action on its own queue.
  func subscribeAsync(_ environment: WebSocketsMiddleware.Environment, on middlewareQueue: DispatchQueue) {
    let port = StorePort<AppState, any AppAction>(
      withState: { [weak self] actions in
        guard let self else { return [] }
        return queue.sync { actions(self.state) }
      },
      dispatch: { [weak self] actions in for action in actions { self?.dispatch(action) } })
    middleware = WebSocketsMiddleware(store: port, queue: middlewareQueue, environment: environment)
  }

  func dispatch(_ action: any AppAction) {
    queue.async { [self] in
      switch action {
      case is Actions.Logout: state.userForm = UserForm()
      case let action as Actions.DidReceiveCurrentUser:
        if let token = action.user.token { state.userForm = UserForm(token: token, isLoggedIn: true) }
      case let action as Actions.ConnectChat: state.chatForm = ChatForm(chatId: action.id, isChatConnected: true)
      case is Actions.DisconnectChat: state.chatForm = ChatForm()
      case let action as Actions.DidLoadItem<Chat>: state.chats.append(action.item)
      case let action as Actions.DidUpdateItem<Chat>:
        if let index = state.chats.firstIndex(where: { $0.id == action.item.id }) { state.chats[index] = action.item }
      case let action as Actions.DidLoadItem<ChatMessage>: state.messages.append(action.item)
      case let action as Actions.DidSignal: state.signals.append(action.text)
      default: break
      }
      let state = state
      states.continuation.yield(state)
      if let middleware { middleware.queue.async { middleware.reduce(action, for: state) } }
    }
  }

  /// Waits for a state like that.
  func wait(for isRight: (AppState) -> Bool) async -> AppState? {
    for await state in states.stream where isRight(state) { return state }
    return nil
  }
}

/// What the server sees.
private enum Seen: Sendable, Hashable {
  case request(String)
  case subscribed(String)
  case unsubscribed(String)
}

@Suite("A middleware for sockets, rewritten", .timeLimit(.minutes(5)))
struct MiddlewareTests {
  private let seen = AsyncStream.makeStream(of: Seen.self)

  private func makeServer() throws -> CableLoopbackServer {
    let feed = seen.continuation
    @Sendable func serve(_ channel: LoopbackChannel) {
      let room = channel.parameters[SocketChannel.Param.chatId].map { " \($0)" } ?? ""
      let name = channel.name + room
      channel.stream(from: name)
      channel.onUnsubscribe { feed.yield(.unsubscribed(name)) }
      feed.yield(.subscribed(name))
    }
    return try CableLoopbackServer(
      channels: [
        SocketChannel.notification: serve, SocketChannel.chat: serve,
      ],
      authorize: { head in
        feed.yield(.request(head.target))
        return true
      })
  }

  private func makeStore(_ server: CableLoopbackServer, _ state: AppState = AppState()) -> Store {
    let store = Store(state)
    store.subscribeAsync(
      WebSocketsMiddleware.buildTestEnvironment(url: server.url),
      on: DispatchQueue(label: "WebSocketsMiddleware", qos: .background))
    return store
  }

  @Test func `one client for each login, chats by id, notifications, and nothing after the logout`() async throws {
    let server = try makeServer()
    let store = makeStore(server)
    var seen = seen.stream.makeAsyncIterator()

    // Without a token there is no client, with a client no second one.
    store.dispatch(Actions.UpdateAppStatus(appStatus: .active))
    store.dispatch(Actions.DidReceiveCurrentUser(user: User(token: nil)))
    store.dispatch(Actions.DidReceiveCurrentUser(user: User(token: "Bearer secret")))
    store.dispatch(Actions.DidReceiveCurrentUser(user: User(token: "Bearer other")))
    store.dispatch(Actions.UpdateAppStatus(appStatus: .active))
    #expect(await seen.next() == .request("/cable?token=secret"))
    #expect(await seen.next() == .subscribed("NotificationChannel"))
    _ = await store.wait { $0.signals == ["notifications connected"] }

    store.dispatch(Actions.ConnectChat(id: 7))
    store.dispatch(Actions.ConnectChat(id: 7))
    #expect(await seen.next() == .subscribed(#"ChatChannel "7""#))
    _ = await store.wait { $0.signals.last == "chat 7 connected" }
    server.broadcast(to: #"ChatChannel "7""#, ["id": 1, "text": "hi"])
    server.broadcast(to: #"ChatChannel "7""#, ["id": "?"])
    server.broadcast(to: #"ChatChannel "7""#, ["id": 2, "text": "hi"])
    let chatting = await store.wait { $0.messages.count == 2 }
    #expect(chatting?.messages == [ChatMessage(id: 1, text: "hi"), ChatMessage(id: 2, text: "hi")])
    #expect(chatting?.signals.last?.hasPrefix("chat 7 undecodable") == true)

    // The last message of the chat that is open comes over the chat's own channel.
    server.broadcast(to: "NotificationChannel", ["type": "new_chat", "data": ["id": 7]])
    server.broadcast(to: "NotificationChannel", ["type": "something else", "data": 1])
    server.broadcast(
      to: "NotificationChannel",
      ["type": "update_chat", "data": ["id": 7, "lastMessage": ["id": 3, "text": "not twice"]]])
    let notified = await store.wait { $0.chats.first?.lastMessage != nil }
    #expect(notified?.messages.count == 2)

    store.dispatch(Actions.DisconnectChat(id: 7))
    #expect(await seen.next() == .unsubscribed(#"ChatChannel "7""#))
    server.broadcast(
      to: "NotificationChannel",
      ["type": "update_chat", "data": ["id": 7, "lastMessage": ["id": 4, "text": "now here"]]])
    _ = await store.wait { $0.messages.last == ChatMessage(id: 4, text: "now here") }

    store.dispatch(Actions.Logout())
    #expect(await seen.next() == .unsubscribed("NotificationChannel"))
    store.dispatch(Actions.UpdateAppStatus(appStatus: .active))
    // Without a client there is no channel, and that is said.
    store.dispatch(Actions.ConnectChat(id: 8))
    _ = await store.wait { $0.signals.last == "chat 8 no channel: nil" }

    store.dispatch(Actions.DidReceiveCurrentUser(user: User(token: "Bearer new")))
    #expect(await seen.next() == .request("/cable?token=new"))
    #expect(await seen.next() == .subscribed("NotificationChannel"))
    server.shutDown()
  }

  @Test func `an application that is active again, and logged in, has its client again`() async throws {
    let server = try makeServer()
    let store = makeStore(server, AppState(userForm: UserForm(token: "Bearer kept", isLoggedIn: true)))
    var seen = seen.stream.makeAsyncIterator()
    store.dispatch(Actions.UpdateAppStatus(appStatus: .background))
    store.dispatch(Actions.UpdateAppStatus(appStatus: .active))
    #expect(await seen.next() == .request("/cable?token=kept"))
    #expect(await seen.next() == .subscribed("NotificationChannel"))
    withExtendedLifetime(store) {}
    server.shutDown()
  }

  @Test func `a rejected channel is told, and can be tried again`() async throws {
    let server = try CableLoopbackServer(channels: [
      SocketChannel.notification: { _ in }, SocketChannel.chat: { $0.reject() },
    ])
    let store = makeStore(server)
    store.dispatch(Actions.DidReceiveCurrentUser(user: User(token: "Bearer secret")))
    for count in 1...2 {
      store.dispatch(Actions.ConnectChat(id: 7))
      let state = await store.wait { state in
        state.signals.filter { $0 == "chat 7 ended: rejected" }.count == count
      }
      #expect(state?.signals.filter { $0 == "chat 7 rejected" }.count == count)
    }
    server.shutDown()
  }

  @Test func `the live environment connects to the host with the token alone`() async throws {
    let called = AsyncStream.makeStream(of: MockWebSocketHandler.Method.self)
    let handler = MockWebSocketHandler(onCall: { called.continuation.yield($0) })
    let environment = WebSocketsMiddleware.buildLiveEnvironment(host: "chat.example", handler: { handler })
    let client = environment.clientBuilder("Bearer secret")
    client.connect(completion: { _ in })
    for await method in called.stream where method == .connect { break }
    // A machine that is slow enough sees a second attempt, after a server that never said welcome.
    #expect(Set(handler.requests.map(\.url.absoluteString)) == ["wss://chat.example/cable?token=secret"])
    #expect(try environment.channelBuilder(nil, "ChatChannel", nil) == nil)
    withExtendedLifetime(client) {}
  }
}
