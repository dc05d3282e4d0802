import WebSocketHandling

/// Where messages come from: a subscription, or any WebSocket.
///
/// A source is started once. It calls one thing at a time, in order, and nothing after it was cancelled.
public protocol MessageSource<Message>: Sendable {
  /// What arrives.
  associatedtype Message: Sendable

  /// Begins.
  ///
  /// - Parameters:
  ///   - onMessage: takes a message, and calls the function it is given when it wants the next, once and on any thread.
  ///     Until then the source asks for none, so that its sender is held back.
  ///   - onSignal: hears of everything else; `ended` is the last.
  func start(
    onMessage: @escaping @Sendable (Message, _ next: @escaping @Sendable () -> Void) -> Void,
    onSignal: @escaping @Sendable (BridgeSignal<Message>) -> Void)

  /// Ends, without a signal.
  func cancel()

  /// What a message counts for while it waits, in bytes: its payload plus 64.
  ///
  /// Default: 64, for messages that are small values. A source of anything larger says how large, so that what waits is
  /// bounded. Called for each message as it arrives, inside `onMessage`, on the source's thread.
  func cost(of message: Message) -> Int
}

extension MessageSource {
  /// That of a message without a payload.
  public func cost(of message: Message) -> Int { messageOverhead }
}
