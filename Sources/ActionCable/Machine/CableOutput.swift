/// What a ``CableMachine`` tells and wants done.
package enum CableOutput: Sendable, Equatable {
  /// The server said `welcome`: the connection counts from now.
  case connected
  /// The connection is to be closed.
  case end(DisconnectCause, willRetry: Bool)
  /// A frame's text is to be sent; `perform` where somebody wants to know what becomes of it.
  case send(String, perform: UInt64?)
  /// The connection is gone, or none came about and none will; told before its subscribers are.
  case disconnected(DisconnectCause, willReconnect: Bool)
  /// A channel sent data; told before its subscribers get it.
  case message(CableMessage)
  case event(subscriber: UInt64, SubscriptionEvent)
  case outcome(perform: UInt64, PerformOutcome)
  case ping
  case ignored(Ignored)
}

/// A frame that leads to nothing.
package enum Ignored: Sendable, Hashable {
  /// Not text, or no JSON object.
  case malformed
  /// Of a type that is unknown, or that says nothing now.
  case unexpected
  /// For an identifier that nobody has subscribed to.
  case unclaimed(identifier: String)
}
