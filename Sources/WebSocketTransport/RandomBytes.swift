import CSystem
import Glibc

/// Where masking keys, handshake keys and jitter come from.
package protocol RandomSource: Sendable {
  /// Fills the buffer with random bytes.
  func fill(_ buffer: UnsafeMutableRawBufferPointer)
}

extension RandomSource {
  /// `count` random bytes.
  package func bytes(_ count: Int) -> [UInt8] {
    var bytes = [UInt8](repeating: 0, count: count)
    bytes.withUnsafeMutableBytes { fill($0) }
    return bytes
  }
}

/// The kernel's random source (`getrandom`), which RFC 6455 §10.3 asks for: unpredictable and never exhausted.
package struct SystemRandomSource: RandomSource {
  package init() {}

  package func fill(_ buffer: UnsafeMutableRawBufferPointer) {
    var filled = 0
    while filled < buffer.count, let base = buffer.baseAddress {
      let count = getrandom(base + filled, buffer.count - filled, 0)
      if count > 0 {
        filled += count
      } else {
        precondition(count < 0 && errno == EINTR, "getrandom fails only when interrupted")
      }
    }
  }
}
