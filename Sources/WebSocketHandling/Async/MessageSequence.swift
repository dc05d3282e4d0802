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
  public func makeAsyncIterator() -> Iterator {
    if let handler = handler as? DefaultWebSocketHandler { return Iterator(source: KeptMessages(handler)) }
    return Iterator(source: Mailbox(handler))
  }

  /// Asks for one message at each call of ``next()``.
  public struct Iterator: AsyncIteratorProtocol {
    fileprivate let source: any MessageSource<Message>

    /// The next message; nil after a clean close.
    ///
    /// - Throws: ``EngineError/WebSocketError``, or `CancellationError` where the task is cancelled: the message that
    ///   was asked for then waits for the next call.
    public mutating func next() async throws -> Message? {
      switch try await source.next() {
      case .success(let message): return message
      case .failure(.closed(let record)) where record.isClean: return nil
      case .failure(let error): throw error
      }
    }
  }
}

/// Where an iterator finds its messages.
private protocol MessageSource<Message>: AnyObject, Sendable {
  associatedtype Message: Decodable & Sendable

  /// The next message, or why none comes.
  func next() async throws -> Result<Message, EngineError.WebSocketError>
}

/// Takes what the library's own handler keeps, without suspending where something is kept.
private final class KeptMessages<Message: Decodable & Sendable>: MessageSource {
  private let handler: DefaultWebSocketHandler

  init(_ handler: DefaultWebSocketHandler) { self.handler = handler }

  func next() async throws -> Result<Message, EngineError.WebSocketError> {
    try Task.checkCancellation()
    if let message = handler.takeMessage() { return handler.decode(message, as: Message.self) }
    let waiting = WakingReceive()
    handler.receive(waiting)
    let outcome = await withTaskCancellationHandler {
      await waiting.promise.wait()
    } onCancel: { [handler] in
      // A receive that is answered already keeps its message: it is returned all the same.
      if handler.withdraw(waiting) { waiting.promise.give(nil) }
    }
    guard let outcome else { throw CancellationError() }
    return outcome.flatMap { handler.decode($0, as: Message.self) }
  }
}

/// Wakes the task that waits for a message.
private final class WakingReceive: PendingReceive {
  let promise = Promise<Result<WebSocketMessage, EngineError.WebSocketError>?>()

  var onlyWakes: Bool { true }

  func complete(_ result: Result<WebSocketMessage, EngineError.WebSocketError>) { promise.give(result) }
}

/// Holds the one outstanding receive of any handler, and its result.
private final class Mailbox<Message: Decodable & Sendable>: MessageSource {
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
