import Dispatch
import Foundation
import StoreBridge
import Testing
import WebSocketCore
import WebSocketHandling
import WebSocketTesting
import TestSupport

/// Texts as they are.
private struct TextMapper: OutputMapping {
  func map(from message: WebSocketMessage) -> String? { String(decoding: message.data, as: UTF8.self) }
}

private struct TextActionMapper: ActionMapping {
  func actions(from output: String, state: Void) -> [String] { [output] }
}

private final class HandlerBench: Sendable {
  private static let request = NetworkRequest(url: URL(string: "ws://192.0.2.1/") ?? URL(filePath: "/"))

  let manual = ManualEnvironment()
  let runner = EffectRunner<String>()
  private let actions = SharedList<String>()

  func run(reconnecting policy: ReconnectPolicy? = nil) {
    let (actions, environment) = (actions, manual.environment)
    let effect = SocketChannelEffect(
      store: StorePort<Void, String>(
        withState: { $0(()) }, dispatch: { for action in $0 { actions.append(action) } }),
      channelBuilder: {
        let handler = DefaultWebSocketHandler(logger: SilentLogger(), environment: environment)
        guard let policy else { return HandlerSource(handler, request: Self.request) }
        return HandlerSource(
          handler, request: Self.request, reconnecting: policy, logger: SilentLogger(), environment: environment)
      }, outputMapper: TextMapper(), actionMapper: TextActionMapper(), environment: environment,
      signal: { [$0.name] })
    runner.run(effect, cancellation: "id")
  }

  func open() throws -> MemoryConnection {
    let server = try manual.nextConnection()
    try server.open()
    manual.settle()
    return server
  }

  func take(after duration: Duration = .seconds(1)) -> [String] {
    manual.advance(by: duration)
    return actions.take()
  }
}

@Suite("A WebSocket as a source")
struct HandlerSourceTests {
  @Test func `messages, and the end of the connection, become actions`() throws {
    let bench = HandlerBench()
    bench.run()
    let server = try bench.open()
    for text in ["a", "b"] { server.send(.text(text)) }
    bench.manual.settle()
    server.sendClose(.goingAway)
    bench.manual.settle()
    server.finish()
    #expect(bench.take() == ["connected", "a", "b", "ended: nil"])
    #expect(!bench.runner.isRunning("id"))
    #expect(!bench.manual.hasTimers)
  }

  @Test func `a failed connect is the end, with its error`() throws {
    let bench = HandlerBench()
    bench.manual.script(address: "192.0.2.1", .refused())
    bench.run()
    let actions = bench.take()
    #expect(actions.count == 1)
    #expect(actions.first?.hasPrefix("ended: ") == true && actions != ["ended: nil"])
  }

  @Test func `a cancel closes the connection, or gives the connect up, without an action`() throws {
    let bench = HandlerBench()
    bench.run()
    let server = try bench.open()
    bench.runner.cancel(by: "id")
    bench.manual.settle()
    #expect(try server.readClose() == .normalClosure)
    server.sendClose(.normalClosure)
    server.finish()
    #expect(bench.take() == ["connected"])
    #expect(server.clientHasClosed)

    bench.manual.script(address: "192.0.2.1", .never)
    bench.run()
    bench.manual.settle()
    #expect(bench.manual.pendingDials == 1)
    bench.runner.cancelAll()
    #expect(bench.take(after: .seconds(60)) == [])
    #expect(bench.manual.pendingDials == 0)
  }

  @Test func `with a policy a loss and the return are told, and the end is the policy's`() throws {
    let policy = ReconnectPolicy(backoff: Backoff(first: .zero, base: .zero, maximum: .zero))
    let bench = HandlerBench()
    bench.run(reconnecting: policy)
    let first = try bench.open()
    first.send(.text("a"))
    bench.manual.settle()
    first.reset()
    let second = try bench.open()
    second.send(.text("b"))
    #expect(bench.take() == ["connected", "a", "disconnected, true", "reconnected", "b"])
    second.sendClose(.normalClosure)
    bench.manual.settle()
    second.finish()
    #expect(bench.take() == ["ended: nil"])
    #expect(!bench.runner.isRunning("id"))
  }

  @Test func `with a policy a cancel closes the connection for good`() throws {
    let bench = HandlerBench()
    bench.run(reconnecting: ReconnectPolicy())
    let server = try bench.open()
    bench.runner.cancel(by: "id")
    bench.manual.settle()
    #expect(try server.readClose() == .normalClosure)
    server.sendClose(.normalClosure)
    server.finish()
    #expect(bench.take(after: .seconds(600)) == ["connected"])
    #expect(!bench.manual.hasTimers)
  }

  @Test func `a handler that does not say that its connection is closed is told to close it`() {
    let request = NetworkRequest(url: URL(string: "ws://192.0.2.1/") ?? URL(filePath: "/"))
    let closed = CloseRecord(code: .goingAway, initiator: .peer, isClean: true, transportEnd: .finished)
    for (failure, closes) in [(.messageReceiveFailed("broken"), [.normalClosure]), (.closed(closed), [])]
      as [(EngineError.WebSocketError, [CloseCode])]
    {
      let queue = DispatchQueue(label: "mock")
      let mock = MockWebSocketHandler(queue: queue)
      let signals = SharedList<String>()
      let source = HandlerSource(mock, request: request)
      source.start(onMessage: { $1() }, onSignal: { signals.append($0.name) })
      for _ in 0..<4 { queue.sync {} }
      mock.fail(with: failure)
      for _ in 0..<4 { queue.sync {} }
      #expect(signals.take().count == 2)
      source.cancel()
      #expect(mock.closes == closes)
      #expect(mock.misuses == [])
    }
  }

  @Test func `a connect that succeeds after the cancel leaves no connection open`() {
    let handler = LateHandler()
    let signals = SharedList<String>()
    let source = HandlerSource(
      handler, request: NetworkRequest(url: URL(string: "ws://192.0.2.1/") ?? URL(filePath: "/")))
    source.start(onMessage: { $1() }, onSignal: { signals.append($0.name) })
    source.cancel()
    handler.succeed()
    #expect(!handler.isConnected)
    #expect(signals.take() == [])
  }
}
