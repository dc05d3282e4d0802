import CSystem
import Glibc

/// Linux's readiness notification (`epoll`), edge-triggered, with a descriptor to wake it from other threads.
struct Epoll: ~Copyable, Sendable {
  /// One descriptor's news.
  struct Event: Sendable {
    var token: UInt64 = 0
    var readable = false
    var writable = false
    /// The peer ended its stream; it may lie behind bytes that are still to be read.
    var hungUp = false
  }

  private let epoll: FileDescriptor
  private let wakeUp: FileDescriptor
  private static let wakeUpToken = UInt64.max

  init() {
    let epoll = epoll_create1(Int32(EPOLL_CLOEXEC))
    precondition(epoll >= 0, "epoll_create1: \(TransportError.text(errno))")
    self.epoll = FileDescriptor(owning: epoll)
    let wakeUp = eventfd(0, Int32(EFD_CLOEXEC | EFD_NONBLOCK))
    precondition(wakeUp >= 0, "eventfd: \(TransportError.text(errno))")
    self.wakeUp = FileDescriptor(owning: wakeUp)
    let status = csystem_epoll_control(
      epoll, EPOLL_CTL_ADD, wakeUp, EPOLLIN.rawValue | EPOLLET.rawValue, Self.wakeUpToken)
    precondition(status == 0, "epoll_ctl: \(TransportError.text(errno))")
  }

  /// Watches a descriptor for both directions; told at once where it is ready already.
  ///
  /// Closing it ends the watch.
  func add(_ descriptor: Int32, token: UInt64) throws(TransportError) {
    try control(EPOLL_CTL_ADD, descriptor, token)
  }

  /// Tells again what is ready.
  func renew(_ descriptor: Int32, token: UInt64) throws(TransportError) {
    try control(EPOLL_CTL_MOD, descriptor, token)
  }

  private func control(_ operation: Int32, _ descriptor: Int32, _ token: UInt64) throws(TransportError) {
    let events = EPOLLIN.rawValue | EPOLLOUT.rawValue | EPOLLRDHUP.rawValue | EPOLLET.rawValue
    guard csystem_epoll_control(epoll.rawValue, operation, descriptor, events, token) == 0 else {
      throw .system(call: "epoll_ctl", errorNumber: errno)
    }
  }

  func remove(_ descriptor: Int32) {
    _ = epoll_ctl(epoll.rawValue, EPOLL_CTL_DEL, descriptor, nil)
  }

  /// Ends the current or the next wait.
  func wake() {
    var one: UInt64 = 1
    // Full means that a wake-up is on its way already. The count is never read: each write is a new edge.
    _ = Glibc.write(wakeUp.rawValue, &one, MemoryLayout<UInt64>.size)
  }

  /// How many events one wait can bring.
  static let eventsPerWait = 64

  /// Waits for news at most `milliseconds` (-1: for ever) and returns how many events there are, at the start of
  /// `events`, which has room for ``eventsPerWait``.
  func wait(milliseconds: Int32, into events: inout [Event]) -> Int {
    withUnsafeTemporaryAllocation(of: epoll_event.self, capacity: Self.eventsPerWait) { buffer in
      var filled = 0
      let count = epoll_wait(epoll.rawValue, buffer.baseAddress, Int32(buffer.count), milliseconds)
      guard count > 0, let base = buffer.baseAddress else { return 0 }  // a signal only ends the wait
      for index in 0..<Int(count) {
        let token = csystem_epoll_token(base + index)
        guard token != Self.wakeUpToken else { continue }
        let mask = buffer[index].events
        let trouble = EPOLLERR.rawValue | EPOLLHUP.rawValue
        events[filled] = Event(
          token: token,
          readable: mask & (EPOLLIN.rawValue | EPOLLRDHUP.rawValue | trouble) != 0,
          writable: mask & (EPOLLOUT.rawValue | trouble) != 0,
          hungUp: mask & (EPOLLRDHUP.rawValue | trouble) != 0)
        filled += 1
      }
      return filled
    }
  }
}
