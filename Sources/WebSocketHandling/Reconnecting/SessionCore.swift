import WebSocketCore
import WebSocketTransport

/// The state of a ``ReconnectingSession``: each input changes it and leaves effects, which the session performs in order.
///
/// ``ReconnectMachine`` decides when to connect, ``Outbox`` what becomes of a message sent, ``SessionInbox`` which
/// receive gets which message; here they meet.
struct SessionCore: ~Copyable, Sendable {
  typealias Failure = EngineError.WebSocketError
  typealias Completion = @Sendable (Result<Void, Failure>) -> Void

  /// How far an attempt has come.
  enum Attempt: Sendable {
    /// There is none.
    case none
    /// The handler is still closing its last connection, or has not answered the connect that was given up.
    case blocked
    /// The request provider was asked.
    case asking
    /// The handler connects.
    case connecting
  }

  let policy: ReconnectPolicy
  let hasProvider: Bool
  var shown = SessionState.idle
  var effects = SessionEffects()
  var counts = SessionMetrics()
  /// Whether a connection of this start was there before.
  var wasConnected = false
  var machine: ReconnectMachine
  var attempt = Attempt.none
  var request: NetworkRequest?
  var credentialKey: String?
  /// Changes with each attempt, loss and stop; answers that carry an older one are stale.
  var generation: UInt64 = 0
  var connecting: Completion?
  /// Whether the handler has not answered the last connect.
  var owesConnect = false
  /// Not nil while the handler closes: who wants to hear of it.
  var closing: [Completion]?
  var outbox: Outbox
  /// Whether the current connection takes no more messages; its end is near.
  var isRefusing = false
  var expiryDeadline: Instant?
  var inbox = SessionInbox()
  /// Whether the handler owes a message.
  var isReceiving = false

  init(policy: ReconnectPolicy, limits: OutboxLimits, hasProvider: Bool) {
    self.policy = policy
    self.hasProvider = hasProvider
    machine = ReconnectMachine(policy: policy, hasProvider: hasProvider)
    outbox = Outbox(limits: limits)
  }

  // MARK: The user's inputs

  mutating func start(_ request: NetworkRequest, completion: Completion?) {
    guard machine.isStopped else {
      if let completion { effects.answer(completion, .failure(.connectionFailed("WebSocket is already connected"))) }
      return
    }
    self.request = request
    wasConnected = false
    connecting = completion
    apply(machine.start())
  }

  /// Stops; fails where the session was not started.
  mutating func disconnect(_ code: CloseCode, reason: String, completion: @escaping Completion) {
    if machine.isStopped, closing == nil {
      return effects.answer(completion, .failure(.connectionFailed("WebSocket is not connected")))
    }
    stop(code, reason: reason, completion: completion)
  }

  mutating func stop(_ code: CloseCode, reason: String, completion: Completion?) {
    let mustClose = handlerIsInUse
    apply(machine.stop())
    inbox.clear()
    if mustClose { close(code, reason: reason) }
    guard let completion else { return }
    if closing == nil { effects.answer(completion, .success(())) } else { closing?.append(completion) }
  }

  mutating func reconnectNow() { apply(machine.reconnectNow()) }

  mutating func setGate(isOpen: Bool) { apply(machine.setGate(isOpen: isOpen)) }

  mutating func setCredentialKey(_ key: String?) {
    guard key != credentialKey else { return }
    credentialKey = key
    if machine.isConnected { outbox.lost(.cancelled) }
    if handlerIsInUse { close(.normalClosure) }
    apply(machine.startOver())
  }

  mutating func send(
    _ message: WebSocketMessage, _ delivery: Delivery, key: String?, at now: Instant, hearer: Outbox.Hearer?
  ) {
    if let failure = refusal(delivery) {
      return settle(Outbox.Settled(hearer: hearer, outcome: .dropped(failure)))
    }
    if let settled = outbox.add(message, delivery, key: key, now: now, hearer: hearer) { return settle(settled) }
    flush(at: now)
  }

  mutating func acknowledge(_ key: String, at now: Instant) {
    for settled in outbox.acknowledge(key) { settle(settled) }
    watchExpiry(at: now)
  }

  mutating func receive(_ pending: any PendingReceive) {
    if inbox.isEmpty, machine.isStopped {
      return fail(pending, stopFailure ?? .messageReceiveFailed("WebSocket is not connected"))
    }
    let limit = SessionInbox.maximumReceives
    if inbox.receiveCount >= limit {
      return fail(pending, .limitExceeded(.receives, size: inbox.receiveCount + 1, limit: limit))
    }
    inbox.add(pending)
    deliver()
  }

  // MARK: Answers

  mutating func provided(_ generation: UInt64, _ result: Result<NetworkRequest, any Error>, at now: Instant) {
    guard generation == self.generation, attempt == .asking else { return }
    effects.forget(.request)
    switch result {
    case .success(let request): connect(request)
    case .failure(let error): judge(machine.attemptFailed(error, inRequest: true, at: now), at: now)
    }
  }

  mutating func connected(_ generation: UInt64, _ result: Result<Void, Failure>, at now: Instant) {
    owesConnect = false
    guard generation == self.generation, attempt == .connecting else {
      // A handler whose connect cannot be cancelled has a connection that nobody wants.
      if case .success = result {
        closing = closing ?? []
        effects.append(.disconnect(.normalClosure, reason: ""))
      }
      return askWhenFree()
    }
    switch result {
    case .success:
      attempt = .none
      machine.connected(at: now)
      counts.connects += 1
      if wasConnected { counts.reconnects += 1 }
      wasConnected = true
      isRefusing = false
      isReceiving = false
      show(.connected)
      if let completion = connecting.take() { effects.answer(completion, .success(())) }
      flush(at: now)
      askForMessage()
    case .failure(let failure):
      judge(machine.attemptFailed(failure, at: now), at: now)
    }
  }

  mutating func received(_ generation: UInt64, _ result: SessionInbox.Arrival, at now: Instant) {
    guard generation == self.generation, machine.isConnected else { return }
    isReceiving = false
    if case .failure(let failure) = result, failure.endsConnection {
      // A handler that does not say that the connection is closed may still hold one.
      if case .closed = failure {} else { close(.normalClosure) }
      outbox.lost(failure)
      return judge(machine.lost(failure, at: now), at: now)
    }
    if case .success = result { counts.messagesReceived += 1 }
    inbox.add(result)
    deliver()
  }

  mutating func sent(_ id: UInt64, _ generation: UInt64, _ result: Result<Void, Failure>, at now: Instant) {
    let isCurrent = generation == self.generation
    if case .failure(let failure) = result, isCurrent, failure.endsConnection, !isRefusing {
      isRefusing = true
      // The end comes behind the messages that the handler keeps.
      askForMessage()
    }
    if let settled = outbox.answered(id, result) { settle(settled) }
    flush(at: now)
  }

  mutating func judged(_ generation: UInt64, _ decision: ReconnectDecision, at now: Instant, randomBits: UInt64) {
    guard generation == self.generation else { return }
    apply(machine.judged(decision, at: now, randomBits: randomBits))
  }

  mutating func disconnected(_ result: Result<Void, Failure>) {
    guard let waiting = closing.take() else { return }
    var result = result
    // The connection was lost a moment before, and the session has stopped as it was told.
    if case .failure(.connectionFailed) = result { result = .success(()) }
    for completion in waiting { effects.answer(completion, result) }
    askWhenFree()
  }

  mutating func timerFired(_ timer: SessionEffects.Timer, id: UInt64, at now: Instant) {
    guard effects.fire(timer, id: id) else { return }
    switch timer {
    case .wait: apply(machine.timerFired())
    case .request: judge(machine.attemptFailed(Failure.timedOut(.connect), inRequest: true, at: now), at: now)
    case .expiry:
      expiryDeadline = nil
      for settled in outbox.expire(at: now) { settle(settled) }
      watchExpiry(at: now)
    }
  }

  /// Nobody uses the session any more: what is left to do.
  mutating func release() -> [SessionEffects.Effect] {
    let failure = Failure.cancelled
    if handlerIsInUse { effects.append(.disconnect(.goingAway, reason: "")) }
    if let completion = connecting.take() { effects.answer(completion, .failure(failure)) }
    for settled in outbox.abandon(failure) { settle(settled) }
    for pending in inbox.takeReceives() { fail(pending, failure) }
    for completion in closing ?? [] { effects.answer(completion, .failure(failure)) }
    effects.forgetTimers()
    return effects.take() ?? []
  }

  /// What was counted, and what waits.
  var metrics: SessionMetrics {
    var metrics = counts
    metrics.outboxMessages = outbox.count
    metrics.outboxBytes = outbox.bytes
    return metrics
  }
}
