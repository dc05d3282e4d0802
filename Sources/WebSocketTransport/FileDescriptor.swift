import Glibc

/// An open descriptor and its only owner: closed once, when the value goes.
package struct FileDescriptor: ~Copyable, Sendable {
  package let rawValue: Int32

  /// Takes over a descriptor that nobody else closes.
  package init(owning rawValue: Int32) { self.rawValue = rawValue }

  // After EINTR the descriptor is gone on Linux; closing again could close another's.
  deinit { _ = Glibc.close(rawValue) }
}
