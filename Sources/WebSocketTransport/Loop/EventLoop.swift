/// One thread's worth of work: tasks and timers in order, with a clock.
package protocol EventLoop: AnyObject, Sendable {
  /// The loop's clock.
  var now: Instant { get }
  /// Whether the caller runs on this loop's thread.
  var isCurrent: Bool { get }
  /// Runs the task on the loop's thread, later, after those given before.
  func execute(_ task: @escaping @Sendable () -> Void)
  /// Runs the task on the loop's thread when `deadline` has come. Never before this returns.
  func schedule(at deadline: Instant, _ task: @escaping @Sendable () -> Void) -> LoopTimer
  /// Forgets a timer. It may still run if it is due at this moment on another thread.
  func cancel(_ timer: LoopTimer)
  /// The memory that connections read into, one after the other. Only for the loop's own thread, and only until the
  /// next connection's turn.
  var readBuffer: UnsafeMutableRawBufferPointer { get }
}

/// A timer of one loop.
package struct LoopTimer: Sendable, Hashable {
  let id: UInt64
}

extension EventLoop {
  /// Runs the task after a while.
  package func schedule(after delay: Duration, _ task: @escaping @Sendable () -> Void) -> LoopTimer {
    schedule(at: now + delay, task)
  }
}
