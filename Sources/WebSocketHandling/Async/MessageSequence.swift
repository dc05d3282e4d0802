import WebSocketCore
import WebSocketTransport

/// The messages of a ``WebSocketHandler`` in their order; see ``WebSocketHandler/messages(of:)``.
public struct MessageSequence<Message: Decodable & Sendable>: AsyncSequence, Sendable {
  /// One message.
  public typealias Element = Message

  let handler: any WebSocketHandler

  /// An iterator.
  ///
  /// One at a time: two would share the messages between them.
  public func makeAsyncIterator() -> Iterator { Iterator(mailbox: Mailbox(handler)) }

  /// Asks for one message at each call of ``next()``.
  public struct Iterator: AsyncIteratorProtocol {
    fileprivate let mailbox: Mailbox<Message>

    /// The next message; nil after a clean close.
    ///
    /// - Throws: ``EngineError/WebSocketError``, or `CancellationError` where the task is cancelled: the message that
    ///   was asked for then waits for the next call.
    public mutating func next() async throws -> Message? {
      switch try await mailbox.next() {
      case .success(let message): return message
      case .failure(.closed(let record)) where record.isClean: return nil
      case .failure(let error): throw error
      }
    }
  }
}

/// Holds the one outstanding receive and its result.
private final class Mailbox<Message: Decodable & Sendable>: Sendable {
  typealias Outcome = Result<Message, EngineError.WebSocketError>

  private enum State: Sendable {
    case idle
    /// Asked, nobody waits.
    case asked
    /// Asked, and a task waits.
    case waiting(CheckedContinuation<Outcome?, Never>)
    /// Answered, nobody has taken it.
    case answered(Outcome)
  }

  private let handler: any WebSocketHandler
  private let state = Lock(State.idle)

  init(_ handler: any WebSocketHandler) { self.handler = handler }

  func next() async throws -> Outcome {
    try Task.checkCancellation()
    let mustAsk = state.withLock { state in
      guard case .idle = state else { return false }
      state = .asked
      return true
    }
    if mustAsk {
      handler.receive { [self] (outcome: Outcome) in answer(outcome) }
    }
    let outcome = await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        let ready = state.withLock { state -> Outcome?? in
          if case .answered(let outcome) = state {
            state = .idle
            return .some(outcome)
          }
          if Task.isCancelled { return .some(nil) }
          state = .waiting(continuation)
          return nil
        }
        if let ready { continuation.resume(returning: ready) }
      }
    } onCancel: {
      let waiting = state.withLock { state -> CheckedContinuation<Outcome?, Never>? in
        guard case .waiting(let continuation) = state else { return nil }
        state = .asked
        return continuation
      }
      waiting?.resume(returning: nil)
    }
    guard let outcome else { throw CancellationError() }
    return outcome
  }

  private func answer(_ outcome: Outcome) {
    let waiting = state.withLock { state -> CheckedContinuation<Outcome?, Never>? in
      if case .waiting(let continuation) = state {
        state = .idle
        return continuation
      }
      state = .answered(outcome)
      return nil
    }
    waiting?.resume(returning: outcome)
  }
}
