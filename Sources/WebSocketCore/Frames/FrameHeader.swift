/// The start of a frame (RFC 6455 §5.2), everything but the payload.
///
///      0                   1                   2                   3
///      0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
///     +-+-+-+-+-------+-+-------------+-------------------------------+
///     |F|R|R|R| opcode|M|   length    |  length, 16 bits where 126,   |
///     |I|S|S|S|  (4)  |A|    (7)      |  64 bits where 127            |
///     |N|V|V|V|       |S|             |                               |
///     | |1|2|3|       |K|             |                               |
///     +-+-+-+-+-------+-+-------------+-------------------------------+
///     |  masking key, 32 bits, where MASK is set    |  payload ...    |
///     +---------------------------------------------+-----------------+
@usableFromInline package struct FrameHeader: Sendable, Hashable {
  /// FIN: this frame is the last of its message.
  @usableFromInline package var isFinal: Bool
  /// RSV1 to RSV3.
  @usableFromInline package var reservedBits: ReservedBits
  @usableFromInline package var opcode: Opcode
  /// The key of a masked frame; nil where MASK is not set.
  @usableFromInline package var maskingKey: MaskingKey?
  /// The payload's length in bytes, below 2^63.
  @usableFromInline package var payloadLength: Int

  @inlinable package init(
    opcode: Opcode, payloadLength: Int, isFinal: Bool = true, reservedBits: ReservedBits = [],
    maskingKey: MaskingKey? = nil
  ) {
    self.isFinal = isFinal
    self.reservedBits = reservedBits
    self.opcode = opcode
    self.maskingKey = maskingKey
    self.payloadLength = payloadLength
  }

  /// The longest header: two octets, a 64-bit length and a key.
  @inlinable package static var maximumLength: Int { 14 }
  /// The longest payload of a control frame (RFC 6455 §5.5).
  package static let maximumControlPayload = 125

  /// The octets that this header takes on the wire.
  package var encodedLength: Int {
    Self.encodedLength(payloadLength: payloadLength, isMasked: maskingKey != nil)
  }

  /// The octets that a header takes for a payload of that length.
  package static func encodedLength(payloadLength: Int, isMasked: Bool) -> Int {
    (payloadLength < 126 ? 2 : payloadLength < 65_536 ? 4 : 10) + (isMasked ? 4 : 0)
  }
}

/// RSV1 to RSV3 of a frame header.
///
/// Without an extension all are zero (RFC 6455 §5.2).
@usableFromInline package struct ReservedBits: OptionSet, Sendable, Hashable {
  @usableFromInline package var rawValue: UInt8
  @inlinable package init(rawValue: UInt8) { self.rawValue = rawValue }

  package static let rsv1 = ReservedBits(rawValue: 0x40)
  package static let rsv2 = ReservedBits(rawValue: 0x20)
  package static let rsv3 = ReservedBits(rawValue: 0x10)
}

// MARK: - Reading

extension FrameHeader {
  /// Reads a header that starts at `offset`, or returns nil where it is not complete.
  ///
  /// Octets are judged in their order on the wire, each as soon as it is there, so that a bad one fails the connection
  /// at once and the verdict does not depend on how the bytes were cut.
  ///
  /// - Parameters:
  ///   - role: this endpoint's; its peer's frames must be masked or not accordingly (RFC 6455 §5.1).
  ///   - allowedReservedBits: the bits that an agreed extension gave a meaning to.
  package static func parse(
    _ bytes: RawSpan, at offset: Int = 0, role: Role, allowedReservedBits: ReservedBits = []
  ) throws(ProtocolViolation) -> (header: FrameHeader, length: Int)? {
    let available = bytes.byteCount - offset
    guard available >= 1 else { return nil }
    let first = bytes.unsafeLoad(fromByteOffset: offset, as: UInt8.self)
    let reserved = ReservedBits(rawValue: first & 0x70)
    guard reserved.isSubset(of: allowedReservedBits) else { throw .reservedBits(reserved.rawValue) }
    guard let opcode = Opcode(rawValue: first & 0x0F) else { throw .reservedOpcode(first & 0x0F) }
    let isFinal = first & 0x80 != 0
    if opcode.isControl {
      guard isFinal else { throw .fragmentedControlFrame }
      guard reserved.isEmpty else { throw .reservedBits(reserved.rawValue) }
    }

    guard available >= 2 else { return nil }
    let second = bytes.unsafeLoad(fromByteOffset: offset + 1, as: UInt8.self)
    let isMasked = second & 0x80 != 0
    guard isMasked == role.peer.masksItsFrames else {
      throw isMasked ? .maskedFrameFromServer : .unmaskedFrameFromClient
    }
    var length = UInt64(second & 0x7F)
    var headerLength = 2
    switch length {
    case 126:
      guard !opcode.isControl else { throw .controlFrameTooLong }
      guard available >= 4 else { return nil }
      length = UInt64(UInt16(bigEndian: bytes.unsafeLoadUnaligned(fromByteOffset: offset + 2, as: UInt16.self)))
      guard length >= 126 else { throw .lengthNotMinimal(length) }
      headerLength = 4
    case 127:
      guard !opcode.isControl else { throw .controlFrameTooLong }
      guard available >= 10 else { return nil }
      length = UInt64(bigEndian: bytes.unsafeLoadUnaligned(fromByteOffset: offset + 2, as: UInt64.self))
      guard length <= UInt64(Int64.max) else { throw .lengthTooLarge(length) }
      guard length >= 65_536 else { throw .lengthNotMinimal(length) }
      headerLength = 10
    default: break
    }

    var key: MaskingKey?
    if isMasked {
      guard available >= headerLength + 4 else { return nil }
      key = MaskingKey(bits: bytes.unsafeLoadUnaligned(fromByteOffset: offset + headerLength, as: UInt32.self))
      headerLength += 4
    }
    let header = FrameHeader(
      opcode: opcode, payloadLength: Int(length), isFinal: isFinal, reservedBits: reserved, maskingKey: key)
    return (header, headerLength)
  }
}

// MARK: - Writing

extension FrameHeader {
  /// Writes the header with the shortest length form and returns the octets used.
  ///
  /// - Parameter target: room for ``encodedLength`` octets; the caller owns it for this call.
  @discardableResult
  @inlinable @inline(__always) package func write(to target: UnsafeMutableRawPointer) -> Int {
    let maskBit: UInt8 = maskingKey == nil ? 0 : 0x80
    target.storeBytes(of: (isFinal ? 0x80 : 0) | reservedBits.rawValue | opcode.rawValue, as: UInt8.self)
    var length = 2
    if payloadLength < 126 {
      target.storeBytes(of: maskBit | UInt8(truncatingIfNeeded: payloadLength), toByteOffset: 1, as: UInt8.self)
    } else if payloadLength < 65_536 {
      target.storeBytes(of: maskBit | 126, toByteOffset: 1, as: UInt8.self)
      target.storeBytes(of: UInt16(truncatingIfNeeded: payloadLength).bigEndian, toByteOffset: 2, as: UInt16.self)
      length = 4
    } else {
      target.storeBytes(of: maskBit | 127, toByteOffset: 1, as: UInt8.self)
      target.storeBytes(of: UInt64(payloadLength).bigEndian, toByteOffset: 2, as: UInt64.self)
      length = 10
    }
    if let maskingKey {
      target.storeBytes(of: maskingKey.bits, toByteOffset: length, as: UInt32.self)
      length += 4
    }
    return length
  }
}

extension FrameHeader: CustomStringConvertible {
  @usableFromInline package var description: String {
    var words = ["\(opcode)"]
    if !isFinal { words.append("(not final)") }
    if reservedBits.contains(.rsv1) { words.append("RSV1") }
    if reservedBits.contains(.rsv2) { words.append("RSV2") }
    if reservedBits.contains(.rsv3) { words.append("RSV3") }
    if let maskingKey { words.append("masked \(maskingKey)") }
    words.append("[\(payloadLength) bytes]")
    return words.joined(separator: " ")
  }
}
