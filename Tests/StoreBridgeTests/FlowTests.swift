import Dispatch
import Foundation
import StoreBridge
import Testing
import WebSocketHandling
import WebSocketServing
import WebSocketTransport

/// Numbers as they are.
private struct SameMapper: OutputMapping {
  func map(from message: Int) -> Int? { message }
}

private struct TextMapper: OutputMapping {
  func map(from message: WebSocketMessage) -> Int? {
    if case .text(let text) = message { Int(text) } else { nil }
  }
}

/// A source that gives numbers as fast as they are asked for.
private final class NumberSource: MessageSource {
  private let count: Int
  private let onGiven: @Sendable (Int) -> Void

  init(count: Int, onGiven: @escaping @Sendable (Int) -> Void) {
    self.count = count
    self.onGiven = onGiven
  }

  func start(
    onMessage: @escaping @Sendable (Int, _ next: @escaping @Sendable () -> Void) -> Void,
    onSignal: @escaping @Sendable (BridgeSignal<Int>) -> Void
  ) {
    let (count, onGiven) = (count, onGiven)
    Thread.detachNewThread {
      let asked = DispatchSemaphore(value: 1)
      for number in 0..<count {
        asked.wait()
        onGiven(number)
        onMessage(number) { asked.signal() }
      }
      onSignal(.ended(nil))
    }
  }

  func cancel() {}
}

@Suite("A million messages at full speed", .timeLimit(.minutes(5)))
struct FlowTests {
  /// Fewer where each costs more: under a sanitizer.
  private static let count = ProcessInfo.processInfo.environment["SANITIZER"] == nil ? 1_000_000 : 50_000

  @Test func `all are dispatched in order, a batch at a time, and few wait`() async {
    let store = CountingStore()
    let most = Lock(0)
    let source = NumberSource(count: Self.count) { number in
      let waiting = number + 1 - store.counts.numbers
      most.withLock { $0 = max($0, waiting) }
    }
    let runner = EffectRunner<Int>()
    runner.run(
      SocketChannelEffect(
        store: store.port, channelBuilder: { source }, outputMapper: SameMapper(), actionMapper: NumberActionMapper(),
        batching: .window(.milliseconds(20), max: 500), signal: signal), cancellation: 1)
    await store.waitForEnd()
    let counts = store.counts
    #expect(counts.numbers == Self.count)
    #expect(counts.isInOrder)
    #expect(counts.reads == counts.batches)
    #expect(counts.largestBatch <= 500)
    #expect(counts.others == 0)
    // A full batch, what waits for the queue, what the queue has taken, and the next.
    #expect(most.withLock { $0 } <= 500 + 256 + 256 + 1)
  }

  @Test func `all that a server sends arrive in order, a batch at a time`() async throws {
    let count = Self.count
    let server = try WebSocketServer { connection in Self.send(from: 0, to: count, over: connection) }
    let store = CountingStore()
    let runner = EffectRunner<Int>()
    let request = NetworkRequest(url: server.url, connectTimeout: .seconds(240), closeTimeout: .seconds(240))
    runner.run(
      SocketChannelEffect(
        store: store.port,
        channelBuilder: { HandlerSource(DefaultWebSocketHandler(), request: request) },
        outputMapper: TextMapper(), actionMapper: NumberActionMapper(), batching: .window(.milliseconds(20)),
        signal: signal), cancellation: 1)
    await store.waitForEnd()
    let counts = store.counts
    #expect(counts.numbers == count)
    #expect(counts.isInOrder)
    #expect(counts.reads == counts.batches)
    #expect(counts.largestBatch <= 1_000)
    #expect(counts.others == 0)
    server.shutDown()
  }

  /// A thousand at a time, so that the server's queue does not grow.
  private static func send(from first: Int, to count: Int, over connection: ServerConnection) {
    guard first < count else { return connection.close() }
    let last = min(first + 1_000, count) - 1
    for number in first..<last { connection.send(.text("\(number)")) }
    connection.send(.text("\(last)")) { [weak connection] result in
      if let connection, case .success = result { send(from: last + 1, to: count, over: connection) }
    }
  }
}
