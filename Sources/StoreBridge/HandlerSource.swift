public import WebSocketHandling
public import WebSocketTransport

/// The messages of a WebSocket, over any handler.
///
/// It connects when it is started, and closes the connection when it is cancelled.
public final class HandlerSource: MessageSource {
  /// Messages come as they are.
  public typealias Message = WebSocketMessage

  private typealias Failure = EngineError.WebSocketError

  private struct State: Sendable {
    var onMessage: (@Sendable (WebSocketMessage, _ next: @escaping @Sendable () -> Void) -> Void)?
    var onSignal: (@Sendable (BridgeSignal<WebSocketMessage>) -> Void)?
    /// Why the last connection of a session was lost.
    var problem: Failure?
    var isConnected = false
    var wasConnected = false
  }

  private enum Link: Sendable {
    case handler(any WebSocketHandler)
    case session(ReconnectingSession)
  }

  /// What a session tells its source, which comes later.
  private final class Back: Sendable {
    private let source = Lock<Weak>(Weak(source: nil))

    private struct Weak: Sendable {
      weak let source: HandlerSource?
    }

    func set(_ source: HandlerSource) { self.source.withLock { $0 = Weak(source: source) } }

    func heard(_ event: SessionEvent) { source.withLock({ $0 }).source?.heard(event) }
  }

  private let link: Link
  private let request: NetworkRequest
  private let state = Lock(State())

  /// The messages of one connection; its end is the source's.
  ///
  /// - Parameters:
  ///   - handler: makes the connection; nobody else may receive from it.
  ///   - request: the server.
  public init(_ handler: any WebSocketHandler, request: NetworkRequest) {
    link = .handler(handler)
    self.request = request
  }

  /// The messages of connections that follow one another; the end comes when the policy stops.
  ///
  /// - Parameters:
  ///   - handler: makes the connections; nobody else may use it.
  ///   - request: the server.
  ///   - policy: when to connect again, and when to stop.
  ///   - logger: takes the session's log lines.
  ///   - environment: clock, timers and chance; tests bring the handler's own.
  public init(
    _ handler: any WebSocketHandler, request: NetworkRequest, reconnecting policy: ReconnectPolicy,
    logger: any Logger = DefaultLogger.shared, environment: Environment = .system
  ) {
    let back = Back()
    link = .session(
      ReconnectingSession(
        handler, policy: policy, logger: logger, environment: environment, onEvent: { back.heard($0) }))
    self.request = request
    back.set(self)
  }

  private var handler: any WebSocketHandler {
    switch link {
    case .handler(let handler): handler
    case .session(let session): session
    }
  }

  /// Connects.
  public func start(
    onMessage: @escaping @Sendable (WebSocketMessage, _ next: @escaping @Sendable () -> Void) -> Void,
    onSignal: @escaping @Sendable (BridgeSignal<WebSocketMessage>) -> Void
  ) {
    state.withLock { state in
      state.onMessage = onMessage
      state.onSignal = onSignal
    }
    switch link {
    case .handler(let handler):
      handler.connect(request: request) { [self] result in
        switch result {
        case .success:
          // Cancelled in between, over a handler whose connect cannot be.
          guard state.withLock({ $0.onSignal != nil }) else { return handler.disconnect { _ in } }
          signal(.connected(reconnected: false))
          receive()
        case .failure(let failure): end(failure)
        }
      }
    case .session(let session):
      session.start(request)
      receive()
    }
  }

  /// Closes the connection.
  public func cancel() {
    let wasStarted = forget()
    if wasStarted { handler.disconnect { _ in } }
  }

  /// The payload's bytes plus 64.
  public func cost(of message: WebSocketMessage) -> Int { message.cost }

  private func receive() {
    handler.receive { [self] (result: Result<WebSocketMessage, Failure>) in
      switch result {
      case .success(let message): state.withLock({ $0.onMessage })?(message) { [self] in receive() }
      case .failure(.closed(let record)): end(.closed(record))
      // A handler that does not say that the connection is closed may still hold one.
      case .failure(let failure): handler.disconnect { [self] _ in end(failure) }
      }
    }
  }

  private func heard(_ event: SessionEvent) {
    let news = state.withLock { state -> BridgeSignal<WebSocketMessage>? in
      switch event {
      case .problem(let failure):
        state.problem = failure
        return nil
      case .stateChanged(.connected):
        defer { (state.isConnected, state.wasConnected) = (true, true) }
        return .connected(reconnected: state.wasConnected)
      case .stateChanged(.stopped), .stateChanged(.idle):
        // The end comes with the receive.
        return nil
      case .stateChanged(.held), .stateChanged(.connecting), .stateChanged(.waiting):
        guard state.isConnected else { return nil }
        state.isConnected = false
        return .disconnected(state.problem ?? .cancelled, willReconnect: true)
      }
    }
    if let news { signal(news) }
  }

  private func signal(_ signal: BridgeSignal<WebSocketMessage>) { state.withLock({ $0.onSignal })?(signal) }

  private func end(_ failure: Failure) {
    let onSignal = state.withLock { $0.onSignal }
    _ = forget()
    if case .closed(let record) = failure, record.isClean { onSignal?(.ended(nil)) } else { onSignal?(.ended(failure)) }
  }

  /// Lets go whom it tells; whether it was started and has not ended.
  private func forget() -> Bool {
    let forgotten = state.withLock { state in
      defer { (state.onMessage, state.onSignal) = (nil, nil) }
      return (state.onMessage, state.onSignal)
    }
    return forgotten.1 != nil
  }
}
