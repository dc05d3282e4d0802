import Dispatch
package import WebSocketTransport

/// Time and chance as a ``ChatViewModel`` sees them, so that tests can decide both.
package struct ChatTiming: Sendable {
  /// The time.
  package var now: @Sendable () -> Instant
  /// Bits for the jitter.
  package var randomBits: @Sendable () -> UInt64
  /// Runs the work after the delay, on any thread, and returns what cancels it.
  ///
  /// Cancelling late does no harm.
  package var schedule: @Sendable (Duration, @escaping @Sendable () -> Void) -> @Sendable () -> Void

  package init(
    now: @escaping @Sendable () -> Instant, randomBits: @escaping @Sendable () -> UInt64,
    schedule: @escaping @Sendable (Duration, @escaping @Sendable () -> Void) -> @Sendable () -> Void
  ) {
    self.now = now
    self.randomBits = randomBits
    self.schedule = schedule
  }

  /// The system's clock, random source and timers.
  package static let system = ChatTiming(
    now: { .now },
    randomBits: { UInt64.random(in: .min ... .max) },
    schedule: { delay, work in
      let pending = PendingWork(work)
      DispatchQueue.global().asyncAfter(deadline: .now() + .nanoseconds(Int(clamping: delay.nanoseconds))) {
        pending.take()?()
      }
      return { _ = pending.take() }
    })
}

/// Work that is done at most once, and not after it was taken away.
private final class PendingWork: Sendable {
  private let work: Lock<(@Sendable () -> Void)?>

  init(_ work: @escaping @Sendable () -> Void) { self.work = Lock(work) }

  func take() -> (@Sendable () -> Void)? {
    work.withLock { work in
      defer { work = nil }
      return work
    }
  }
}
