/// What a channel's body gives back: how its instance takes values, and how it is closed.
///
/// Both are called on the supervisor's queue, one after the other. `cancel` is called exactly once, also after the
/// instance has ended by itself, and `receive` never after it.
public struct ChannelHandler<Value: Sendable>: Sendable {
  /// Takes a value of the state.
  let receive: @Sendable (Value) -> Void
  /// Takes a value that was broadcast.
  let broadcast: @Sendable (Value) -> Void
  let cancel: @Sendable () -> Void

  /// A handler.
  ///
  /// - Parameters:
  ///   - receive: takes each value, of the state or broadcast. Must not block.
  ///   - cancel: releases what the body acquired. Must not block.
  public init(receive: @escaping @Sendable (Value) -> Void, cancel: @escaping @Sendable () -> Void) {
    self.init(receive: receive, broadcast: receive, cancel: cancel)
  }

  /// A handler that tells the state from what is broadcast.
  ///
  /// - Parameters:
  ///   - receive: takes each value of the state; a newer one makes an older one worthless.
  ///   - broadcast: takes each value that is broadcast; each counts.
  ///   - cancel: releases what the body acquired.
  public init(
    receive: @escaping @Sendable (Value) -> Void, broadcast: @escaping @Sendable (Value) -> Void,
    cancel: @escaping @Sendable () -> Void
  ) {
    self.receive = receive
    self.broadcast = broadcast
    self.cancel = cancel
  }
}

extension ChannelHandler where Value == Never {
  /// A handler that takes no values.
  public static func cancelOnly(_ cancel: @escaping @Sendable () -> Void) -> ChannelHandler {
    ChannelHandler(receive: { _ in }, cancel: cancel)
  }
}
