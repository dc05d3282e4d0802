/// The 32-bit key that a client's frame is masked with (RFC 6455 §5.3).
@usableFromInline package struct MaskingKey: Sendable, Hashable {
  /// The four octets of the key in the order of the wire, kept as they lie in memory.
  @usableFromInline var raw: UInt32

  /// A key from its four octets in the order of the wire.
  package init(_ first: UInt8, _ second: UInt8, _ third: UInt8, _ fourth: UInt8) {
    raw = UInt32(littleEndian: UInt32(first) | UInt32(second) << 8 | UInt32(third) << 16 | UInt32(fourth) << 24)
  }

  /// A key from 32 random bits.
  @inlinable package init(bits: UInt32) { raw = bits }

  /// The four octets in the order of the wire.
  package var octets: (UInt8, UInt8, UInt8, UInt8) {
    let value = raw.littleEndian
    return (
      UInt8(truncatingIfNeeded: value), UInt8(truncatingIfNeeded: value >> 8), UInt8(truncatingIfNeeded: value >> 16),
      UInt8(truncatingIfNeeded: value >> 24)
    )
  }

  /// The 32 bits as they are stored into a frame header.
  @inlinable package var bits: UInt32 { raw }

  /// The key that applies `offset` octets into the payload.
  @inlinable package func advanced(by offset: Int) -> MaskingKey {
    let shift = UInt32(truncatingIfNeeded: offset & 3) * 8
    let value = raw.littleEndian
    return MaskingKey(bits: UInt32(littleEndian: shift == 0 ? value : value >> shift | value << (32 - shift)))
  }

  /// Masks or unmasks a range of `bytes` in place; the same operation does both.
  ///
  /// - Parameter offset: how many octets of the frame's payload came before the range.
  package func apply(to bytes: inout MutableRawSpan, in range: Range<Int>, offset: Int = 0) {
    precondition(range.lowerBound >= 0 && range.upperBound <= bytes.byteCount, "the range lies within the bytes")
    // Safe: the range was checked against the span, which is held for this call; the copy is onto itself.
    bytes.withUnsafeMutableBytes { buffer in
      guard let base = buffer.baseAddress else { return }
      copy(from: base + range.lowerBound, to: base + range.lowerBound, count: range.count, offset: offset)
    }
  }

  /// Copies `count` octets from `source` to `target`, masking or unmasking them on the way, so that the bytes are
  /// touched once.
  ///
  /// `source` and `target` are equal or do not overlap; both hold at least `count` octets.
  ///
  /// Eight octets at a time with unaligned loads and stores, which the compiler turns into vector instructions; the
  /// tail goes by 8, 4 and 1, never octet by octet over a whole vector.
  @inlinable package func copy(
    from source: UnsafeRawPointer, to target: UnsafeMutableRawPointer, count: Int, offset: Int = 0
  ) {
    let key = offset & 3 == 0 ? raw : advanced(by: offset).raw
    let wide = UInt64(key) | UInt64(key) << 32
    var index = 0
    let vectorEnd = count & ~31
    while index < vectorEnd {
      let first = source.loadUnaligned(fromByteOffset: index, as: UInt64.self) ^ wide
      let second = source.loadUnaligned(fromByteOffset: index &+ 8, as: UInt64.self) ^ wide
      let third = source.loadUnaligned(fromByteOffset: index &+ 16, as: UInt64.self) ^ wide
      let fourth = source.loadUnaligned(fromByteOffset: index &+ 24, as: UInt64.self) ^ wide
      target.storeBytes(of: first, toByteOffset: index, as: UInt64.self)
      target.storeBytes(of: second, toByteOffset: index &+ 8, as: UInt64.self)
      target.storeBytes(of: third, toByteOffset: index &+ 16, as: UInt64.self)
      target.storeBytes(of: fourth, toByteOffset: index &+ 24, as: UInt64.self)
      index &+= 32
    }
    while index &+ 8 <= count {
      let word = source.loadUnaligned(fromByteOffset: index, as: UInt64.self) ^ wide
      target.storeBytes(of: word, toByteOffset: index, as: UInt64.self)
      index &+= 8
    }
    if index &+ 4 <= count {
      let word = source.loadUnaligned(fromByteOffset: index, as: UInt32.self) ^ key
      target.storeBytes(of: word, toByteOffset: index, as: UInt32.self)
      index &+= 4
    }
    var rest = key.littleEndian
    while index < count {
      let byte = source.load(fromByteOffset: index, as: UInt8.self) ^ UInt8(truncatingIfNeeded: rest)
      target.storeBytes(of: byte, toByteOffset: index, as: UInt8.self)
      rest >>= 8
      index &+= 1
    }
  }
}

extension MaskingKey: CustomStringConvertible {
  @usableFromInline package var description: String {
    let (a, b, c, d) = octets
    return [a, b, c, d].map { byte in
      let digits = String(byte, radix: 16)
      return digits.count == 1 ? "0" + digits : digits
    }.joined()
  }
}
