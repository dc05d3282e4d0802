public import WebSocketCore

/// Hears what happens in an ``ActionCableClient``, beside its subscriptions.
///
/// Called on the client's queue, in order, taps in the order in which they were added.
public final class ClientTap: Sendable {
  let onConnected: (@Sendable (HTTPFields) -> Void)?
  let onDisconnected: (@Sendable (DisconnectCause) -> Void)?
  let onText: (@Sendable (String) -> Void)?
  let onMessage: (@Sendable (CableMessage) -> Void)?
  let onPing: (@Sendable () -> Void)?

  /// A tap, for ``ActionCableClient/add(_:)``.
  ///
  /// - Parameters:
  ///   - onConnected: the server said `welcome`; with the headers of the request.
  ///   - onDisconnected: the connection ended, or none came about and none will.
  ///   - onText: a frame arrived; its text as it is.
  ///   - onMessage: a channel that somebody subscribed to sent data.
  ///   - onPing: the server sent one of its pings.
  public init(
    onConnected: (@Sendable (HTTPFields) -> Void)? = nil,
    onDisconnected: (@Sendable (DisconnectCause) -> Void)? = nil,
    onText: (@Sendable (String) -> Void)? = nil, onMessage: (@Sendable (CableMessage) -> Void)? = nil,
    onPing: (@Sendable () -> Void)? = nil
  ) {
    self.onConnected = onConnected
    self.onDisconnected = onDisconnected
    self.onText = onText
    self.onMessage = onMessage
    self.onPing = onPing
  }
}
