import CSystem
import Glibc

/// A value behind a mutex of the system's.
///
/// Why not `Synchronization.Mutex`: the thread sanitizer on Linux does not see it and reports races that are none.
///
/// Safety: mutex and value live at one stable heap address from `init` to `deinit`, and the value is reached only
/// between lock and unlock. That is why the type may be shared between threads (`@unchecked Sendable`).
@usableFromInline package struct Lock<State: ~Copyable & Sendable>: ~Copyable, @unchecked Sendable {
  /// Both lie in one piece of memory, which begins with the mutex.
  @usableFromInline let mutex: SystemMutex
  @usableFromInline let state: UnsafeMutablePointer<State>

  @inlinable package init(_ initial: consuming State) {
    // A value of no size has a byte too: its address must not be that of somebody else's memory, or the thread sanitizer
    // reports races that are none.
    mutex = SystemMutex(followedBy: max(MemoryLayout<State>.size, 1))
    precondition(
      MemoryLayout<State>.alignment <= SystemMutex.alignment, "the memory behind the mutex is aligned for the value")
    state = (mutex.memory + SystemMutex.size).bindMemory(to: State.self, capacity: 1)
    state.initialize(to: initial)
  }

  @inlinable deinit {
    state.deinitialize(count: 1)
    mutex.destroy()
  }

  /// Runs `body` with the value, alone.
  ///
  /// Never calls the user's code inside; not recursive.
  @inlinable @inline(__always)
  package func withLock<Result: ~Copyable, Failure: Error>(
    _ body: (inout State) throws(Failure) -> Result
  ) throws(Failure) -> Result {
    mutex.lock()
    defer { mutex.unlock() }
    return try body(&state.pointee)
  }
}

/// The system's mutex, at the start of a piece of memory whose rest is the owner's.
///
/// Safety: the memory is there from `init` to ``destroy()``, which the owner calls last.
@usableFromInline struct SystemMutex {
  @usableFromInline let memory: UnsafeMutableRawPointer

  /// Where the memory behind the mutex begins.
  @usableFromInline static var size: Int {
    (MemoryLayout<pthread_mutex_t>.size + alignment - 1) / alignment * alignment
  }
  /// That of what `malloc` returns.
  @inlinable static var alignment: Int { 16 }

  private var mutex: UnsafeMutablePointer<pthread_mutex_t> { memory.assumingMemoryBound(to: pthread_mutex_t.self) }

  @usableFromInline init(followedBy byteCount: Int) {
    guard let memory = malloc(Self.size + byteCount) else { preconditionFailure("out of memory") }
    self.memory = memory
    memory.bindMemory(to: pthread_mutex_t.self, capacity: 1).initialize(to: pthread_mutex_t())
    pthread_mutex_init(mutex, nil)
  }

  @usableFromInline func destroy() {
    pthread_mutex_destroy(mutex)
    free(memory)
  }

  @usableFromInline func lock() { pthread_mutex_lock(mutex) }
  @usableFromInline func unlock() { pthread_mutex_unlock(mutex) }
}
