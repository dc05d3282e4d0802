/// What may wait in a ``ReconnectingSession``'s outbox, and how long.
public struct OutboxLimits: Sendable, Hashable {
  /// The most messages without an outcome, those included that are being written or not yet acknowledged.
  ///
  /// Default: 1,000.
  public var messages: Int
  /// The most bytes of messages without an outcome: payload plus 64 for each.
  ///
  /// Default: 1 MiB.
  ///
  /// One message always fits an empty outbox, so that the handler's own limit decides about large ones.
  public var bytes: Int
  /// How long a message may wait for a connection, and for its acknowledgement where it has a key for one.
  ///
  /// Default: 60 s, twice the longest wait of the default schedule.
  public var age: Duration

  /// Limits; a message over one is dropped, never an older one in its favour.
  public init(messages: Int = 1_000, bytes: Int = 1 << 20, age: Duration = .seconds(60)) {
    self.messages = messages
    self.bytes = bytes
    self.age = age
  }
}

/// What a message is worth while there is no connection.
public enum Delivery: Sendable, Hashable {
  /// Dropped unless there is a connection now.
  case whenConnected
  /// Kept for the next connection, and written to one connection at most.
  case once
  /// Kept, and written again where a connection broke before the message was known to be written, or acknowledged where
  /// it has a key for that: it may arrive twice.
  case again
}

/// What became of a message.
public enum DeliveryOutcome: Sendable, Hashable {
  /// The operating system took its last byte; a connection that breaks afterwards can still lose it.
  case written
  /// The application said that it arrived (``ReconnectingSession/acknowledge(_:)``).
  case acknowledged
  /// It waited for a connection as long as it may. No byte was written.
  case expired
  /// It was given up for this reason. No byte was written.
  case dropped(EngineError.WebSocketError)
  /// It was given to a connection that then broke in this way: the server may have it or not.
  case maybeDelivered(EngineError.WebSocketError)

  /// The outcome as the completion of a `send` tells it.
  package var result: Result<Void, EngineError.WebSocketError> {
    switch self {
    case .written, .acknowledged: .success(())
    case .expired: .failure(.timedOut(.outbox))
    case .dropped(let failure), .maybeDelivered(let failure): .failure(failure)
    }
  }
}
