import Dispatch

/// Lines of standard input that were sent and have no outcome yet: a bounded number.
struct LinesOutstanding: Sendable {
  private let room = DispatchSemaphore(value: 64)
  private let lines = DispatchGroup()

  /// Takes one more; waits until there is room.
  func add() {
    room.wait()
    lines.enter()
  }

  /// One has its outcome.
  func remove() {
    lines.leave()
    room.signal()
  }

  /// Calls as soon as each has its outcome.
  func whenNone(_ body: @escaping @Sendable () -> Void) { lines.notify(queue: .global(), execute: body) }
}
