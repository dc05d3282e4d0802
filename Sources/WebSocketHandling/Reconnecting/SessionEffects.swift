import WebSocketCore

/// What a ``ReconnectingSession`` has to do, in order, and the timers that it has set.
struct SessionEffects: Sendable {
  /// One thing to do.
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
    /// The age of the oldest message in the outbox.
    case expiry
  }

  private struct SetTimer: Sendable {
    let id: UInt64
    var cancel: (@Sendable () -> Void)?
  }

  private var list: [Effect] = []
  private var isDraining = false
  private var timers: [Timer: SetTimer] = [:]
  private var lastTimerID: UInt64 = 0

  mutating func append(_ effect: Effect) { list.append(effect) }

  mutating func answer<Success, Failure>(
    _ completion: @escaping @Sendable (Result<Success, Failure>) -> Void, _ result: Result<Success, Failure>
  ) where Success: Sendable {
    list.append(.call { completion(result) })
  }

  /// Whether the caller has to see to the effects: there are some, and nobody does.
  mutating func beginDraining() -> Bool {
    guard !isDraining, !list.isEmpty else { return false }
    isDraining = true
    return true
  }

  /// The effects that wait; nil, and the end of the draining, where there are none.
  mutating func take() -> [Effect]? {
    guard !list.isEmpty else {
      isDraining = false
      return nil
    }
    defer { list = [] }
    return list
  }

  // MARK: Timers

  mutating func set(_ timer: Timer, _ delay: Duration) {
    lastTimerID += 1
    timers[timer] = SetTimer(id: lastTimerID)
    list.append(.setTimer(timer, id: lastTimerID, delay))
  }

  mutating func forget(_ timer: Timer) {
    if let cancel = timers.removeValue(forKey: timer)?.cancel { list.append(.call(cancel)) }
  }

  mutating func forgetTimers() {
    for timer in timers.keys { forget(timer) }
  }

  /// Keeps what cancels a timer; false where the timer is no longer wanted.
  mutating func keep(_ timer: Timer, id: UInt64, cancel: @escaping @Sendable () -> Void) -> Bool {
    guard timers[timer]?.id == id else { return false }
    timers[timer]?.cancel = cancel
    return true
  }

  /// Forgets a timer that is due; false where it was no longer wanted.
  mutating func fire(_ timer: Timer, id: UInt64) -> Bool {
    guard timers[timer]?.id == id else { return false }
    timers[timer] = nil
    return true
  }
}
