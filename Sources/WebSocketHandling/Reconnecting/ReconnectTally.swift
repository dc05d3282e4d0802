package import WebSocketTransport

/// Counts failures, and applies a policy's schedule and limits to them.
///
/// A value: time and chance come in as parameters, and so does what the policy's rule decided, which is the caller's
/// code and must not be called under a lock.
package struct ReconnectTally: Sendable {
  /// What follows from a failure.
  package enum Verdict: Sendable, Hashable {
    /// Wait for so long, then connect; `attempt` counts from 1.
    case wait(Duration, attempt: Int)
    /// No more attempts.
    case stop(StopReason)
  }

  private let policy: ReconnectPolicy
  private let hasProvider: Bool
  private var failures = 0
  /// When the first failure of the row was.
  private var firstFailure: Instant?
  /// Whether credentials were refused since the last connection.
  private var wasDenied = false

  package init(policy: ReconnectPolicy, hasProvider: Bool) {
    self.policy = policy
    self.hasProvider = hasProvider
  }

  /// An attempt succeeded.
  package mutating func connected() { wasDenied = false }

  /// Counts a failure and says what the policy's rule has to judge.
  package mutating func failed(_ error: any Error, in phase: ReconnectCause.Phase, at now: Instant) -> ReconnectCause {
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
    return cause
  }

  /// What follows from the last failure and the rule's decision about it.
  package func verdict(
    on cause: ReconnectCause, _ decision: ReconnectDecision, at now: Instant, randomBits: UInt64
  ) -> Verdict {
    guard case .retry(let notBefore) = decision else { return .stop(.failed(cause.failure)) }
    let delay = max(.zero, notBefore) + policy.backoff.delay(attempt: failures, randomBits: randomBits)
    let isTooMany = policy.maximumFailures.map { failures > $0 } ?? false
    let isTooLate = policy.maximumTime.map { now + delay - (firstFailure ?? now) > $0 } ?? false
    if isTooMany || isTooLate { return .stop(.gaveUp(failures: failures, cause.failure)) }
    return .wait(delay, attempt: failures)
  }
}
