import Foundation
public import WebSocketCore
public import WebSocketTransport

/// A ``WebSocketHandler`` that connects again by itself, over any other one.
///
/// - `connect` completes with the first success; later losses are the session's affair. It fails when the session stops
///   before: when the policy says so, or as `cancelled` by `disconnect`.
/// - `receive` stays pending over losses. It fails when the session stops, with the reason.
/// - `send` writes at once or waits in the outbox, in order; with an `outcome` it tells exactly what became of a message.
///   A loss is noticed by the receive that the session keeps with its handler.
/// - `disconnect` stops for good; `connect` starts anew, also from inside its completion.
///
/// Every method may be called from any thread. Events and completions come on one serial queue of the session's own, in
/// order, never before the method that caused them returns, and each completion exactly once. Nothing of a start is told
/// as an event after its `stopped`, and `disconnect`'s completion is its last one. A session that is released closes its
/// connection, and what has no answer fails as `cancelled`.
public final class ReconnectingSession: WebSocketHandler {
  /// What hears how an operation ended.
  public typealias Completion = @Sendable (Result<Void, EngineError.WebSocketError>) -> Void

  private let handler: any WebSocketHandler
  private let provider: RequestProvider?
  private let decoder: MessageDecoder
  private let environment: Environment
  private let loop: any EventLoop
  private let callbacks: any CallbackExecutor
  private let onEvent: @Sendable (SessionEvent) -> Void
  private let state: Lock<SessionCore>

  /// A session that is not yet started.
  ///
  /// - Parameters:
  ///   - handler: makes the connections; nobody else may use it. It sees each message as a ``WebSocketMessage``.
  ///   - policy: when to connect again, and when to stop.
  ///   - outbox: what may wait for a connection.
  ///   - provider: makes the request of each attempt. Default: none, the caller's request each time.
  ///   - responseHandler: decodes what `receive` asks for; default: JSON.
  ///   - logger: takes the log lines about messages that cannot be decoded.
  ///   - environment: clock, timers and chance; tests bring the handler's own.
  ///   - onEvent: hears what happens, on the session's queue. Capture the owner weakly.
  public init(
    _ handler: any WebSocketHandler, policy: ReconnectPolicy = ReconnectPolicy(),
    outbox: OutboxLimits = OutboxLimits(), provider: RequestProvider? = nil,
    responseHandler: any HTTPResponseHandler = DefaultHTTPResponseHandler(),
    logger: any Logger = DefaultLogger.shared, environment: Environment = .system,
    onEvent: @escaping @Sendable (SessionEvent) -> Void = { _ in }
  ) {
    self.handler = handler
    self.provider = provider
    decoder = MessageDecoder(responseHandler: responseHandler, logger: logger)
    self.environment = environment
    loop = environment.makeLoop()
    callbacks = environment.callbackExecutor ?? QueueExecutor(target: nil)
    self.onEvent = onEvent
    state = Lock(SessionCore(policy: policy, limits: outbox, hasProvider: provider != nil))
  }

  deinit {
    // While effects wait, their drain holds the session: here none are left.
    let effects = state.withLock { $0.release() }
    let handler = handler
    guard !effects.isEmpty else { return }
    callbacks.execute {
      for effect in effects {
        switch effect {
        case .call(let body): body()
        case .disconnect(let code, let reason): handler.disconnect(code: code, reason: reason) { _ in }
        case .event, .ask, .judge, .connect, .receive, .send, .setTimer: break
        }
      }
    }
  }

  // MARK: The session

  /// What the session is doing.
  public var currentState: SessionState { state.withLock { $0.shown } }

  /// What the session has counted since it was made, and what waits in its outbox.
  public var metrics: SessionMetrics { state.withLock { $0.metrics } }

  /// Connects, and stays connected until ``stop(completion:)``; does nothing while started.
  ///
  /// - Parameter request: the server. Unless it brings a keepalive of its own, pings go out each 20 s and a dead
  ///   connection is given up 20 s later, where the handler honours that.
  public func start(_ request: NetworkRequest) { update { $0.start(watched(request), completion: nil) } }

  /// Closes the connection with 1000 and connects no more, until started anew.
  ///
  /// - Parameter completion: hears when the connection is closed; success where there was nothing to close.
  public func stop(completion: Completion? = nil) {
    update { $0.stop(.normalClosure, reason: "", completion: completion) }
  }

  /// Ends the wait for the next attempt; does nothing where there is none.
  public func reconnectNow() { update { $0.reconnectNow() } }

  /// Says whether attempts may begin, such as only while online or logged in; in the beginning they may.
  ///
  /// A closed gate ends neither a connection nor an attempt under way.
  public func setGate(isOpen: Bool) { update { $0.setGate(isOpen: isOpen) } }

  /// Starts, opens the gate and ends a wait, in one step: what fails meanwhile does not begin twice.
  ///
  /// - Parameter completion: as that of ``connect(request:completion:)``.
  package func connectNow(request: NetworkRequest, completion: @escaping Completion) {
    update { state in
      state.start(watched(request), completion: completion)
      state.setGate(isOpen: true)
      state.reconnectNow()
    }
  }

  /// Says whose credentials the request provider gives; a change ends the connection or the wait and connects at once.
  ///
  /// The same key again changes nothing.
  public func setCredentialKey(_ key: String?) { update { $0.setCredentialKey(key) } }

  /// Sends a message and tells exactly what became of it.
  ///
  /// A message with an acknowledgement key is kept, within the outbox's limits, after it was written, until
  /// ``acknowledge(_:)`` names the key: only then is it known to have arrived. Where its connection breaks before, it is
  /// written again, in order, on the next one if it may come twice, and stays in doubt otherwise. Where the
  /// acknowledgement does not come in time, its outcome is what it would be without a key.
  ///
  /// - Parameters:
  ///   - message: goes out as it is.
  ///   - delivery: what it is worth without a connection. Default: it waits, and is never sent twice.
  ///   - acknowledgementKey: what the server's acknowledgement will name. Default: none.
  ///   - outcome: hears once.
  public func send(
    _ message: WebSocketMessage, delivery: Delivery = .once, acknowledgementKey: String? = nil,
    outcome: (@Sendable (DeliveryOutcome) -> Void)? = nil
  ) {
    timed { $0.send(message, delivery, key: acknowledgementKey, at: $1, hearer: outcome) }
  }

  /// Sends a value as JSON and tells exactly what became of it.
  ///
  /// One that cannot be encoded is dropped as `unencodable`.
  public func send<T>(
    _ value: T, delivery: Delivery = .once, acknowledgementKey: String? = nil,
    outcome: (@Sendable (DeliveryOutcome) -> Void)? = nil
  ) where T: Encodable {
    do throws(EngineError.WebSocketError) {
      send(try encode(value), delivery: delivery, acknowledgementKey: acknowledgementKey, outcome: outcome)
    } catch {
      update { $0.settle(Outbox.Settled(hearer: outcome, outcome: .dropped(error))) }
    }
  }

  /// Says that the messages sent with that key arrived, as the server has told: their outcome is `acknowledged`.
  ///
  /// Keys of messages that have their outcome, or that no connection was given yet, are ignored.
  public func acknowledge(_ key: String) { timed { $0.acknowledge(key, at: $1) } }

  // MARK: WebSocketHandler

  /// Starts the session and completes with the first connection, or when it stops before; fails while it is started.
  public func connect(request: NetworkRequest, completion: @escaping Completion) {
    update { $0.start(watched(request), completion: completion) }
  }

  /// Stops the session and completes when the connection is closed; fails where it was not started.
  public func disconnect(completion: @escaping Completion) {
    disconnect(code: .normalClosure, reason: "", completion: completion)
  }

  /// Stops the session and closes the connection with that code and reason.
  public func disconnect(code: CloseCode, reason: String, completion: @escaping Completion) {
    update { $0.disconnect(code, reason: reason, completion: completion) }
  }

  /// Sends a message, at once or when there is a connection, and never twice.
  ///
  /// Fails as `timedOut(.outbox)` where it waited too long, as `limitExceeded` where too much waits, with the reason of
  /// the stop, or with the end of the connection that may or may not have delivered it.
  public func send<T>(message: T, completion: @escaping Completion) where T: Encodable {
    send(message) { completion($0.result) }
  }

  /// Waits for the next message, of whichever connection.
  public func receive<T>(completion: @escaping @Sendable (Result<T, EngineError.WebSocketError>) -> Void)
  where T: Decodable {
    let pending = DecodingReceive(decoder, completion)
    update { $0.receive(pending) }
  }

  /// Pings the peer of the current connection; fails where there is none.
  public func ping(completion: @escaping @Sendable (Result<Duration, EngineError.WebSocketError>) -> Void) {
    let callbacks = callbacks
    handler.ping { result in callbacks.execute { completion(result) } }
  }

  /// The server's answer to the opening handshake of the current or last connection.
  public var handshake: HandshakeAnswer? { handler.handshake }

  // MARK: The driver

  /// The request, with pings that find a dead connection unless it brings its own.
  private func watched(_ request: NetworkRequest) -> NetworkRequest {
    var request = request
    if request.keepalive == nil { request.keepalive = Keepalive() }
    return request
  }

  private func encode<T: Encodable>(_ message: T) throws(EngineError.WebSocketError) -> WebSocketMessage {
    if let message = identical(message, as: WebSocketMessage.self) { return message }
    do {
      return .text(String(decoding: try JSONEncoder().encode(message), as: UTF8.self))
    } catch {
      throw .unencodable(reason: String(describing: error), errorType: String(describing: type(of: error)))
    }
  }

  /// Changes the state, alone, and has what follows from it done on the queue.
  private func update(_ change: (inout SessionCore) -> Void) {
    let mustDrain = state.withLock { state in
      change(&state)
      return state.effects.beginDraining()
    }
    if mustDrain { callbacks.execute { self.drain() } }
  }

  /// The same with the time.
  private func timed(_ change: (inout SessionCore, Instant) -> Void) {
    let now = loop.now
    update { change(&$0, now) }
  }

  private func drain() {
    while let effects = state.withLock({ $0.effects.take() }) {
      for effect in effects { perform(effect) }
    }
  }

  private func send(_ message: WebSocketMessage, _ id: UInt64, _ generation: UInt64) {
    let answer: Completion = { [weak self] result in
      self?.timed { $0.sent(id, generation, result, at: $1) }
    }
    guard let handler = handler as? DefaultWebSocketHandler else {
      return handler.send(message: message, completion: answer)
    }
    // The library's own handler tells a message that it did not take from one that a connection may have delivered,
    // where the error of both is the record of the end.
    switch handler.driver.send(message.kind, message.payload, orLater: { answer }) {
    case .written: answer(.success(()))
    case .refused(.closed): answer(.failure(.closing))
    case .refused(let failure), .failed(let failure): answer(.failure(failure))
    case .pending: break
    }
  }

  private func perform(_ effect: SessionEffects.Effect) {
    switch effect {
    case .call(let body):
      body()
    case .event(let event):
      onEvent(event)
    case .ask(let generation, let request):
      provider?.provide(request) { [weak self] result in
        self?.timed { $0.provided(generation, result, at: $1) }
      }
    case .judge(let generation, let cause):
      let decision = state.withLock({ $0.policy }).rule(cause)
      let randomBits = environment.random.bytes(8).reduce(0) { $0 << 8 | UInt64($1) }
      timed { $0.judged(generation, decision, at: $1, randomBits: randomBits) }
    case .connect(let generation, let request):
      handler.connect(request: request) { [weak self, handler] result in
        if let self { return timed { $0.connected(generation, result, at: $1) } }
        // A handler whose connect cannot be cancelled has a connection that nobody wants.
        if case .success = result { handler.disconnect { _ in } }
      }
    case .receive(let generation):
      handler.receive { [weak self] (result: Result<WebSocketMessage, EngineError.WebSocketError>) in
        self?.timed { $0.received(generation, result, at: $1) }
      }
    case .send(let id, let generation, let message):
      send(message, id, generation)
    case .disconnect(let code, let reason):
      handler.disconnect(code: code, reason: reason) { [weak self] result in
        self?.update { $0.disconnected(result) }
      }
    case .setTimer(let timer, let id, let delay):
      let loop = loop
      let handle = loop.schedule(after: delay) { [weak self] in
        self?.timed { $0.timerFired(timer, id: id, at: $1) }
      }
      let isWanted = state.withLock { $0.effects.keep(timer, id: id) { loop.cancel(handle) } }
      if !isWanted { loop.cancel(handle) }
    }
  }
}
