import Foundation
import Glibc
import Synchronization

/// Hears of readiness on the loop's thread.
package protocol ReadinessHandler: AnyObject, Sendable {
  func isReady(readable: Bool, writable: Bool, hungUp: Bool)
}

/// A descriptor's place in a loop.
///
/// The generation tells a late event for an earlier owner of the place.
package struct Registration: Sendable, Hashable {
  fileprivate let slot: UInt32
  fileprivate let generation: UInt32

  fileprivate var token: UInt64 { UInt64(generation) << 32 | UInt64(slot) }
}

/// One thread around `epoll`: readiness, then due timers, then tasks, then sleep.
package final class EpollEventLoop: EventLoop {
  private struct Slot {
    var generation: UInt32 = 0
    var handler: (any ReadinessHandler)?
  }

  private struct State: ~Copyable, Sendable {
    var tasks: [@Sendable () -> Void] = []
    var timers = TimerQueue()
    var slots: [Slot] = []
    var freeSlots: [UInt32] = []
    /// Whether the thread sleeps, or is about to, and nobody has woken it yet.
    var mustBeWoken = false
  }

  private let epoll = Epoll()
  private let thread = Atomic<UInt>(0)
  private let state = Lock(State())
  // Safe: written by `init` alone, and its memory is used by the loop's thread alone. A loop lives as long as the
  // process, so it is never given back.
  package nonisolated(unsafe) let readBuffer: UnsafeMutableRawBufferPointer

  /// The bytes that one read can take: several 64 KiB messages, and still within a processor's second-level cache.
  package static let readBufferBytes = 256 << 10

  /// Starts the loop's thread, which runs as long as the process.
  package init(name: String) {
    readBuffer = .allocate(byteCount: Self.readBufferBytes, alignment: 64)
    let started = DispatchSemaphore(value: 0)
    let thread = Thread { [self] in
      self.thread.store(pthread_self(), ordering: .relaxed)
      started.signal()
      run()
    }
    thread.name = name
    thread.start()
    started.wait()
  }

  package var now: Instant { .now }

  package var isCurrent: Bool { thread.load(ordering: .relaxed) == pthread_self() }

  package func execute(_ task: @escaping @Sendable () -> Void) {
    wakeAfter { $0.tasks.append(task) }
  }

  package func schedule(at deadline: Instant, _ task: @escaping @Sendable () -> Void) -> LoopTimer {
    wakeAfter { $0.timers.add(at: deadline, task) }
  }

  package func cancel(_ timer: LoopTimer) {
    state.withLock { $0.timers.cancel(timer) }
  }

  /// Watches a descriptor until ``deregister(_:descriptor:)``; the loop keeps the handler alive so long.
  package func register(_ descriptor: Int32, _ handler: any ReadinessHandler) throws(TransportError) -> Registration {
    let registration = state.withLock { state in
      let slot = state.freeSlots.popLast() ?? UInt32(state.slots.count)
      if slot == state.slots.count { state.slots.append(Slot()) }
      state.slots[Int(slot)].handler = handler
      return Registration(slot: slot, generation: state.slots[Int(slot)].generation)
    }
    do throws(TransportError) {
      try epoll.add(descriptor, token: registration.token)
    } catch {
      free(registration)
      throw error
    }
    return registration
  }

  /// Gives a watched descriptor another handler, which is told at once what is ready already.
  package func hand(
    _ registration: Registration, descriptor: Int32, to handler: any ReadinessHandler
  ) throws(TransportError) {
    // The old one is released outside the lock: its end may call back in.
    var handler: (any ReadinessHandler)? = handler
    state.withLock { swap(&$0.slots[Int(registration.slot)].handler, &handler) }
    try epoll.renew(descriptor, token: registration.token)
  }

  /// Ends the watch.
  ///
  /// An event that is being delivered may still arrive.
  package func deregister(_ registration: Registration, descriptor: Int32) {
    epoll.remove(descriptor)
    free(registration)
  }

  private func free(_ registration: Registration) {
    // The handler is released outside the lock: its end may call back in.
    let handler = state.withLock { state -> (any ReadinessHandler)? in
      let slot = Int(registration.slot)
      guard state.slots[slot].generation == registration.generation else { return nil }
      let handler = state.slots[slot].handler.take()
      state.slots[slot].generation &+= 1
      state.freeSlots.append(registration.slot)
      return handler
    }
    _ = handler
  }

  /// Changes the state and wakes the thread if that is asleep: one wake-up, however many ask.
  private func wakeAfter<Result>(_ change: (inout State) -> Result) -> Result {
    let (result, mustWake) = state.withLock { state in
      let result = change(&state)
      defer { state.mustBeWoken = false }
      return (result, state.mustBeWoken)
    }
    if mustWake { epoll.wake() }
    return result
  }

  // MARK: - The thread

  private func run() {
    var events = [Epoll.Event](repeating: Epoll.Event(), count: Epoll.eventsPerWait)
    var ready: [(handler: any ReadinessHandler, event: Epoll.Event)] = []
    var wait = turn()
    while true {
      let count = epoll.wait(milliseconds: wait, into: &events)
      if count == 1 {
        let event = events[0]
        let handler = state.withLock { state in
          state.mustBeWoken = false
          return recipient(of: event, state)
        }
        handler?.isReady(readable: event.readable, writable: event.writable, hungUp: event.hungUp)
      } else {
        state.withLock { state in
          state.mustBeWoken = false
          for index in 0..<count {
            if let handler = recipient(of: events[index], state) { ready.append((handler, events[index])) }
          }
        }
        for (handler, event) in ready {
          handler.isReady(readable: event.readable, writable: event.writable, hungUp: event.hungUp)
        }
        ready.removeAll(keepingCapacity: true)
      }
      wait = turn()
    }
  }

  /// Whom an event is for; nil where it is for an earlier owner of its place.
  private func recipient(of event: Epoll.Event, _ state: borrowing State) -> (any ReadinessHandler)? {
    let slot = Int(UInt32(truncatingIfNeeded: event.token))
    let generation = UInt32(truncatingIfNeeded: event.token >> 32)
    return state.slots[slot].generation == generation ? state.slots[slot].handler : nil
  }

  /// Runs what is due and returns how long the thread may sleep then, in milliseconds, rounded up; -1: for ever.
  ///
  /// Tasks that these add wait for the next turn, so that sockets are not starved.
  private func turn() -> Int32 {
    let (due, wait) = state.withLock { state in
      let due = takeDue(&state)
      return (due, due.isEmpty ? prepareToSleep(&state) : 0)
    }
    guard !due.isEmpty else { return wait }
    for task in due { task() }
    return state.withLock { state in prepareToSleep(&state) }
  }

  private func takeDue(_ state: inout State) -> [@Sendable () -> Void] {
    guard !state.tasks.isEmpty || !state.timers.isEmpty else { return [] }
    var due: [@Sendable () -> Void] = []
    if !state.timers.isEmpty {
      let now = Instant.now
      while let task = state.timers.popDue(at: now) { due.append(task) }
    }
    if !state.tasks.isEmpty {
      due.append(contentsOf: state.tasks)
      state.tasks.removeAll(keepingCapacity: state.tasks.count <= 64)
    }
    return due
  }

  private func prepareToSleep(_ state: inout State) -> Int32 {
    guard state.tasks.isEmpty else { return 0 }
    state.mustBeWoken = true
    guard let deadline = state.timers.nextDeadline() else { return -1 }
    let wait = deadline.nanoseconds - Instant.now.nanoseconds
    return wait <= 0 ? 0 : Int32(min((wait + 999_999) / 1_000_000, 60_000))
  }
}
