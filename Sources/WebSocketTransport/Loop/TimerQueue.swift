/// Timers in the order of their deadlines, those with equal ones in the order of their making: a binary heap, with
/// cancelled entries left in it until they come up or are half of it.
package struct TimerQueue: Sendable {
  private struct Entry {
    var deadline: Instant
    var id: UInt64

    func isBefore(_ other: Entry) -> Bool { (deadline, id) < (other.deadline, other.id) }
  }

  private var heap: [Entry] = []
  private var tasks: [UInt64: @Sendable () -> Void] = [:]
  private var lastID: UInt64 = 0

  package init() {}

  package var isEmpty: Bool { tasks.isEmpty }

  package mutating func add(at deadline: Instant, _ task: @escaping @Sendable () -> Void) -> LoopTimer {
    lastID += 1
    tasks[lastID] = task
    heap.append(Entry(deadline: deadline, id: lastID))
    siftUp(heap.count - 1)
    return LoopTimer(id: lastID)
  }

  package mutating func cancel(_ timer: LoopTimer) {
    tasks[timer.id] = nil
    if heap.count > 64, heap.count > 2 * tasks.count {
      // Sorted is a heap.
      heap = heap.filter { tasks[$0.id] != nil }.sorted { $0.isBefore($1) }
    }
  }

  /// The next deadline; nil where there is no timer.
  package mutating func nextDeadline() -> Instant? {
    while let first = heap.first {
      if tasks[first.id] != nil { return first.deadline }
      removeFirst()
    }
    return nil
  }

  /// Takes the first timer that is due at `now`.
  package mutating func popDue(at now: Instant) -> (@Sendable () -> Void)? {
    while let first = heap.first, first.deadline <= now {
      removeFirst()
      if let task = tasks.removeValue(forKey: first.id) { return task }
    }
    return nil
  }

  private mutating func removeFirst() {
    heap.swapAt(0, heap.count - 1)
    heap.removeLast()
    var parent = 0
    while true {
      var least = parent
      for child in [2 * parent + 1, 2 * parent + 2] where child < heap.count {
        if heap[child].isBefore(heap[least]) { least = child }
      }
      guard least != parent else { return }
      heap.swapAt(parent, least)
      parent = least
    }
  }

  private mutating func siftUp(_ start: Int) {
    var child = start
    while child > 0, heap[child].isBefore(heap[(child - 1) / 2]) {
      heap.swapAt(child, (child - 1) / 2)
      child = (child - 1) / 2
    }
  }
}
