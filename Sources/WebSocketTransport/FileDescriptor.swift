import Glibc

/// An open descriptor and its only owner: closed once, when the value goes.
package struct FileDescriptor: ~Copyable, Sendable {
  package let rawValue: Int32

  /// Takes over a descriptor that nobody else closes.
  package init(owning rawValue: Int32) { self.rawValue = rawValue }

  /// Gives the descriptor to the caller, who closes it from now on.
  package consuming func release() -> Int32 {
    let descriptor = rawValue
    discard self
    return descriptor
  }

  // After EINTR the descriptor is gone on Linux; closing again could close another's.
  deinit { _ = Glibc.close(rawValue) }
}
