import Dispatch
import Foundation
import SupervisedChannels
import Testing
import WebSocketCore
import WebSocketHandling
import WebSocketTesting
import WebSocketTransport
import TestSupport

/// A supervisor whose channels are WebSockets in a manual environment.
private final class SocketBench: Sendable {
  static let request = NetworkRequest(url: URL(string: "ws://192.0.2.1/") ?? URL(filePath: "/"))

  let manual = ManualEnvironment()
  let supervisor: ChannelSupervisor<String>
  private let actions = SharedList<String>()

  init() {
    let actions = actions
    supervisor = ChannelSupervisor(
      environment: manual.environment,
      onEnd: { end in
        actions.append("ended: \(end.error.map { "\($0)" } ?? "clean"), restarts: \(end.restartAfter != nil)")
      },
      dispatch: { actions.append($0) })
  }

  func takeActions() -> [String] {
    manual.settle()
    return actions.take()
  }

  func channel(value: String? = nil, maximumKept: Int = 1_000, restart: Restart = .never) -> Channel<String> {
    Channel(id: "a", broadcasting: value.map { .onChange($0) } ?? .nothing, restart: restart) { [manual] context in
      .webSocket(
        Self.request, over: DefaultWebSocketHandler(logger: SilentLogger(), environment: manual.environment),
        for: context, maximumKept: maximumKept, problem: { "problem: \($0)" },
        action: { (number: Int) in "\(number)" })
    }
  }

  func broadcast(_ value: String) -> BroadcastOutcome { supervisor.broadcast(value, channel: "a") }

  /// Opens the connection that is made next.
  func open() throws -> MemoryConnection {
    let server = try manual.nextConnection()
    try server.open()
    manual.settle()
    return server
  }

  /// The texts that a server was sent, out of their JSON.
  func texts(_ server: MemoryConnection) throws -> [String] {
    manual.settle()
    var texts: [String] = []
    while let frame = try? server.readFrame() {
      if frame.opcode == .text { texts.append(try JSONDecoder().decode(String.self, from: Data(frame.payload))) }
    }
    return texts
  }
}

@Suite("A WebSocket as a channel")
struct ChannelSocketTests {
  @Test func `before the socket is open the newest value of the state and all that is broadcast are kept`() throws {
    let bench = SocketBench()
    for value in ["online", "away"] { bench.supervisor.reconcile([bench.channel(value: value)]) }
    #expect([bench.broadcast("hi"), bench.broadcast("hi")] == [.delivered, .delivered])
    bench.supervisor.reconcile([bench.channel(value: "busy")])
    let server = try bench.open()
    #expect(try bench.texts(server) == ["hi", "hi", "busy"])
    _ = bench.broadcast("hi")
    bench.supervisor.reconcile([bench.channel(value: "online")])
    #expect(try bench.texts(server) == ["hi", "online"])
    #expect(bench.takeActions() == [])
  }

  @Test func `what is broadcast over the limit before the socket is open is dropped and told`() throws {
    let bench = SocketBench()
    bench.supervisor.reconcile([bench.channel(maximumKept: 2)])
    for text in ["1", "2", "3"] { _ = bench.broadcast(text) }
    let limit = Failure.limitExceeded(.sendQueue, size: 3, limit: 2)
    #expect(bench.takeActions() == ["problem: \(limit)"])
    #expect(try bench.texts(try bench.open()) == ["1", "2"])
  }

  @Test func `a cancel before the socket is open gives the connect up`() throws {
    let bench = SocketBench()
    bench.manual.script(address: "192.0.2.1", .never)
    bench.supervisor.reconcile([bench.channel(value: "x")])
    bench.manual.settle()
    #expect(bench.manual.pendingDials == 1)
    bench.supervisor.cancel(id: "a")
    bench.manual.settle()
    #expect(bench.manual.pendingDials == 0)
    #expect(!bench.manual.hasTimers)
    #expect(bench.takeActions() == [])
  }

  @Test func `messages become actions, one that cannot be decoded a problem, and the socket goes on`() throws {
    let bench = SocketBench()
    bench.supervisor.reconcile([bench.channel()])
    let server = try bench.open()
    for text in ["1", "2", "x", "3"] { server.send(.text(text)) }
    let actions = bench.takeActions()
    #expect(actions.count == 4)
    #expect(actions.filter { !$0.hasPrefix("problem: ") } == ["1", "2", "3"])
    #expect(actions[2].hasPrefix("problem: "))
  }

  @Test func `a connection that ends ends its instance, and the next one connects anew`() throws {
    let bench = SocketBench()
    bench.supervisor.reconcile([bench.channel(value: "x", restart: .backoff())])
    let first = try bench.open()
    first.send(.text("1"))
    first.sendClose(.goingAway)
    bench.manual.settle()
    first.finish()
    #expect(bench.takeActions() == ["1", "ended: clean, restarts: true"])
    bench.supervisor.reconcile([bench.channel(value: "y", restart: .backoff())])
    bench.manual.advance(by: .seconds(1))
    let second = try bench.open()
    #expect(try bench.texts(second) == ["y"])
    second.reset()
    let end = bench.takeActions()
    #expect(end.count == 1)
    #expect(end.first?.hasPrefix("ended: ") == true)
    #expect(end.first?.hasPrefix("ended: clean") == false)
  }

  @Test func `a failed connect ends its instance`() throws {
    let bench = SocketBench()
    bench.manual.script(address: "192.0.2.1", .refused())
    bench.supervisor.reconcile([bench.channel(restart: .never)])
    let actions = bench.takeActions()
    #expect(actions.count == 1)
    #expect(actions.first?.hasSuffix("restarts: false") == true)
  }

  @Test func `the release of the supervisor closes the connection with a closing handshake`() throws {
    let manual: ManualEnvironment
    let server: MemoryConnection
    do {
      let bench = SocketBench()
      bench.supervisor.reconcile([bench.channel(value: "x")])
      server = try bench.open()
      #expect(try bench.texts(server) == ["x"])
      manual = bench.manual
    }
    manual.settle()
    #expect(try server.readFrame().opcode == .close)
  }

  @Test func `the next message is received when the one before was taken`() async throws {
    let handler = MockWebSocketHandler()
    let socket = ChannelSocket(handler) { Issue.record("\($0)") }
    let messages = AsyncStream.makeStream(of: (Int, @Sendable () -> Void).self)
    socket.open(
      SocketBench.request, onMessage: { messages.continuation.yield(($0, $1)) },
      onEnd: { _ in messages.continuation.finish() })
    var iterator = messages.stream.makeAsyncIterator()
    while handler.pendingReceives == 0 { await Task.yield() }
    for number in 1...3 { handler.inject(.text("\(number)")) }
    for number in 1...3 {
      let (received, next) = try #require(await iterator.next())
      #expect(received == number)
      #expect(handler.pendingReceives == 0)
      next()
    }
    socket.close()
  }

  @Test func `a handler that does not say that its connection is closed is told to close it`() {
    let closed = CloseRecord(code: .goingAway, initiator: .peer, isClean: true, transportEnd: .finished)
    for (failure, closes) in [(.messageReceiveFailed("broken"), [.normalClosure]), (.closed(closed), [])]
      as [(Failure, [CloseCode])]
    {
      let queue = DispatchQueue(label: "mock")
      let mock = MockWebSocketHandler(queue: queue)
      let ends = SharedList<Failure?>()
      let socket = ChannelSocket(mock) { _ in }
      socket.open(SocketBench.request, onMessage: { (_: Int, next) in next() }, onEnd: { ends.append($0) })
      for _ in 0..<4 { queue.sync {} }
      mock.fail(with: failure)
      for _ in 0..<4 { queue.sync {} }
      #expect(ends.take().count == 1)
      socket.close()
      #expect(mock.closes == closes)
      #expect(mock.misuses == [])
    }
  }
}
