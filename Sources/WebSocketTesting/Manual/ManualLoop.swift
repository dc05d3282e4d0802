import Glibc
import WebSocketTransport

/// An event loop without a thread: its work waits until a test's thread runs it, and its clock moves only then.
///
/// Callbacks and other work that does not belong on a loop's thread wait in the same line, so that everything happens
/// in the order in which it was asked for.
final class ManualLoop: EventLoop {
  private enum Place {
    case loop
    case elsewhere
  }

  private struct Work: Sendable {
    var place: Place
    var body: @Sendable () -> Void
  }

  private struct State: ~Copyable, Sendable {
    var now = Instant(nanoseconds: 0)
    var work: [Work] = []
    var next = 0
    var timers = TimerQueue()
    /// The thread that runs the work; 0 where none does.
    var runner: UInt = 0
    var place = Place.elsewhere

    /// The next piece of work that is due until then; where there is none, that moment has come.
    ///
    /// Due timers come before other work, as on a real loop. Time moves only when nothing else is left.
    mutating func takeNext(until end: Instant) -> (body: @Sendable () -> Void, isLater: Bool)? {
      if let body = timers.popDue(at: now) {
        place = .loop
        return (body, false)
      }
      if next < work.count {
        let first = work[next]
        next += 1
        if next == work.count {
          work.removeAll(keepingCapacity: true)
          next = 0
        }
        place = first.place
        return (first.body, false)
      }
      place = .elsewhere
      guard let deadline = timers.nextDeadline(), deadline <= end else {
        now = max(now, end)
        return nil
      }
      now = deadline
      return timers.popDue(at: now).map { body in
        place = .loop
        return (body, true)
      }
    }
  }

  /// More work than this at one moment never comes to an end.
  private static let maximumStepsPerMoment = 10_000_000

  private let state = Lock(State())
  // Safe: written by `init` alone; its memory is used by the work of the loop alone, which one thread runs at a time,
  // and is given back when nobody knows the loop any more.
  nonisolated(unsafe) let readBuffer: UnsafeMutableRawBufferPointer

  init(readBufferBytes: Int) {
    precondition(readBufferBytes > 0, "a read takes at least one byte")
    readBuffer = .allocate(byteCount: readBufferBytes, alignment: 64)
  }

  deinit { readBuffer.deallocate() }

  var now: Instant { state.withLock { $0.now } }

  var isCurrent: Bool {
    let thread = pthread_self()
    return state.withLock { $0.runner == thread && $0.place == .loop }
  }

  /// Whether a thread runs the work.
  var isRunning: Bool { state.withLock { $0.runner != 0 } }

  var hasTimers: Bool { state.withLock { $0.timers.nextDeadline() != nil } }

  func execute(_ task: @escaping @Sendable () -> Void) {
    state.withLock { $0.work.append(Work(place: .loop, body: task)) }
  }

  /// Runs the work later, not as the loop's.
  func executeElsewhere(_ task: @escaping @Sendable () -> Void) {
    state.withLock { $0.work.append(Work(place: .elsewhere, body: task)) }
  }

  func schedule(at deadline: Instant, _ task: @escaping @Sendable () -> Void) -> LoopTimer {
    state.withLock { $0.timers.add(at: deadline, task) }
  }

  func cancel(_ timer: LoopTimer) { state.withLock { $0.timers.cancel(timer) } }

  /// Runs what is due until that much later, step by step, on the caller's thread.
  func advance(by duration: Duration) {
    let thread = pthread_self()
    let end = state.withLock { state in
      precondition(state.runner == 0, "time moves on one thread, and not from inside what moves with it")
      state.runner = thread
      return state.now + duration
    }
    var steps = 0
    while let (body, isLater) = state.withLock({ $0.takeNext(until: end) }) {
      steps = isLater ? 0 : steps + 1
      precondition(steps < Self.maximumStepsPerMoment, "work that makes work never comes to an end")
      body()
    }
    state.withLock { $0.runner = 0 }
  }
}

/// Callbacks that wait for the thread that moves the time.
struct ManualCallbackExecutor: CallbackExecutor {
  let loop: ManualLoop

  func execute(_ work: @escaping @Sendable () -> Void) { loop.executeElsewhere(work) }
}
