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

  /// The clock and the timers of one of the environment's loops, and its random bytes.
  package init(_ environment: Environment) {
    let loop = environment.makeLoop()
    self.init(
      now: { loop.now },
      randomBits: { environment.random.bytes(8).reduce(0) { $0 << 8 | UInt64($1) } },
      schedule: { delay, work in
        let timer = loop.schedule(after: delay, work)
        return { loop.cancel(timer) }
      })
  }
}
