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
    if let handler = handler as? DefaultWebSocketHandler { return Iterator(source: .kept(handler)) }
    return Iterator(source: .mailbox(Mailbox(handler)))
  }

  /// Asks for one message at each call of ``next()``.
  public struct Iterator: AsyncIteratorProtocol {
    @usableFromInline
    enum Source: Sendable {
      /// The library's own handler, which keeps messages: they are taken without suspending.
      case kept(DefaultWebSocketHandler)
      /// Any other.
      case mailbox(Mailbox<Message>)
    }

    @usableFromInline
    let source: Source

    /// The next message; nil after a clean close.
    ///
    /// - Throws: ``EngineError/WebSocketError``, or `CancellationError` where the task is cancelled: the message that
    ///   was asked for then waits for the next call.
    @inlinable
    public mutating func next() async throws -> Message? { try await next(isolation: nil) }

    /// The next message, as ``next()``, without leaving the caller's actor.
    ///
    /// Inlinable, so that a message that is kept is taken without looking its type up.
    @inlinable
    public mutating func next(isolation actor: isolated (any Actor)?) async throws -> Message? {
      try Task.checkCancellation()
      if case .kept(let handler) = source, let message = handler.takeMessage() {
        if let message = message as? Message { return message }
        return try handler.decode(message, as: Message.self)
      }
      return try await waitForMessage()
    }

    /// Apart from ``next(isolation:)``, so that little is inlined.
    @usableFromInline
    func waitForMessage(isolation actor: isolated (any Actor)? = #isolation) async throws -> Message? {
      switch source {
      case .kept(let handler):
        guard let outcome = await handler.nextMessage() else { throw CancellationError() }
        guard let message = try outcome.messageOrEnd() else { return nil }
        return try handler.decode(message, as: Message.self)
      case .mailbox(let mailbox):
        guard let outcome = await mailbox.next() else { throw CancellationError() }
        return try outcome.messageOrEnd()
      }
    }
  }
}

extension Result where Failure == EngineError.WebSocketError {
  /// The message; nil after a clean close.
  fileprivate func messageOrEnd() throws(EngineError.WebSocketError) -> Success? {
    switch self {
    case .success(let message): return message
    case .failure(.closed(let record)) where record.isClean: return nil
    case .failure(let error): throw error
    }
  }
}

extension DefaultWebSocketHandler {
  /// Waits for the next message; nil where the task was cancelled, and then no message is lost.
  fileprivate func nextMessage(
    isolation actor: isolated (any Actor)? = #isolation
  ) async -> Result<WebSocketMessage, EngineError.WebSocketError>? {
    let waiting = WakingReceive()
    return await withTaskCancellationHandler {
      await withUnsafeContinuation { continuation in
        waiting.continuation = continuation
        receive(waiting)
        // Cancelled before it waited: the handler below found nothing to withdraw.
        if Task.isCancelled, withdraw(waiting) { continuation.resume(returning: nil) }
      }
    } onCancel: {
      // A receive that is answered already keeps its message: it is returned all the same.
      if withdraw(waiting) { waiting.continuation?.resume(returning: nil) }
    }
  }
}

/// Wakes the task that waits for a message.
private final class WakingReceive: PendingReceive {
  // Safe: set before the receive waits, and read by who takes it out of those that wait, under the connection's lock.
  // That happens once, which is also why the continuation is resumed once.
  nonisolated(unsafe) var continuation:
    UnsafeContinuation<Result<WebSocketMessage, EngineError.WebSocketError>?, Never>?

  var onlyWakes: Bool { true }

  func complete(_ result: Result<WebSocketMessage, EngineError.WebSocketError>) {
    continuation?.resume(returning: result)
  }
}

/// Holds the one outstanding receive of any handler, and its result.
@usableFromInline
final class Mailbox<Message: Decodable & Sendable>: Sendable {
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

  /// The next message, or why none comes; nil where the task was cancelled, and then no message is lost.
  func next(isolation actor: isolated (any Actor)? = #isolation) async -> Outcome? {
    let mustAsk = state.withLock { state in
      guard case .idle = state else { return false }
      state = .asked
      return true
    }
    if mustAsk {
      handler.receive { [self] (outcome: Outcome) in answer(outcome) }
    }
    return await withTaskCancellationHandler {
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
