import Testing
import WebSocketCore

@Suite("Frame headers (RFC 6455 §5.2)")
struct FrameHeaderTests {
  /// What reading a header came to.
  enum Outcome: Equatable {
    case incomplete
    case header(FrameHeader, length: Int)
    case violation(ProtocolViolation)
  }

  static let roles: [Role] = [.client, .server]
  private static let key = MaskingKey(1, 2, 3, 4)

  private func parse(_ bytes: [UInt8], role: Role, allowing bits: ReservedBits = []) -> Outcome {
    do throws(ProtocolViolation) {
      let parsed = try FrameHeader.parse(bytes.span.bytes, role: role, allowedReservedBits: bits)
      return parsed.map { .header($0.header, length: $0.length) } ?? .incomplete
    } catch {
      return .violation(error)
    }
  }

  /// The header that a peer of `role` would send.
  private func header(
    _ opcode: Opcode, _ length: Int, to role: Role, isFinal: Bool = true, reservedBits: ReservedBits = []
  ) -> FrameHeader {
    FrameHeader(
      opcode: opcode, payloadLength: length, isFinal: isFinal, reservedBits: reservedBits,
      maskingKey: role == .server ? Self.key : nil)
  }

  private func encode(_ header: FrameHeader) -> [UInt8] {
    var bytes = [UInt8](repeating: 0, count: FrameHeader.maximumLength)
    let length = bytes.withUnsafeMutableBytes { $0.baseAddress.map { header.write(to: $0) } ?? 0 }
    return Array(bytes.prefix(length))
  }

  /// A second octet with or without MASK, as a peer of `role` would send it.
  private func lengthOctet(_ value: UInt8, to role: Role) -> UInt8 { role == .server ? value | 0x80 : value }

  private func wideLength(_ length: UInt64) -> [UInt8] {
    (0..<8).map { UInt8(truncatingIfNeeded: length >> (56 - 8 * UInt64($0))) }
  }

  // R49
  @Test(
    arguments: roles,
    [
      (0, "00"), (1, "01"), (124, "7c"), (125, "7d"), (126, "7e007e"), (127, "7e007f"), (65535, "7effff"),
      (65536, "7f0000000000010000"), (65537, "7f0000000000010001"), (Int.max, "7f7fffffffffffffff"),
    ] as [(Int, String)])
  func `a length is written in its shortest form and read back`(role: Role, row: (length: Int, wire: String)) {
    let header = header(.binary, row.length, to: role)
    let bytes = encode(header)
    var plain = bytes
    if role == .server {
      plain[1] &= 0x7F
      #expect(Array(plain.suffix(4)) == [1, 2, 3, 4])
      plain.removeLast(4)
    }
    #expect(plain.hexadecimal == "82" + row.wire)
    #expect(bytes.count == header.encodedLength)
    #expect(parse(bytes + [0xAA], role: role) == .header(header, length: bytes.count))
    for cut in 0..<bytes.count { #expect(parse(Array(bytes[..<cut]), role: role) == .incomplete) }
  }

  // R41
  @Test(arguments: roles, [1 << 63, UInt64.max, 1 << 63 | 5] as [UInt64])
  func `a 64-bit length with its highest bit set is refused`(role: Role, length: UInt64) {
    let bytes = [0x82, lengthOctet(127, to: role)] + wideLength(length)
    #expect(parse(bytes, role: role) == .violation(.lengthTooLarge(length)))
  }

  // R48
  @Test(arguments: roles, [0, 5, 125] as [UInt16])
  func `a 16-bit length that fits in 7 bits is refused`(role: Role, length: UInt16) {
    let bytes = [0x82, lengthOctet(126, to: role), UInt8(length >> 8), UInt8(length & 255)]
    #expect(parse(bytes, role: role) == .violation(.lengthNotMinimal(UInt64(length))))
  }

  // R48
  @Test(arguments: roles, [0, 125, 126, 255, 65535] as [UInt64])
  func `a 64-bit length that fits in 16 bits is refused`(role: Role, length: UInt64) {
    let bytes = [0x82, lengthOctet(127, to: role)] + wideLength(length)
    #expect(parse(bytes, role: role) == .violation(.lengthNotMinimal(length)))
  }

  // R40
  @Test(arguments: roles, 1...7)
  func `reserved bits are refused at the first octet unless an extension allows them`(role: Role, bits: Int) {
    let reserved = ReservedBits(rawValue: UInt8(bits) << 4)
    #expect(parse([0x82 | reserved.rawValue], role: role) == .violation(.reservedBits(reserved.rawValue)))
    let header = header(.binary, 3, to: role, reservedBits: reserved)
    let bytes = encode(header)
    #expect(parse(bytes, role: role, allowing: reserved) == .header(header, length: bytes.count))
  }

  // R40
  @Test(arguments: roles, [Opcode.close, .ping, .pong])
  func `RSV1 on a control frame is refused even where an extension uses it`(role: Role, opcode: Opcode) {
    let first = 0x80 | 0x40 | opcode.rawValue
    #expect(parse([first], role: role, allowing: .rsv1) == .violation(.reservedBits(0x40)))
  }

  // R47
  @Test(arguments: roles, [3, 4, 5, 6, 7, 11, 12, 13, 14, 15] as [UInt8])
  func `a reserved opcode is refused at the first octet`(role: Role, opcode: UInt8) {
    #expect(parse([0x80 | opcode], role: role) == .violation(.reservedOpcode(opcode)))
    #expect(parse([opcode], role: role) == .violation(.reservedOpcode(opcode)))
  }

  // R47
  @Test(arguments: roles, [Opcode.close, .ping, .pong])
  func `a control frame is neither fragmented nor longer than 125 bytes`(role: Role, opcode: Opcode) {
    #expect(parse([opcode.rawValue], role: role) == .violation(.fragmentedControlFrame))
    for form in [126, 127] as [UInt8] {
      let bytes = [0x80 | opcode.rawValue, lengthOctet(form, to: role)]
      #expect(parse(bytes, role: role) == .violation(.controlFrameTooLong))
    }
    let longest = header(opcode, 125, to: role)
    #expect(parse(encode(longest), role: role) == .header(longest, length: longest.encodedLength))
  }

  // R39
  @Test func `a server's frame is not masked and a client's is`() {
    #expect(parse([0x81, 0x82], role: .client) == .violation(.maskedFrameFromServer))
    #expect(parse([0x81, 0x80], role: .client) == .violation(.maskedFrameFromServer))
    #expect(parse([0x81, 0x02], role: .server) == .violation(.unmaskedFrameFromClient))
    #expect(parse([0x81, 0x00], role: .server) == .violation(.unmaskedFrameFromClient))
  }

  @Test(arguments: roles, [Opcode.continuation, .text, .binary])
  func `FIN and the opcode are read as written`(role: Role, opcode: Opcode) {
    for isFinal in [true, false] {
      let header = header(opcode, 300, to: role, isFinal: isFinal)
      let bytes = encode(header)
      #expect(bytes[0] == (isFinal ? 0x80 : 0) | opcode.rawValue)
      #expect(parse(bytes, role: role) == .header(header, length: bytes.count))
    }
  }
}
