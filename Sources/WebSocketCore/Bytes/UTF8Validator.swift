/// Checks UTF-8 piece by piece and fails at the first byte that cannot stand there (RFC 3629 §4, RFC 6455 §8.1).
///
/// A piece may end inside a scalar; the next piece goes on with it. ``isAtScalarBoundary`` says whether a message may
/// end here.
package struct UTF8Validator: Sendable, Equatable {
  /// Continuation bytes that the current scalar still needs.
  private var missing: UInt8 = 0
  /// The range of the next continuation byte; narrower than 80...BF after E0, ED, F0 and F4.
  private var lower: UInt8 = 0x80
  private var upper: UInt8 = 0xBF

  package init() {}

  /// Whether no scalar is half read.
  package var isAtScalarBoundary: Bool { missing == 0 }

  /// Takes the next piece; false at the first impossible byte.
  ///
  /// Afterwards the validator is of no more use.
  package mutating func accepts(_ piece: RawSpan) -> Bool {
    validPrefix(of: piece) == piece.byteCount
  }

  /// Takes the next piece and returns how many of its bytes come before the first impossible one, or all of them.
  package mutating func validPrefix(of piece: RawSpan) -> Int {
    let count = piece.byteCount
    var index = 0
    while index < count {
      if missing == 0 {
        index = endOfASCII(in: piece, from: index)
        if index == count { return count }
      }
      guard accepts(piece.unsafeLoad(fromByteOffset: index, as: UInt8.self)) else { return index }
      index += 1
    }
    return count
  }

  /// The index of the first byte at or after `start` that is not ASCII, or the end.
  private func endOfASCII(in piece: RawSpan, from start: Int) -> Int {
    // Safe: every load lies between `start` and the span's end, and the span is held for this call.
    piece.withUnsafeBytes { bytes in
      guard let base = bytes.baseAddress else { return start }
      let count = bytes.count
      var index = start
      while index &+ 32 <= count {
        guard Self.areASCII(base + index) else { break }
        index &+= 32
      }
      // Fewer than 32 are left: the last 32 at once, also those that were looked at already.
      if index < count, count &- start >= 32, count &- index < 32, Self.areASCII(base + (count &- 32)) {
        return count
      }
      while index &+ 8 <= count {
        if base.loadUnaligned(fromByteOffset: index, as: UInt64.self) & 0x8080_8080_8080_8080 != 0 { break }
        index &+= 8
      }
      while index < count, base.load(fromByteOffset: index, as: UInt8.self) < 0x80 { index &+= 1 }
      return index
    }
  }

  /// Whether 32 bytes are ASCII.
  @inline(__always)
  private static func areASCII(_ bytes: UnsafeRawPointer) -> Bool {
    let first = bytes.loadUnaligned(as: UInt64.self)
    let second = bytes.loadUnaligned(fromByteOffset: 8, as: UInt64.self)
    let third = bytes.loadUnaligned(fromByteOffset: 16, as: UInt64.self)
    let fourth = bytes.loadUnaligned(fromByteOffset: 24, as: UInt64.self)
    return (first | second | third | fourth) & 0x8080_8080_8080_8080 == 0
  }

  /// The table of RFC 3629 §4, one byte at a time.
  private mutating func accepts(_ byte: UInt8) -> Bool {
    if missing > 0 {
      guard byte >= lower, byte <= upper else { return false }
      missing -= 1
      (lower, upper) = (0x80, 0xBF)
      return true
    }
    switch byte {
    case 0x00...0x7F: return true
    case 0xC2...0xDF: missing = 1
    case 0xE0: (missing, lower) = (2, 0xA0)
    case 0xE1...0xEC, 0xEE, 0xEF: missing = 2
    case 0xED: (missing, upper) = (2, 0x9F)  // no surrogates
    case 0xF0: (missing, lower) = (3, 0x90)
    case 0xF1...0xF3: missing = 3
    case 0xF4: (missing, upper) = (3, 0x8F)  // nothing above U+10FFFF
    default: return false
    }
    return true
  }
}
