/// A long-lived thing, such as a connection, that a program wants to have open: what it is, and how to open it.
///
/// A value says what is desired and does nothing by itself. A ``ChannelSupervisor`` compares the channels that are
/// desired now with those that are open, and opens, keeps, feeds and closes instances of them.
public struct Channel<Action: Sendable>: Sendable {
  let wish: Wish
  /// Whether the channel takes this value.
  let accepts: @Sendable (any Sendable) -> Bool
  let open: @Sendable (ChannelContext<Action>) -> AnyChannelHandler

  /// A channel that is given a value of the state.
  ///
  /// - Parameters:
  ///   - id: tells channels of a supervisor apart, by type and value.
  ///   - lifetime: when a new instance replaces the old one. Default: never.
  ///   - broadcasting: the value of the state that an instance opens with, and hears the changes of.
  ///   - delivery: the pace of values after the opening. Default: each at once.
  ///   - restart: what happens when an instance ends by itself. Default: nothing.
  ///   - body: opens an instance. Called on the supervisor's queue; must not block.
  public init<Value: Hashable & Sendable>(
    id: some Hashable & Sendable, lifetime: Lifetime = .permanent, broadcasting: Broadcasting<Value>,
    delivery: ChannelDelivery = .immediate, restart: Restart = .never,
    _ body: @escaping @Sendable (ChannelContext<Action>) -> ChannelHandler<Value>
  ) {
    let value: Key? =
      switch broadcasting {
      case .nothing: nil
      case .onChange(let value): Key(value)
      }
    self.init(Key(id), lifetime, value, delivery, restart, body)
  }

  /// A channel that hears only what is broadcast to it.
  ///
  /// - Parameters:
  ///   - id: tells channels of a supervisor apart, by type and value.
  ///   - lifetime: when a new instance replaces the old one. Default: never.
  ///   - delivery: the pace of values. Default: each at once.
  ///   - restart: what happens when an instance ends by itself. Default: nothing.
  ///   - body: opens an instance. Called on the supervisor's queue; must not block.
  public init<Value: Sendable>(
    id: some Hashable & Sendable, lifetime: Lifetime = .permanent, delivery: ChannelDelivery = .immediate,
    restart: Restart = .never, _ body: @escaping @Sendable (ChannelContext<Action>) -> ChannelHandler<Value>
  ) {
    self.init(Key(id), lifetime, nil, delivery, restart, body)
  }

  private init<Value: Sendable>(
    _ key: Key, _ lifetime: Lifetime, _ value: Key?, _ delivery: ChannelDelivery, _ restart: Restart,
    _ body: @escaping @Sendable (ChannelContext<Action>) -> ChannelHandler<Value>
  ) {
    wish = Wish(
      key: key, lifetime: lifetime, valueType: ObjectIdentifier(Value.self), value: value, delivery: delivery,
      restart: restart)
    accepts = { $0 is Value }
    open = { AnyChannelHandler(body($0)) }
  }
}

/// A handler whose type of values is forgotten; a value of another type is ignored.
struct AnyChannelHandler: Sendable {
  let receive: @Sendable (any Sendable, ValueOrigin) -> Void
  let cancel: @Sendable () -> Void

  init<Value: Sendable>(_ handler: ChannelHandler<Value>) {
    receive = { value, origin in
      guard let value = value as? Value else { return }
      switch origin {
      case .state: handler.receive(value)
      case .broadcast: handler.broadcast(value)
      }
    }
    cancel = handler.cancel
  }
}
