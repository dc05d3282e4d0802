package import WebSocketTransport

/// Decides when to connect, when to wait and when to stop.
///
/// A value: it does nothing itself.
package struct ReconnectMachine: Sendable, Hashable {
  /// What the driver does next.
  package enum Action: Sendable, Hashable {
    /// Nothing.
    case none
    /// Connect, and forget the timer if one is set.
    case connect
    /// Set a timer; `attempt` counts from 1 and is the one that the timer leads to.
    case wait(Duration, attempt: Int)
    /// Forget the timer.
    case cancelTimer
    /// Close the connection or give up the attempt.
    case disconnect
  }

  private enum State: Sendable, Hashable {
    case stopped
    /// `failures` in a row so far.
    case connecting(failures: Int)
    case connected(since: Instant, failures: Int)
    case waiting(failures: Int)
  }

  private let backoff: Backoff
  private var state = State.stopped

  /// A machine that is stopped.
  package init(backoff: Backoff) { self.backoff = backoff }

  /// Whether a connection is open.
  package var isConnected: Bool {
    switch state {
    case .connected: true
    case .stopped, .connecting, .waiting: false
    }
  }

  /// Whether the machine was stopped or not yet started.
  package var isStopped: Bool {
    switch state {
    case .stopped: true
    case .connecting, .connected, .waiting: false
    }
  }

  /// The user wants a connection.
  ///
  /// While waiting, the wait ends here.
  package mutating func start() -> Action {
    switch state {
    case .stopped:
      state = .connecting(failures: 0)
      return .connect
    case .waiting(let failures):
      state = .connecting(failures: failures)
      return .connect
    case .connecting, .connected:
      return .none
    }
  }

  /// The user wants no connection any more.
  package mutating func stop() -> Action {
    defer { state = .stopped }
    switch state {
    case .stopped: return .none
    case .connecting, .connected: return .disconnect
    case .waiting: return .cancelTimer
    }
  }

  /// The attempt succeeded.
  package mutating func connected(at now: Instant) -> Action {
    switch state {
    case .connecting(let failures):
      state = .connected(since: now, failures: failures)
      return .none
    case .stopped, .connected, .waiting:
      return .none
    }
  }

  /// The attempt failed.
  package mutating func attemptFailed(at now: Instant, randomBits: UInt64) -> Action {
    switch state {
    case .connecting(let failures): wait(failures: failures, randomBits: randomBits)
    case .stopped, .connected, .waiting: .none
    }
  }

  /// The connection ended, and not because of ``stop()``.
  package mutating func lost(at now: Instant, randomBits: UInt64) -> Action {
    switch state {
    case .connected(let since, let failures):
      wait(failures: now - since >= backoff.resetAfter ? 0 : failures, randomBits: randomBits)
    case .stopped, .connecting, .waiting: .none
    }
  }

  /// The timer of the last ``Action/wait(_:attempt:)`` is due.
  package mutating func timerFired() -> Action {
    switch state {
    case .waiting(let failures):
      state = .connecting(failures: failures)
      return .connect
    case .stopped, .connecting, .connected:
      return .none
    }
  }

  private mutating func wait(failures: Int, randomBits: UInt64) -> Action {
    let attempt = failures + 1
    state = .waiting(failures: attempt)
    return .wait(backoff.delay(attempt: attempt, randomBits: randomBits), attempt: attempt)
  }
}
