import WebSocketTransport

/// The state of a ``ReconnectingSession``: each input changes it and leaves effects, which the session performs in order.
struct SessionCore: Sendable {
  typealias Failure = EngineError.WebSocketError
  typealias Completion = @Sendable (Result<Void, Failure>) -> Void

  /// What the session has to do.
  enum Effect: Sendable {
    /// Call the user, or forget a timer.
    case call(@Sendable () -> Void)
    case event(SessionEvent)
    /// Ask the request provider.
    case ask(generation: UInt64, NetworkRequest)
    /// Ask the policy's rule.
    case judge(generation: UInt64, ReconnectCause)
    case connect(generation: UInt64, NetworkRequest)
    case receive(generation: UInt64)
    case send(id: UInt64, generation: UInt64, WebSocketMessage)
    case disconnect(CloseCode, reason: String)
    case setTimer(Timer, id: UInt64, Duration)
  }

  /// What a timer is for; one each at most.
  enum Timer: Sendable, Hashable {
    /// The wait before the next attempt.
    case wait
    /// The request provider's time.
    case request
    /// The age of the first message in the outbox.
    case expiry
  }

  /// The way to a connection.
  private enum Link: Sendable {
    /// Not started, or stopped.
    case off
    /// The gate is closed.
    case held
    /// The handler is still closing its last connection.
    case blocked
    /// The request provider was asked.
    case asking
    case connecting
    case open(since: Instant)
    /// The policy's rule was asked.
    case judging
    case waiting
  }

  private struct SetTimer: Sendable {
    let id: UInt64
    var cancel: (@Sendable () -> Void)?
  }

  /// As many as a handler lets wait.
  private static let maximumReceives = 16_384
  /// The most bytes of messages that nobody has asked for; the handler keeps more.
  private static let inboxLimit = 1 << 20

  let policy: ReconnectPolicy
  private let hasProvider: Bool
  private(set) var shown = SessionState.idle
  private var link = Link.off
  private var tally: ReconnectTally
  private var request: NetworkRequest?
  private var gateIsOpen = true
  private var credentialKey: String?
  /// Changes with each attempt, loss and stop; answers that carry an older one are stale.
  private var generation: UInt64 = 0
  private var connecting: Completion?
  /// Not nil while the handler closes: who wants to hear of it.
  private var closing: [Completion]?
  private var outbox: Outbox
  /// Whether the current connection takes no more messages; its end is near.
  private var isRefusing = false
  private var receives = Queue<any PendingReceive>()
  private var inbox = Queue<Result<WebSocketMessage, Failure>>()
  private var inboxCost = 0
  /// Whether the handler owes a message.
  private var isReceiving = false
  private var timers: [Timer: SetTimer] = [:]
  private var lastTimerID: UInt64 = 0
  private var expiryDeadline: Instant?
  private var effects: [Effect] = []
  private var isDraining = false

  init(policy: ReconnectPolicy, limits: OutboxLimits, hasProvider: Bool) {
    self.policy = policy
    self.hasProvider = hasProvider
    tally = ReconnectTally(policy: policy, hasProvider: hasProvider)
    outbox = Outbox(limits: limits)
  }

  // MARK: Effects

  /// Whether the caller has to see to the effects: there are some, and nobody does.
  mutating func beginDraining() -> Bool {
    guard !isDraining, !effects.isEmpty else { return false }
    isDraining = true
    return true
  }

  /// The effects that wait; nil, and the end of the draining, where there are none.
  mutating func takeEffects() -> [Effect]? {
    guard !effects.isEmpty else {
      isDraining = false
      return nil
    }
    defer { effects = [] }
    return effects
  }

  // MARK: The user's inputs

  mutating func start(_ request: NetworkRequest, completion: Completion?) {
    guard case .off = link else {
      if let completion { answer(completion, .failure(.connectionFailed("WebSocket is already connected"))) }
      return
    }
    self.request = request
    tally = ReconnectTally(policy: policy, hasProvider: hasProvider)
    connecting = completion
    begin()
  }

  mutating func stop(_ code: CloseCode, reason: String, completion: Completion?) {
    let mustClose = handlerIsInUse
    if case .off = link {
      if closing == nil, let completion {
        return answer(completion, .failure(.connectionFailed("WebSocket is not connected")))
      }
    } else {
      halt(.requested)
    }
    inbox = Queue()
    inboxCost = 0
    if mustClose { close(code, reason: reason) }
    guard let completion else { return }
    if closing == nil { answer(completion, .success(())) } else { closing?.append(completion) }
  }

  mutating func reconnectNow() {
    if case .waiting = link { begin() }
  }

  mutating func setGate(isOpen: Bool) {
    gateIsOpen = isOpen
    if isOpen, case .held = link { begin() }
  }

  mutating func setCredentialKey(_ key: String?) {
    guard key != credentialKey else { return }
    credentialKey = key
    if case .off = link { return }
    tally = ReconnectTally(policy: policy, hasProvider: hasProvider)
    let mustClose = handlerIsInUse
    leave()
    if mustClose { close(.normalClosure) }
    begin()
  }

  mutating func send(
    _ message: WebSocketMessage, _ delivery: Delivery, at now: Instant, hearer: Outbox.Hearer?
  ) {
    if let failure = refusal(delivery) {
      return settle(Outbox.Settled(hearer: hearer, outcome: .dropped(failure)))
    }
    if let settled = outbox.add(message, delivery, now: now, hearer: hearer) { return settle(settled) }
    flush(at: now)
  }

  mutating func receive(_ pending: any PendingReceive) {
    if inbox.isEmpty, case .off = link {
      return fail(pending, stopFailure ?? .messageReceiveFailed("WebSocket is not connected"))
    }
    if receives.count >= Self.maximumReceives {
      return fail(
        pending, .limitExceeded(.receives, size: receives.count + 1, limit: Self.maximumReceives))
    }
    receives.append(pending)
    deliver()
  }

  // MARK: Answers

  mutating func provided(_ generation: UInt64, _ result: Result<NetworkRequest, any Error>, at now: Instant) {
    guard generation == self.generation, case .asking = link else { return }
    forget(.request)
    switch result {
    case .success(let request): connect(request)
    case .failure(let error): failed(error, .request, at: now)
    }
  }

  mutating func connected(_ generation: UInt64, _ result: Result<Void, Failure>, at now: Instant) {
    guard generation == self.generation, case .connecting = link else { return }
    switch result {
    case .success:
      link = .open(since: now)
      tally.connected()
      isRefusing = false
      isReceiving = false
      show(.connected)
      if let completion = connecting.take() { answer(completion, .success(())) }
      flush(at: now)
      askForMessage()
    case .failure(let failure):
      failed(failure, .attempt, at: now)
    }
  }

  mutating func received(_ generation: UInt64, _ result: Result<WebSocketMessage, Failure>, at now: Instant) {
    guard generation == self.generation, case .open(let since) = link else { return }
    isReceiving = false
    if case .failure(let failure) = result, failure.endsConnection {
      // A handler that does not say that the connection is closed may still hold one.
      if case .closed = failure {} else { close(.normalClosure) }
      return failed(failure, .connection(uptime: now - since), at: now)
    }
    inbox.append(result)
    inboxCost += Self.cost(of: result)
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

  mutating func judged(
    _ generation: UInt64, _ cause: ReconnectCause, _ decision: ReconnectDecision, at now: Instant,
    randomBits: UInt64
  ) {
    guard generation == self.generation, case .judging = link else { return }
    switch tally.verdict(on: cause, decision, at: now, randomBits: randomBits) {
    case .wait(let delay, let attempt):
      link = .waiting
      show(.waiting(attempt: attempt, delay: delay))
      set(.wait, delay)
    case .stop(let reason):
      halt(reason)
    }
  }

  mutating func disconnected(_ result: Result<Void, Failure>) {
    guard let waiting = closing.take() else { return }
    for completion in waiting { answer(completion, result) }
    if case .blocked = link { ask() }
  }

  mutating func timerFired(_ timer: Timer, id: UInt64, at now: Instant) {
    guard timers[timer]?.id == id else { return }
    timers[timer] = nil
    switch timer {
    case .wait: begin()
    case .request: failed(Failure.timedOut(.connect), .request, at: now)
    case .expiry:
      expiryDeadline = nil
      for settled in outbox.expire(at: now) { settle(settled) }
      watchExpiry(at: now)
    }
  }

  /// Keeps what cancels a timer; false where the timer is no longer wanted.
  mutating func keep(_ timer: Timer, id: UInt64, cancel: @escaping @Sendable () -> Void) -> Bool {
    guard timers[timer]?.id == id else { return false }
    timers[timer]?.cancel = cancel
    return true
  }

  /// Nobody uses the session any more: what is left to do.
  mutating func release() -> [Effect] {
    let mustClose = handlerIsInUse
    let failure = Failure.cancelled
    if let completion = connecting.take() { answer(completion, .failure(failure)) }
    for settled in outbox.abandon(failure) { settle(settled) }
    while let pending = receives.popFirst() { fail(pending, failure) }
    for completion in closing ?? [] { answer(completion, .failure(failure)) }
    for timer in timers.keys { forget(timer) }
    if mustClose { effects.append(.disconnect(.goingAway, reason: "")) }
    return effects
  }

  // MARK: Attempts

  /// Whether the handler has a connection or an attempt of ours.
  private var handlerIsInUse: Bool {
    switch link {
    case .connecting, .open: true
    case .off, .held, .blocked, .asking, .judging, .waiting: false
    }
  }

  /// Begins an attempt, as soon as gate and handler allow.
  private mutating func begin() {
    leave()
    guard gateIsOpen else {
      link = .held
      return show(.held)
    }
    show(.connecting)
    if closing == nil { ask() } else { link = .blocked }
  }

  /// Asks for the request, or goes on with the caller's.
  private mutating func ask() {
    guard let request else { return }
    guard hasProvider else { return connect(request) }
    link = .asking
    effects.append(.ask(generation: generation, request))
    set(.request, request.connectTimeout)
  }

  private mutating func connect(_ request: NetworkRequest) {
    link = .connecting
    effects.append(.connect(generation: generation, request))
  }

  private mutating func failed(_ error: any Error, _ phase: ReconnectCause.Phase, at now: Instant) {
    leave()
    link = .judging
    let cause = tally.failed(error, in: phase, at: now)
    effects.append(.event(.problem(cause.failure)))
    effects.append(.judge(generation: generation, cause))
    watchExpiry(at: now)
  }

  /// Whatever was under way is no longer waited for.
  private mutating func leave() {
    generation += 1
    forget(.wait)
    forget(.request)
  }

  private mutating func halt(_ reason: StopReason) {
    leave()
    link = .off
    forget(.expiry)
    expiryDeadline = nil
    if let completion = connecting.take() { answer(completion, .failure(reason.failure)) }
    for settled in outbox.close(reason.failure) { settle(settled) }
    while let pending = receives.popFirst() { fail(pending, reason.failure) }
    show(.stopped(reason))
  }

  private mutating func close(_ code: CloseCode, reason: String = "") {
    guard closing == nil else { return }
    closing = []
    effects.append(.disconnect(code, reason: reason))
  }

  // MARK: Messages

  /// Why the session connects no more, where that is not the caller's wish.
  private var stopFailure: Failure? {
    switch shown {
    case .stopped(.failed(let failure)), .stopped(.gaveUp(_, let failure)): failure
    case .stopped(.requested), .idle, .held, .connecting, .connected, .waiting: nil
    }
  }

  /// Why a message cannot be taken now.
  private func refusal(_ delivery: Delivery) -> Failure? {
    switch (link, delivery) {
    case (.off, _): stopFailure ?? .messageSendFailed("WebSocket is not connected")
    case (.open, _), (_, .once), (_, .again): nil
    case (_, .whenConnected): .messageSendFailed("WebSocket is not connected")
    }
  }

  /// Gives the handler what waits, where there is a connection that takes it.
  private mutating func flush(at now: Instant) {
    if case .open = link, !isRefusing {
      for (id, message) in outbox.takeWaiting() {
        effects.append(.send(id: id, generation: generation, message))
      }
    }
    watchExpiry(at: now)
  }

  private mutating func watchExpiry(at now: Instant) {
    let deadline = outbox.nextDeadline
    guard deadline != expiryDeadline else { return }
    expiryDeadline = deadline
    forget(.expiry)
    if let deadline { set(.expiry, deadline - now) }
  }

  /// Serves the receives with what is kept, and sees to more.
  private mutating func deliver() {
    while !receives.isEmpty, let result = inbox.popFirst() {
      inboxCost -= Self.cost(of: result)
      guard let pending = receives.popFirst() else { break }
      effects.append(.call { pending.complete(result) })
    }
    askForMessage()
  }

  /// Keeps one receive with the handler, which is how a loss is noticed, unless too much is kept.
  private mutating func askForMessage() {
    guard case .open = link, !isReceiving, isRefusing || inboxCost < Self.inboxLimit else { return }
    isReceiving = true
    effects.append(.receive(generation: generation))
  }

  private static func cost(of result: Result<WebSocketMessage, Failure>) -> Int {
    switch result {
    case .success(let message): message.payload.count + messageOverhead
    case .failure: messageOverhead
    }
  }

  // MARK: Answers to the user

  private mutating func answer(_ completion: @escaping Completion, _ result: Result<Void, Failure>) {
    effects.append(.call { completion(result) })
  }

  private mutating func fail(_ pending: any PendingReceive, _ failure: Failure) {
    effects.append(.call { pending.complete(.failure(failure)) })
  }

  private mutating func settle(_ settled: Outbox.Settled) {
    guard let hearer = settled.hearer else { return }
    effects.append(.call { hearer(settled.outcome) })
  }

  private mutating func show(_ state: SessionState) {
    guard state != shown else { return }
    shown = state
    effects.append(.event(.stateChanged(state)))
  }

  // MARK: Timers

  private mutating func set(_ timer: Timer, _ delay: Duration) {
    lastTimerID += 1
    timers[timer] = SetTimer(id: lastTimerID)
    effects.append(.setTimer(timer, id: lastTimerID, delay))
  }

  private mutating func forget(_ timer: Timer) {
    if let cancel = timers.removeValue(forKey: timer)?.cancel { effects.append(.call(cancel)) }
  }
}
