import WebSocketHandling
import WebSocketTransport

/// The state of a client: the machine, and who hears of what it says.
///
/// Each input leaves effects, which the core performs in order.
struct CableState: Sendable {
  typealias Failure = EngineError.WebSocketError

  /// What the core has to do.
  enum Effect: Sendable {
    /// Call the user or the session.
    case call(@Sendable () -> Void)
    /// Give the next event to a subscriber.
    case deliver(UInt64)
    case send(String, perform: UInt64?)
    /// Read on from the connection of that attempt.
    case ask(attempt: UInt64)
    /// Close the connection of that attempt, then call.
    case close(attempt: UInt64, @Sendable () -> Void)
    case setTimer(id: UInt64, Instant)
  }

  /// The connection as the session sees it.
  struct Link: Sendable {
    /// Grows with each attempt and each end; answers that carry an older one are stale.
    var attempt: UInt64 = 0
    /// Whether the handler has not answered the last connect.
    var owesConnect = false
    /// Hears once that the server said `welcome`, or why not.
    var connecting: CableLink.Completion?
    /// Hears of the loss.
    var losses: [any LossHearer] = []
    var failure: Failure?
    var isOpen = false
    /// Whether the handler owes a message.
    var isAsking = false
    /// What the protocol says about another attempt; nil: nothing.
    var willRetry: Bool?
  }

  struct Subscriber: Sendable {
    var inbox: Inbox
    /// Nil where a sequence takes the events.
    let onEvent: (@Sendable (SubscriptionEvent) -> Void)?
    /// A task that waits for the next event.
    var waiter: CheckedContinuation<SubscriptionEvent?, Never>?
  }

  /// Effects that may wait; the socket is not read while there are more.
  static let maximumEffects = 8_192
  /// The same of what the server sent and taps have not heard, in bytes: as much as a subscription's backlog.
  static let maximumEffectBytes = 1 << 20

  var machine: CableMachine
  var link = Link()
  var headers: HTTPFields
  /// Those of the last request.
  var sentHeaders: HTTPFields = []
  var isStarted = false
  /// Whether the client is gone; its channels may still be there.
  var isReleased = false
  var session = SessionState.idle
  var stopCause = DisconnectCause.requested
  var connects: [@Sendable (Result<Void, DisconnectCause>) -> Void] = []
  var subscribers: [UInt64: Subscriber] = [:]
  /// How many inboxes keep the socket from being read.
  var holding = 0
  var outcomes: [UInt64: @Sendable (PerformOutcome) -> Void] = [:]
  var lastID: UInt64 = 0
  var taps: [ClientTap] = []
  var types = MessageTypes()
  let coding: CableCoding
  var counters = CableCounters()

  private var effects: [Effect] = []
  private var effectBytes = 0
  private var isDraining = false
  private var timer: (id: UInt64, deadline: Instant)?
  private var cancelTimer: (@Sendable () -> Void)?
  private var lastTimer: UInt64 = 0

  init(machine: CableMachine, headers: HTTPFields, coding: CableCoding) {
    self.machine = machine
    self.headers = headers
    self.coding = coding
  }

  mutating func makeID() -> UInt64 {
    lastID += 1
    return lastID
  }

  // MARK: Effects

  mutating func put(_ effect: Effect) { effects.append(effect) }
  mutating func call(_ body: @escaping @Sendable () -> Void) { effects.append(.call(body)) }

  /// Calls a tap with something that keeps so many bytes.
  mutating func tell(bytes: Int, _ body: @escaping @Sendable () -> Void) {
    call(body)
    effectBytes += bytes
  }

  /// Whether the caller has to see to the effects: there are some, and nobody does.
  mutating func beginDraining() -> Bool {
    guard !isDraining, !effects.isEmpty else { return false }
    isDraining = true
    return true
  }

  /// The effects that wait; nil, and the end of the draining, where there are none.
  mutating func takeEffects(at now: Instant) -> [Effect]? {
    readOn(at: now)
    guard !effects.isEmpty else {
      isDraining = false
      return nil
    }
    defer { (effects, effectBytes) = ([], 0) }
    return effects
  }

  // MARK: The machine's outputs

  /// Turns what the machine says into effects.
  mutating func settle() {
    for output in machine.takeOutputs() { settle(output) }
    setTimer()
  }

  private mutating func settle(_ output: CableOutput) {
    switch output {
    case .connected: connected()
    case .end(let cause, let willRetry): end(cause, willRetry)
    case .disconnected(let cause, _):
      for tap in taps { if let onDisconnected = tap.onDisconnected { call { onDisconnected(cause) } } }
    case .send(let text, let perform):
      counters.commands += 1
      put(.send(text, perform: perform))
    case .event(let id, let event): deliver(event, to: id)
    case .outcome(let perform, let outcome):
      if let hearer = outcomes.removeValue(forKey: perform) { call { hearer(outcome) } }
    case .message(let message):
      counters.messages += 1
      for tap in taps {
        guard let onMessage = tap.onMessage else { continue }
        tell(bytes: message.cost) { [types, coding] in onMessage(types.resolved(message, coding)) }
      }
    case .ping:
      counters.pings += 1
      for tap in taps { if let onPing = tap.onPing { call(onPing) } }
    case .ignored(.malformed): counters.malformed += 1
    case .ignored(.unexpected): counters.unexpected += 1
    case .ignored(.unclaimed): counters.unclaimed += 1
    }
  }

  private mutating func connected() {
    counters.connections += 1
    if let completion = link.connecting.take() { call { completion(.success(())) } }
    let headers = sentHeaders
    for tap in taps { if let onConnected = tap.onConnected { call { onConnected(headers) } } }
    answerConnects(.success(()))
  }

  mutating func answerConnects(_ result: Result<Void, DisconnectCause>) {
    for completion in connects { call { completion(result) } }
    connects = []
  }

  /// The protocol ends the connection.
  private mutating func end(_ cause: DisconnectCause, _ willRetry: Bool) {
    let failure = Failure.connectionFailed("Action Cable: \(cause.text)")
    link.willRetry = willRetry
    link.isOpen = false
    link.failure = failure
    if let completion = link.connecting.take() {
      put(.close(attempt: link.attempt) { completion(.failure(failure)) })
    } else {
      tellLoss(failure)
    }
  }

  /// Tells the session that its connection is gone; it closes it then.
  mutating func tellLoss(_ failure: Failure) {
    for hearer in link.losses { call { hearer.hear(failure) } }
    link.losses = []
  }

  // MARK: Subscribers

  private mutating func deliver(_ event: SubscriptionEvent, to id: UInt64) {
    guard let index = subscribers.index(forKey: id) else { return }
    let before = subscribers.values[index].inbox.standing
    let hasGrown = subscribers.values[index].inbox.add(event)
    note(before, subscribers.values[index].inbox.standing)
    if let waiter = subscribers.values[index].waiter.take() {
      let event = takeEvent(of: id)
      // Not under the lock: the end of a task's cancellation waits for it, and waking a task may wait for that.
      call { waiter.resume(returning: event) }
    } else if hasGrown, subscribers.values[index].onEvent != nil {
      put(.deliver(id))
    }
  }

  /// The next event of a subscriber.
  mutating func takeEvent(of id: UInt64) -> SubscriptionEvent? {
    guard let index = subscribers.index(forKey: id) else { return nil }
    let before = subscribers.values[index].inbox.standing
    let event = subscribers.values[index].inbox.take()
    note(before, subscribers.values[index].inbox.standing)
    if case .ended = event { subscribers.remove(at: index) }
    return event
  }

  /// Forgets a subscriber whose events nobody takes any more.
  mutating func forget(_ id: UInt64) {
    guard let subscriber = subscribers.removeValue(forKey: id) else { return }
    if subscriber.inbox.standing.isHolding { holding -= 1 }
  }

  private mutating func note(_ before: Inbox.Standing, _ after: Inbox.Standing) {
    counters.dropped += after.dropped - before.dropped
    if before.isHolding != after.isHolding { holding += after.isHolding ? 1 : -1 }
  }

  // MARK: Reading

  /// Whether the socket may be read.
  var mayRead: Bool {
    holding == 0 && effects.count < Self.maximumEffects && effectBytes < Self.maximumEffectBytes
  }

  /// Reads on where that had been stopped and may be again.
  mutating func readOn(at now: Instant) {
    guard link.isOpen, !link.isAsking, mayRead else { return }
    link.isAsking = true
    machine.setPaused(false, at: now)
    setTimer()
    put(.ask(attempt: link.attempt))
  }

  // MARK: The timer

  private mutating func setTimer() {
    guard let deadline = machine.nextDeadline else { return }
    if let timer, timer.deadline <= deadline { return }
    if let cancel = cancelTimer.take() { call(cancel) }
    lastTimer += 1
    timer = (lastTimer, deadline)
    put(.setTimer(id: lastTimer, deadline))
  }

  /// Keeps what cancels a timer; false where it is no longer wanted.
  mutating func keepTimer(_ id: UInt64, cancel: @escaping @Sendable () -> Void) -> Bool {
    guard timer?.id == id else { return false }
    cancelTimer = cancel
    return true
  }

  /// Forgets the timer.
  mutating func forgetTimer() {
    timer = nil
    if let cancel = cancelTimer.take() { call(cancel) }
  }

  /// A timer is due; false where it is no longer wanted.
  mutating func timerIsDue(_ id: UInt64) -> Bool {
    guard timer?.id == id else { return false }
    timer = nil
    cancelTimer = nil
    return true
  }
}

extension DisconnectCause {
  /// The cause in a few words, for people.
  fileprivate var text: String {
    switch self {
    case .requested: "disconnected on request"
    case .server(let reason): "the server disconnected, reason \(reason?.word ?? "none")"
    case .stale: "the server fell silent"
    case .noWelcome: "the server did not say welcome"
    case .unsupportedSubprotocol(let name): "the server agreed to the subprotocol \(name ?? "none")"
    case .lost(let failure): "\(failure)"
    case .gaveUp(let failures, let failure): "gave up after \(failures) failures: \(failure)"
    }
  }
}
