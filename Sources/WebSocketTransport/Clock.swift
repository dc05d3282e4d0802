import Glibc

/// A moment on a clock that only goes forward, in nanoseconds since some start.
package struct Instant: Sendable, Hashable, Comparable {
  package var nanoseconds: Int64

  package init(nanoseconds: Int64) { self.nanoseconds = nanoseconds }

  /// The system's monotonic clock.
  ///
  /// It stands still while the machine sleeps.
  package static var now: Instant {
    var time = timespec()
    clock_gettime(CLOCK_MONOTONIC, &time)
    return Instant(nanoseconds: Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec))
  }

  package static func < (left: Instant, right: Instant) -> Bool { left.nanoseconds < right.nanoseconds }

  /// The moment `duration` later; the end of time where that cannot be counted.
  package static func + (moment: Instant, duration: Duration) -> Instant {
    let (sum, overflow) = moment.nanoseconds.addingReportingOverflow(duration.nanoseconds)
    return Instant(nanoseconds: overflow ? .max : sum)
  }

  package static func - (left: Instant, right: Instant) -> Duration {
    .nanoseconds(left.nanoseconds - right.nanoseconds)
  }
}

extension Duration {
  /// The duration in nanoseconds, at least zero and at most what 64 bits hold.
  package var nanoseconds: Int64 {
    let (seconds, attoseconds) = components
    let (whole, overflow) = seconds.multipliedReportingOverflow(by: 1_000_000_000)
    guard !overflow else { return seconds < 0 ? 0 : .max }
    let (sum, tooMuch) = whole.addingReportingOverflow(attoseconds / 1_000_000_000)
    return tooMuch ? .max : max(0, sum)
  }
}
