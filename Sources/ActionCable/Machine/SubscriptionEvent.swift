public import WebSocketHandling

/// What happens to a subscription, in order; `ended` comes exactly once, and last.
public enum SubscriptionEvent: Sendable, Equatable {
  /// The server confirmed the subscription: actions reach it from now on.
  ///
  /// Once per connection; `reconnected` where it had been confirmed on an earlier one.
  case confirmed(reconnected: Bool)
  /// The channel sent data. It may come before `confirmed`.
  case message(CableMessage)
  /// You may have missed messages: fetch what you need.
  case gap(Gap)
  /// The connection ended, or none came about and none will. The subscription stays registered.
  case disconnected(DisconnectCause, willReconnect: Bool)
  /// Nothing more will come.
  case ended(SubscriptionEnd)
}

/// Why messages may be missing.
public enum Gap: Sendable, Hashable {
  /// The connection was lost and is back: the server keeps nothing for who is away.
  case reconnected
  /// So many messages were dropped here, because they came faster than they were taken.
  case overflow(dropped: Int)
}

/// Why a subscription ended.
public enum SubscriptionEnd: Error, Sendable, Hashable {
  /// The caller unsubscribed.
  case unsubscribed
  /// The server rejected it; messages that say why may have come before.
  case rejected
  /// The server said nothing, as it does where the channel is unknown or fails.
  case timedOut
  /// The client was shut down or released.
  case shutdown
}

/// Why there is no connection.
public enum DisconnectCause: Error, Sendable, Hashable {
  /// The caller wanted it.
  case requested
  /// The server sent a `disconnect` frame with this reason; nil: with none.
  case server(DisconnectReason?)
  /// The server said nothing for too long.
  case stale
  /// The server did not say `welcome` in time.
  case noWelcome
  /// The server agreed to this subprotocol, which is not Action Cable's; nil: to none.
  case unsupportedSubprotocol(String?)
  /// No connection came about, or it broke.
  case lost(EngineError.WebSocketError)
  /// A limit of the policy was reached: so many failures in a row, the last of which is this.
  case gaveUp(failures: Int, EngineError.WebSocketError)
}

/// What became of a message to a channel.
public enum PerformOutcome: Sendable, Hashable {
  /// The operating system took its last byte; a connection that breaks afterwards can still lose it.
  case written
  /// There was no connection. Nothing was written.
  case notConnected
  /// The server has not confirmed the subscription, or it has ended. Nothing was written.
  case notSubscribed
  /// Too much was waiting for a confirmation. Nothing was written.
  case bufferFull
  /// It waited for a confirmation as long as it may. Nothing was written.
  case expired
  /// It could not be made into a message. Nothing was written.
  case invalid(InvalidData)
  /// The connection did not take it, such as one over its limit. Nothing was written.
  case refused(EngineError.WebSocketError)
  /// It was given to a connection that then broke: the server may have it or not.
  case maybeDelivered(EngineError.WebSocketError)
}

/// Why a value cannot be sent to a channel.
public enum InvalidData: Error, Sendable, Hashable {
  /// It cannot be encoded.
  case unencodable(reason: String)
  /// It is no JSON object.
  case notAnObject
  /// It has a key `action`, which is the action's own name.
  case actionIsReserved
}
