/// Base64 with padding (RFC 4648 §4), as the opening handshake uses it.
package enum Base64 {
  package static func encode(_ bytes: some Collection<UInt8>) -> String {
    var text: [UInt8] = []
    text.reserveCapacity((bytes.count + 2) / 3 * 4)
    var group: UInt32 = 0
    var held = 0
    for byte in bytes {
      group = group << 8 | UInt32(byte)
      held += 1
      if held == 3 {
        for shift: UInt32 in stride(from: 18, through: 0, by: -6) { text.append(character(group &>> shift & 63)) }
        group = 0
        held = 0
      }
    }
    if held > 0 {
      group <<= held == 1 ? 16 : 8
      for shift in ([18, 12, 6] as [UInt32]).prefix(held + 1) { text.append(character(group >> shift & 63)) }
      text.append(contentsOf: repeatElement(ASCII.equals, count: 3 - held))
    }
    return String(decoding: text, as: UTF8.self)
  }

  private static func character(_ value: UInt32) -> UInt8 {
    let value = UInt8(truncatingIfNeeded: value)
    return switch value {
    case 0..<26: value + 0x41
    case 26..<52: value - 26 + 0x61
    case 52..<62: value - 52 + 0x30
    case 62: 0x2B
    default: 0x2F
    }
  }

  /// The bytes of `text`, or nil where it is not Base64 in its one canonical form: whole groups, padding only at the
  /// end, and no bits set that belong to no byte.
  package static func decode(_ text: some StringProtocol) -> [UInt8]? {
    let characters = Array(text.utf8)
    guard characters.count.isMultiple(of: 4) else { return nil }
    let padding = characters.reversed().prefix { $0 == ASCII.equals }.count
    guard padding <= 2 else { return nil }
    var bytes: [UInt8] = []
    var group: UInt32 = 0
    for (index, character) in characters.dropLast(padding).enumerated() {
      guard let value = value(of: character) else { return nil }
      group = group << 6 | value
      if index % 4 == 3 {
        bytes.append(UInt8(group >> 16 & 255))
        bytes.append(UInt8(group >> 8 & 255))
        bytes.append(UInt8(group & 255))
        group = 0
      }
    }
    switch padding {
    case 1:
      guard group & 3 == 0 else { return nil }
      bytes.append(UInt8(group >> 10 & 255))
      bytes.append(UInt8(group >> 2 & 255))
    case 2:
      guard group & 15 == 0 else { return nil }
      bytes.append(UInt8(group >> 4 & 255))
    default: break
    }
    return bytes
  }

  private static func value(of character: UInt8) -> UInt32? {
    switch character {
    case 0x41...0x5A: UInt32(character) - 0x41
    case 0x61...0x7A: UInt32(character) - 0x61 + 26
    case 0x30...0x39: UInt32(character) - 0x30 + 52
    case 0x2B: 62
    case 0x2F: 63
    default: nil
    }
  }
}
