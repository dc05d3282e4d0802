import WebSocketCore
import WebSocketTransport

/// The way to a connection, and away from it.
extension SessionCore {
  /// Whether the handler has a connection or an attempt of ours.
  var handlerIsInUse: Bool { machine.isConnected || attempt == .connecting }

  mutating func apply(_ action: ReconnectMachine.Action) {
    switch action {
    case .none: break
    case .connect:
      leave()
      show(.connecting)
      attempt = .blocked
      askWhenFree()
    case .hold:
      leave()
      show(.held)
    case .wait(let delay, let attempt):
      show(.waiting(attempt: attempt, delay: delay))
      effects.set(.wait, delay)
    case .stop(let reason):
      leave()
      halt(reason)
    }
  }

  /// Whatever was under way is no longer waited for.
  mutating func leave() {
    generation += 1
    attempt = .none
    effects.forget(.wait)
    effects.forget(.request)
  }

  /// Goes on with an attempt for which the handler was not free.
  mutating func askWhenFree() {
    if attempt == .blocked, closing == nil, !owesConnect { ask() }
  }

  /// Asks for the request, or goes on with the caller's.
  mutating func ask() {
    guard let request else { return }
    guard hasProvider else { return connect(request) }
    attempt = .asking
    effects.append(.ask(generation: generation, request))
    effects.set(.request, request.connectTimeout)
  }

  mutating func connect(_ request: NetworkRequest) {
    attempt = .connecting
    owesConnect = true
    counts.attempts += 1
    effects.append(.connect(generation: generation, request))
  }

  /// Tells of a failure, and asks the policy's rule about it.
  mutating func judge(_ cause: ReconnectCause?, at now: Instant) {
    guard let cause else { return }
    counts.problems += 1
    leave()
    effects.append(.event(.problem(cause.failure)))
    effects.append(.judge(generation: generation, cause))
    watchExpiry(at: now)
  }

  mutating func halt(_ reason: StopReason) {
    effects.forget(.expiry)
    expiryDeadline = nil
    if let completion = connecting.take() { effects.answer(completion, .failure(reason.failure)) }
    for settled in outbox.close(reason.failure) { settle(settled) }
    for pending in inbox.takeReceives() { fail(pending, reason.failure) }
    show(.stopped(reason))
  }

  mutating func close(_ code: CloseCode, reason: String = "") {
    guard closing == nil else { return }
    closing = []
    effects.append(.disconnect(code, reason: reason))
  }

  mutating func show(_ state: SessionState) {
    guard state != shown else { return }
    shown = state
    effects.append(.event(.stateChanged(state)))
  }
}
