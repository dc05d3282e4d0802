public import Foundation
public import WebSocketHandling

/// A client of Action Cable: one connection that comes back by itself, and any number of subscriptions.
///
/// - Every callback runs on one serial queue of the client's, in order, never under a lock and never before the method
///   that caused it returns. Any method may be called from any thread and any callback. A callback that blocks holds
///   the others back.
/// - The client counts as connected when the server said `welcome`. Subscriptions may be made at any time; they are
///   sent then, and again after each reconnection, in the order of their creation.
/// - ``disconnect(completion:)`` keeps the subscriptions and ``connect(completion:)`` revives them;
///   ``shutdown(completion:)``, and releasing the client, end them.
public final class ActionCableClient: Sendable {
  /// What a client is doing.
  public enum State: Sendable, Hashable {
    /// Never connected.
    case idle
    /// The gate is closed: no attempt begins.
    case held
    /// An attempt is under way, the server's `welcome` included.
    case connecting
    /// The server said `welcome`.
    case connected
    /// The next attempt comes after that delay; `attempt` counts the failures in a row that led here.
    case waiting(attempt: Int, delay: Duration)
    /// No attempt will be made until ``ActionCableClient/connect(completion:)`` is called again.
    case disconnected(DisconnectCause)
  }

  let core: CableCore

  /// A client that is not connected.
  ///
  /// - Parameters:
  ///   - url: the server's endpoint, often `wss://…/cable`: `ws`, `wss`, `http` or `https`.
  ///   - headers: further header fields, see ``headers``.
  ///   - staleAfter: after how long without any frame the connection counts as dead. Default: 6 s, two of the server's
  ///     pings; nil: it is not watched.
  ///   - configuration: everything else.
  ///   - handler: makes the connections; nobody else may use it. Default: one over sockets of the system's. Any
  ///     implementation of the protocol's four methods will do.
  ///   - logger: takes the log lines of the default handler.
  ///   - environment: clock, timers and chance; tests bring the handler's own.
  public init(
    url: URL, headers: HTTPFields = [], staleAfter: Duration? = .seconds(6),
    configuration: CableConfiguration = CableConfiguration(), handler: (any WebSocketHandler)? = nil,
    logger: any Logger = DefaultLogger.shared, environment: Environment = .system
  ) {
    var configuration = configuration
    configuration.timing.staleAfter = staleAfter
    core = CableCore(
      url: url, headers: headers, configuration,
      handler: handler ?? DefaultWebSocketHandler(logger: logger, environment: environment), logger: logger,
      environment: environment)
  }

  deinit { core.release() }

  // MARK: The connection

  /// The header fields of the next request; each attempt reads them anew.
  ///
  /// `Origin` is the URL's where they have none.
  public var headers: HTTPFields {
    get { core.read { $0.headers } }
    set { core.update { state, _ in state.headers = newValue } }
  }

  /// What the client is doing.
  public var state: State { core.read { $0.shown } }

  /// What the client has seen so far.
  public var counters: CableCounters { core.read { $0.counters } }

  /// Connects, and stays connected until ``disconnect(completion:)``.
  ///
  /// - Parameter completion: hears of the first `welcome`, or why none will come; at once where there is a connection.
  public func connect(completion: (@Sendable (Result<Void, DisconnectCause>) -> Void)? = nil) {
    core.connect(completion)
  }

  /// Closes the connection and connects no more; subscriptions stay registered.
  ///
  /// - Parameter completion: hears when the connection is closed.
  public func disconnect(completion: (@Sendable () -> Void)? = nil) { core.disconnect(completion ?? {}) }

  /// Ends every subscription, closes the connection and connects no more.
  ///
  /// - Parameter completion: hears when the connection is closed.
  public func shutdown(completion: (@Sendable () -> Void)? = nil) { core.shutdown(completion ?? {}) }

  /// Ends the wait for the next attempt; does nothing where there is none.
  public func reconnectNow() { core.session?.reconnectNow() }

  /// Says whether attempts may begin, such as only while online or logged in; in the beginning they may.
  public func setGate(isOpen: Bool) { core.session?.setGate(isOpen: isOpen) }

  /// Says whose credentials the headers or the request provider give; a change ends the connection and connects at
  /// once.
  public func setCredentialKey(_ key: String?) { core.session?.setCredentialKey(key) }

  // MARK: Subscriptions

  /// Subscribes to a channel.
  ///
  /// All subscriptions of one identifier share one of the server's: a second one is confirmed at once where the first
  /// is, and the server hears of the end when the last one ends. The subscription lasts until it is unsubscribed, its
  /// `ended` event, or the end of the client; what is returned need not be kept.
  ///
  /// - Parameters:
  ///   - identifier: which channel.
  ///   - buffering: whether messages that are sent before the confirmation wait for it.
  ///   - backlog: what may be kept that `onEvent` has not taken. Default: the configuration's.
  ///   - onEvent: hears what happens, on the client's queue. Capture owners weakly.
  @discardableResult
  public func subscribe(
    to identifier: ChannelIdentifier, buffering: Bool = false, backlog: Backlog? = nil,
    onEvent: @escaping @Sendable (SubscriptionEvent) -> Void
  ) -> Subscription {
    core.subscribe(to: identifier, buffering: buffering, backlog: backlog, onEvent: onEvent)
  }

  /// Subscribes to a channel; its events are taken from a sequence.
  ///
  /// The subscription ends when sequence and iterator are released.
  public func events(
    of identifier: ChannelIdentifier, buffering: Bool = false, backlog: Backlog? = nil
  ) -> SubscriptionEvents {
    SubscriptionEvents(core.subscribe(to: identifier, buffering: buffering, backlog: backlog, onEvent: nil))
  }

  // MARK: Taps and types

  /// Adds a tap behind the others; one that is there already stays where it is.
  public func add(_ tap: ClientTap) {
    core.update { state, _ in if !state.taps.contains(where: { $0 === tap }) { state.taps.append(tap) } }
  }

  /// Removes a tap; it hears of nothing that happens afterwards.
  public func remove(_ tap: ClientTap) { core.update { state, _ in state.taps.removeAll { $0 === tap } } }

  /// Has every message of a channel decoded as that type, see ``CableMessage/object``.
  public func register<Value: Decodable & Sendable>(_ type: Value.Type, for identifier: ChannelIdentifier) {
    core.update { state, _ in state.types.register(type, for: identifier) }
  }

  /// Has messages with a single member of that name decoded as that type, see ``CableMessage/object``.
  ///
  /// The name is by default the type's in snake case, `my_object` for `MyObject`.
  public func register<Value: Decodable & Sendable>(_ type: Value.Type, forKey name: String? = nil) {
    core.update { state, _ in state.types.register(type, forKey: name) }
  }

  /// Decodes messages of that channel no more.
  public func unregisterType(for identifier: ChannelIdentifier) {
    core.update { state, _ in state.types.unregister(for: identifier) }
  }

  /// Decodes messages with a single member of that type's name no more.
  public func unregister<Value>(_ type: Value.Type) { unregisterType(forKey: ActionData.objectName(of: type)) }

  /// Decodes messages with a single member of that name no more.
  public func unregisterType(forKey name: String) {
    core.update { state, _ in state.types.unregister(forKey: name) }
  }

  /// Decodes no messages any more.
  public func unregisterAllTypes() { core.update { state, _ in state.types.unregisterAll() } }
}

extension ActionCableClient {
  /// Connects; returns at the first `welcome`.
  ///
  /// - Throws: ``DisconnectCause``: why none will come.
  public func connect() async throws(DisconnectCause) {
    let result = await withCheckedContinuation { continuation in
      connect { continuation.resume(returning: $0) }
    }
    try result.get()
  }

  /// Closes the connection; returns when it is closed.
  public func disconnect() async {
    await withCheckedContinuation { continuation in disconnect { continuation.resume() } }
  }

  /// Ends every subscription and closes the connection; returns when it is closed.
  public func shutdown() async {
    await withCheckedContinuation { continuation in shutdown { continuation.resume() } }
  }
}
