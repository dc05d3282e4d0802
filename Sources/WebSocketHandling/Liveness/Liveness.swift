import WebSocketTransport

/// Decides when to ping, and when a connection is dead or idle: times go in, what to do comes out.
struct Liveness: Sendable {
  /// What is to be done now.
  enum Action: Sendable, Hashable {
    case nothing
    case ping
    /// No sign of life within the deadline.
    case dead
    /// No message for the idle time-out.
    case idle
  }

  private var keepalive: Keepalive?
  private var idleTimeout: Duration?
  private var nextPing: Instant?
  /// When the first ping was sent that no sign of life has followed.
  private var unansweredSince: Instant?
  private var lastMessage = Instant(nanoseconds: 0)

  /// Begins with a new connection.
  mutating func start(_ keepalive: Keepalive?, idleTimeout: Duration?, at now: Instant) {
    // Without any time between them pings, and verdicts that are put off, would never end.
    let least = Duration.milliseconds(1)
    self.keepalive = keepalive.map { Keepalive(interval: max($0.interval, least), deadline: max($0.deadline, least)) }
    self.idleTimeout = idleTimeout.map { max($0, least) }
    nextPing = self.keepalive.map { now + $0.interval }
    unansweredSince = nil
    lastMessage = now
  }

  /// A sign of life.
  mutating func sawLife() { unansweredSince = nil }

  /// A message came or went.
  mutating func sawMessage(at loop: any EventLoop) {
    if idleTimeout != nil { lastMessage = loop.now }
  }

  /// When to ask again; nil: never.
  var nextDeadline: Instant? {
    [nextPing, deathAt, idleTimeout.map { lastMessage + $0 }].compactMap(\.self).min()
  }

  private var deathAt: Instant? {
    guard let keepalive, let unansweredSince else { return nil }
    return unansweredSince + keepalive.deadline
  }

  /// Whether a verdict of death is due: the last moment to look for bytes that are not read yet.
  func isDeathDue(at now: Instant) -> Bool { deathAt.map { $0 <= now } ?? false }

  /// What is due at `now`.
  ///
  /// - Parameter isPaused: this endpoint does not read, so that neither signs of life nor messages could be seen.
  mutating func act(at now: Instant, isPaused: Bool) -> Action {
    if let deathAt, deathAt <= now {
      guard isPaused else { return .dead }
      unansweredSince = now
    }
    if let idleTimeout, lastMessage + idleTimeout <= now {
      guard isPaused else { return .idle }
      lastMessage = now
    }
    if let keepalive, let due = nextPing, due <= now {
      nextPing = now + keepalive.interval
      if unansweredSince == nil { unansweredSince = now }
      return .ping
    }
    return .nothing
  }
}
