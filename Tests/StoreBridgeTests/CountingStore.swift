import StoreBridge
import WebSocketTransport

/// What a store that counts is given.
enum Action: Sendable {
  case number(Int)
  case ended
  case other
}

struct NumberActionMapper: ActionMapping {
  func actions(from output: Int, state: Int) -> [Action] { [.number(output)] }
}

func signal<Message>(_ signal: BridgeSignal<Message>) -> [Action] {
  switch signal {
  case .ended(nil): [.ended]
  case .connected: []
  case .disconnected, .mayHaveMissed, .rejected, .undecodable, .noChannel, .ended: [.other]
  }
}

/// A store that counts.
final class CountingStore: Sendable {
  struct Counts: Sendable, Equatable {
    var numbers = 0
    var isInOrder = true
    var batches = 0
    var largestBatch = 0
    var reads = 0
    var others = 0
  }

  private let expected: Int?
  private let onDispatch: @Sendable (Int) -> Void
  private let state = Lock(Counts())
  private let ended = AsyncStream.makeStream(of: Void.self)

  /// - Parameters:
  ///   - expected: after so many numbers nothing more is waited for; nil: until the source ends.
  ///   - onDispatch: hears at the beginning of each dispatch, on the effect's queue, how many numbers came before it.
  init(expecting expected: Int? = nil, onDispatch: @escaping @Sendable (Int) -> Void = { _ in }) {
    self.expected = expected
    self.onDispatch = onDispatch
  }

  var counts: Counts { state.withLock { $0 } }

  var port: StorePort<Int, Action> {
    StorePort(
      withState: { [self] actions in
        state.withLock { $0.reads += 1 }
        return actions(0)
      },
      dispatch: { [self] actions in
        onDispatch(counts.numbers)
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
          return isEnd || state.numbers == expected
        }
        if isEnd { ended.continuation.finish() }
      })
  }

  func waitForEnd() async { for await _ in ended.stream {} }
}
