import CSystem
import Glibc

/// A value behind a mutex of the system's.
///
/// Why not `Synchronization.Mutex`: the thread sanitizer on Linux does not see it and reports races that are none.
///
/// Safety: mutex and value live at one stable heap address from `init` to `deinit`, and the value is reached only
/// between lock and unlock. That is why the type may be shared between threads (`@unchecked Sendable`).
@usableFromInline package struct Lock<State: ~Copyable & Sendable>: ~Copyable, @unchecked Sendable {
  private let mutex: UnsafeMutablePointer<pthread_mutex_t>
  @usableFromInline let state: UnsafeMutablePointer<State>

  package init(_ initial: consuming State) {
    mutex = .allocate(capacity: 1)
    mutex.initialize(to: pthread_mutex_t())
    pthread_mutex_init(mutex, nil)
    state = .allocate(capacity: 1)
    state.initialize(to: initial)
  }

  deinit {
    pthread_mutex_destroy(mutex)
    mutex.deallocate()
    state.deinitialize(count: 1)
    state.deallocate()
  }

  /// Runs `body` with the value, alone.
  ///
  /// Never calls the user's code inside; not recursive.
  @inlinable @inline(__always)
  package func withLock<Result: ~Copyable, Failure: Error>(
    _ body: (inout State) throws(Failure) -> Result
  ) throws(Failure) -> Result {
    acquire()
    defer { release() }
    return try body(&state.pointee)
  }

  @usableFromInline func acquire() { pthread_mutex_lock(mutex) }
  @usableFromInline func release() { pthread_mutex_unlock(mutex) }
}
