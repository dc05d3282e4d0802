import WebSocketTransport

/// How a ``CableChannel`` behaves.
public struct ChannelOptions: Sendable, Hashable {
  /// Whether messages that are sent before the confirmation wait for it.
  public var buffering: Bool
  /// Whether it subscribes by itself.
  public var autoSubscribe: Bool

  /// Options; both are off unless asked for.
  public init(buffering: Bool = false, autoSubscribe: Bool = false) {
    self.buffering = buffering
    self.autoSubscribe = autoSubscribe
  }
}

/// A channel with a callback for each kind of event, over a ``Subscription`` of its own.
///
/// Callbacks run on the client's queue, in the order in which they were added. A channel is kept by its client while it
/// is subscribed, and can be subscribed to anew after it ended.
public final class CableChannel: Sendable {
  private struct State: Sendable {
    /// Nil from the moment at which it is unsubscribed, before its end is told.
    var subscription: Subscription?
    /// The number of the last subscription.
    var lastRun: UInt64 = 0
    var isConfirmed = false
    var onSubscribe: [@Sendable () -> Void] = []
    var onMessage: [@Sendable (CableMessage) -> Void] = []
    var onUnsubscribe: [@Sendable () -> Void] = []
    var onReject: [@Sendable () -> Void] = []
    var onPing: [@Sendable () -> Void] = []
    var pings: ClientTap?
  }

  /// Which channel.
  public let identifier: ChannelIdentifier
  /// How it behaves.
  public let options: ChannelOptions
  private let core: CableCore
  private let state = Lock(State())

  init(_ identifier: ChannelIdentifier, _ options: ChannelOptions, core: CableCore) {
    self.identifier = identifier
    self.options = options
    self.core = core
  }

  deinit {
    if let tap = state.withLock({ $0.pings }) { core.update { state, _ in state.taps.removeAll { $0 === tap } } }
  }

  /// Whether the server has confirmed the subscription on the current connection.
  public var isSubscribed: Bool { state.withLock { $0.isConfirmed } }

  /// Subscribes, now or as soon as there is a connection; does nothing where it is subscribed or about to be.
  public func subscribe() {
    state.withLock { state in
      guard state.subscription == nil else { return }
      state.lastRun += 1
      let run = state.lastRun
      state.subscription = core.subscribe(
        to: identifier, buffering: options.buffering, backlog: nil, onEvent: { [self] in heard($0, of: run) })
    }
  }

  /// Unsubscribes; does nothing where it is not subscribed.
  public func unsubscribe() { state.withLock { $0.subscription.take() }?.unsubscribe() }

  /// Calls an action of the channel with the members of `data` beside its name.
  public func sendMessage(
    actionName: String, data: some Encodable, completion: (@Sendable (PerformOutcome) -> Void)? = nil
  ) {
    guard let subscription = state.withLock({ $0.subscription }) else { return refuse(completion) }
    subscription.perform(actionName, data, completion: completion)
  }

  /// Calls an action of the channel without data.
  public func sendMessage(actionName: String, completion: (@Sendable (PerformOutcome) -> Void)? = nil) {
    guard let subscription = state.withLock({ $0.subscription }) else { return refuse(completion) }
    subscription.perform(actionName, completion: completion)
  }

  /// Hears each time that the server confirms the subscription; soon, where it is confirmed already.
  public func addOnSubscribe(_ body: @escaping @Sendable () -> Void) {
    let isConfirmed = state.withLock { state in
      state.onSubscribe.append(body)
      return state.isConfirmed
    }
    if isConfirmed { core.update { state, _ in state.call(body) } }
  }

  /// Hears of each message.
  public func addOnMessage(_ body: @escaping @Sendable (CableMessage) -> Void) {
    state.withLock { $0.onMessage.append(body) }
  }

  /// Hears once when a confirmed subscription is over: unsubscribed, disconnected or shut down.
  public func addOnUnsubscribe(_ body: @escaping @Sendable () -> Void) {
    state.withLock { $0.onUnsubscribe.append(body) }
  }

  /// Hears when the server rejects the subscription.
  public func addOnRejectSubscription(_ body: @escaping @Sendable () -> Void) {
    state.withLock { $0.onReject.append(body) }
  }

  /// Hears of the server's pings.
  public func addOnPing(_ body: @escaping @Sendable () -> Void) {
    let tap = state.withLock { state -> ClientTap? in
      state.onPing.append(body)
      guard state.pings == nil else { return nil }
      let tap = ClientTap(onPing: { [weak self] in self?.pinged() })
      state.pings = tap
      return tap
    }
    if let tap { core.update { state, _ in state.taps.append(tap) } }
  }

  private func pinged() { for body in state.withLock({ $0.onPing }) { body() } }

  private func refuse(_ completion: (@Sendable (PerformOutcome) -> Void)?) {
    guard let completion else { return }
    core.update { state, _ in state.call { completion(.notSubscribed) } }
  }

  private func heard(_ event: SubscriptionEvent, of run: UInt64) {
    switch event {
    case .message(let message): for body in state.withLock({ $0.onMessage }) { body(message) }
    case .confirmed:
      let bodies = state.withLock { state in
        state.isConfirmed = true
        return state.onSubscribe
      }
      for body in bodies { body() }
    case .disconnected: over()
    case .ended(let end):
      state.withLock { if $0.lastRun == run { $0.subscription = nil } }
      over()
      if end == .rejected { for body in state.withLock({ $0.onReject }) { body() } }
    case .gap: break
    }
  }

  private func over() {
    let bodies = state.withLock { state in
      defer { state.isConfirmed = false }
      return state.isConfirmed ? state.onUnsubscribe : []
    }
    for body in bodies { body() }
  }
}

extension ActionCableClient {
  /// A channel with a callback for each kind of event; every call makes another one.
  ///
  /// Callbacks that are added before the client's queue has its turn hear everything.
  ///
  /// - Throws: ``InvalidIdentifier``.
  public func makeChannel(
    name: String, identifier parameters: [String: JSONValue] = [:], options: ChannelOptions = ChannelOptions()
  ) throws(InvalidIdentifier) -> CableChannel {
    let channel = CableChannel(try ChannelIdentifier(name, parameters), options, core: core)
    if options.autoSubscribe { channel.subscribe() }
    return channel
  }
}
