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

private enum Action: Sendable {
  case number(Int)
  case ended
  case other
}

private struct NumberActionMapper: ActionMapping {
  func actions(from output: Int, state: Int) -> [Action] { [.number(output)] }
}

private func signal<Message>(_ signal: BridgeSignal<Message>) -> [Action] {
  switch signal {
  case .ended(nil): [.ended]
  case .connected: []
  case .disconnected, .mayHaveMissed, .rejected, .undecodable, .noChannel, .ended: [.other]
  }
}

/// A store that counts.
private final class CountingStore: Sendable {
  struct Counts: Sendable, Equatable {
    var numbers = 0
    var isInOrder = true
    var batches = 0
    var largestBatch = 0
    var reads = 0
    var others = 0
  }

  private let state = Lock(Counts())
  let ended = AsyncStream.makeStream(of: Void.self)

  var counts: Counts { state.withLock { $0 } }

  var port: StorePort<Int, Action> {
    StorePort(
      withState: { [self] actions in
        state.withLock { $0.reads += 1 }
        return actions(0)
      },
      dispatch: { [self] actions in
        let isEnd = state.withLock { state in
          var isEnd = false
          var numbers = 0
          for action in actions {
            switch action {
            case .number(let number):
              if number != state.numbers { state.isInOrder = false }
              state.numbers += 1
              numbers += 1
            case .ended: isEnd = true
            case .other: state.others += 1
            }
          }
          if numbers > 0 { state.batches += 1 }
          state.largestBatch = max(state.largestBatch, numbers)
          return isEnd
        }
        if isEnd { ended.continuation.finish() }
      })
  }

  func waitForEnd() async { for await _ in ended.stream {} }
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
