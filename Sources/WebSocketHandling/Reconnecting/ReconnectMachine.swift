package import WebSocketTransport

/// Decides when to connect, when to wait and when to stop: it counts failures, and applies a policy's schedule and
/// limits to them.
///
/// A value: it does nothing itself. Time and chance come in as parameters, and so does what the policy's rule decided,
/// which is the caller's code and must not be called under a lock.
package struct ReconnectMachine: Sendable {
  /// What the driver does next.
  package enum Action: Sendable, Hashable {
    /// Nothing.
    case none
    /// Begin an attempt; a timer that is set is no longer wanted, nor is an attempt or a connection.
    case connect
    /// Do the same, but wait for the gate.
    case hold
    /// Set a timer; `attempt` counts from 1 and is the one that the timer leads to.
    case wait(Duration, attempt: Int)
    /// Give up whatever is under way, and connect no more.
    case stop(StopReason)
  }

  private enum State: Sendable {
    case stopped
    /// The gate is closed.
    case held
    case connecting
    case connected(since: Instant)
    /// The policy's rule was asked about the last failure.
    case judging(ReconnectCause)
    case waiting
  }

  private let policy: ReconnectPolicy
  private let hasProvider: Bool
  private var state = State.stopped
  private var gateIsOpen = true
  /// In a row.
  private var failures = 0
  /// When the first failure of the row was.
  private var firstFailure: Instant?
  /// Whether credentials were refused since the last connection.
  private var wasDenied = false

  /// A machine that is stopped, and whose gate is open.
  ///
  /// - Parameter hasProvider: whether somebody can be asked for other credentials.
  package init(policy: ReconnectPolicy, hasProvider: Bool) {
    self.policy = policy
    self.hasProvider = hasProvider
  }

  /// Whether a connection is open.
  package var isConnected: Bool { if case .connected = state { true } else { false } }

  /// Whether the machine was stopped or not yet started.
  package var isStopped: Bool { if case .stopped = state { true } else { false } }

  // MARK: The user's inputs

  /// The user wants a connection.
  package mutating func start() -> Action {
    switch state {
    case .stopped:
      forgetFailures()
      return attempt()
    case .held, .connecting, .connected, .judging, .waiting:
      return .none
    }
  }

  /// The user wants no connection any more.
  package mutating func stop() -> Action {
    switch state {
    case .stopped: return .none
    case .held, .connecting, .connected, .judging, .waiting:
      state = .stopped
      return .stop(.requested)
    }
  }

  /// The user wants another connection than the one there is or may soon be, and what failed so far counts no more.
  package mutating func startOver() -> Action {
    switch state {
    case .stopped: return .none
    case .held, .connecting, .connected, .judging, .waiting:
      forgetFailures()
      return attempt()
    }
  }

  /// The user does not want to wait for the next attempt.
  package mutating func reconnectNow() -> Action {
    switch state {
    case .waiting: attempt()
    case .stopped, .held, .connecting, .connected, .judging: .none
    }
  }

  /// Attempts may begin, or may not.
  package mutating func setGate(isOpen: Bool) -> Action {
    gateIsOpen = isOpen
    switch state {
    case .held where isOpen: return attempt()
    case .stopped, .held, .connecting, .connected, .judging, .waiting: return .none
    }
  }

  // MARK: What happened

  /// The attempt succeeded.
  package mutating func connected(at now: Instant) {
    switch state {
    case .connecting:
      state = .connected(since: now)
      wasDenied = false
    case .stopped, .held, .connected, .judging, .waiting:
      break
    }
  }

  /// The attempt failed: its request, where the provider was at fault.
  ///
  /// - Returns: what the policy's rule has to judge; ``judged(_:at:randomBits:)`` is next.
  package mutating func attemptFailed(
    _ error: any Error, inRequest: Bool = false, at now: Instant
  ) -> ReconnectCause? {
    switch state {
    case .connecting: failed(error, inRequest ? .request : .attempt, at: now)
    case .stopped, .held, .connected, .judging, .waiting: nil
    }
  }

  /// The connection ended, and not because the user wanted that.
  ///
  /// - Returns: what the policy's rule has to judge; ``judged(_:at:randomBits:)`` is next.
  package mutating func lost(_ error: any Error, at now: Instant) -> ReconnectCause? {
    switch state {
    case .connected(let since): failed(error, .connection(uptime: now - since), at: now)
    case .stopped, .held, .connecting, .judging, .waiting: nil
    }
  }

  /// The policy's rule has decided about the last failure.
  package mutating func judged(_ decision: ReconnectDecision, at now: Instant, randomBits: UInt64) -> Action {
    guard case .judging(let cause) = state else { return .none }
    state = .stopped
    guard case .retry(let notBefore) = decision else { return .stop(.failed(cause.failure)) }
    let delay = max(.zero, notBefore) + policy.backoff.delay(attempt: failures, randomBits: randomBits)
    let isTooMany = policy.maximumFailures.map { failures > $0 } ?? false
    let isTooLate = policy.maximumTime.map { now + delay - (firstFailure ?? now) > $0 } ?? false
    if isTooMany || isTooLate { return .stop(.gaveUp(failures: failures, cause.failure)) }
    state = .waiting
    return .wait(delay, attempt: failures)
  }

  /// The timer of the last ``Action/wait(_:attempt:)`` is due.
  package mutating func timerFired() -> Action { reconnectNow() }

  // MARK: Steps

  private mutating func attempt() -> Action {
    state = gateIsOpen ? .connecting : .held
    return gateIsOpen ? .connect : .hold
  }

  private mutating func forgetFailures() {
    failures = 0
    firstFailure = nil
    wasDenied = false
  }

  /// Counts a failure; a connection that lasted ends the row of them.
  private mutating func failed(_ error: any Error, _ phase: ReconnectCause.Phase, at now: Instant) -> ReconnectCause {
    if case .connection(let uptime) = phase, uptime >= policy.backoff.resetAfter {
      failures = 0
      firstFailure = nil
    }
    failures += 1
    firstFailure = firstFailure ?? now
    let cause = ReconnectCause(
      phase: phase, error: error, failures: failures, mayAskProvider: hasProvider && !wasDenied)
    if case .handshakeRefused(let refusal) = cause.failure, refusal.status == 401 || refusal.status == 403 {
      wasDenied = true
    }
    state = .judging(cause)
    return cause
  }
}
