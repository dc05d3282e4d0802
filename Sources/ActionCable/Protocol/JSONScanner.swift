/// Reads JSON text (RFC 8259) where it lies: checks it and tells where its parts are.
///
/// Positions count bytes of UTF-8.
enum JSONScanner {
  /// The deepest nesting that is read: more than a person writes, and far less than the stack holds.
  static let maximumDepth = 256

  /// Skips white space (§2).
  static func skipSpace(_ bytes: Span<UInt8>, _ position: inout Int) {
    while position < bytes.count {
      switch bytes[position] {
      case UInt8(ascii: " "), UInt8(ascii: "\t"), UInt8(ascii: "\n"), UInt8(ascii: "\r"): position += 1
      default: return
      }
    }
  }

  /// Checks that nothing but white space is left.
  static func expectEnd(_ bytes: Span<UInt8>, _ position: Int) throws(FrameFault) {
    var end = position
    skipSpace(bytes, &end)
    guard end == bytes.count else { throw .malformed(offset: end) }
  }

  /// Reads an object (§4): `member` gets the place of each key, quotation marks included, and reads past its value.
  static func object(
    _ bytes: Span<UInt8>, _ position: inout Int, depth: Int,
    member: (Range<Int>, inout Int) throws(FrameFault) -> Void
  ) throws(FrameFault) {
    guard depth < maximumDepth else { throw .tooDeep }
    try expect(UInt8(ascii: "{"), bytes, &position)
    skipSpace(bytes, &position)
    if isNext(UInt8(ascii: "}"), bytes, &position) { return }
    repeat {
      skipSpace(bytes, &position)
      let start = position
      try skipString(bytes, &position)
      let key = start..<position
      skipSpace(bytes, &position)
      try expect(UInt8(ascii: ":"), bytes, &position)
      skipSpace(bytes, &position)
      try member(key, &position)
      skipSpace(bytes, &position)
    } while isNext(UInt8(ascii: ","), bytes, &position)
    try expect(UInt8(ascii: "}"), bytes, &position)
  }

  /// Reads an array (§5): `element` reads past each element.
  static func array(
    _ bytes: Span<UInt8>, _ position: inout Int, depth: Int, element: (inout Int) throws(FrameFault) -> Void
  ) throws(FrameFault) {
    guard depth < maximumDepth else { throw .tooDeep }
    try expect(UInt8(ascii: "["), bytes, &position)
    skipSpace(bytes, &position)
    if isNext(UInt8(ascii: "]"), bytes, &position) { return }
    repeat {
      skipSpace(bytes, &position)
      try element(&position)
      skipSpace(bytes, &position)
    } while isNext(UInt8(ascii: ","), bytes, &position)
    try expect(UInt8(ascii: "]"), bytes, &position)
  }

  /// Reads past one value that begins here (§3).
  static func skipValue(_ bytes: Span<UInt8>, _ position: inout Int, depth: Int) throws(FrameFault) {
    guard position < bytes.count else { throw .malformed(offset: position) }
    switch bytes[position] {
    case UInt8(ascii: "{"):
      try object(bytes, &position, depth: depth) { _, position throws(FrameFault) in
        try skipValue(bytes, &position, depth: depth + 1)
      }
    case UInt8(ascii: "["):
      try array(bytes, &position, depth: depth) { position throws(FrameFault) in
        try skipValue(bytes, &position, depth: depth + 1)
      }
    case UInt8(ascii: "\""): try skipString(bytes, &position)
    case UInt8(ascii: "t"): try skipWord("true", bytes, &position)
    case UInt8(ascii: "f"): try skipWord("false", bytes, &position)
    case UInt8(ascii: "n"): try skipWord("null", bytes, &position)
    default: try skipNumber(bytes, &position)
    }
  }

  /// The text at a place, as it is.
  static func text(_ bytes: Span<UInt8>, _ range: Range<Int>) -> String {
    // Safe: the buffer is used inside the call only.
    bytes.extracting(range).withUnsafeBufferPointer { String(decoding: $0, as: UTF8.self) }
  }

  /// The value of a checked string, quotation marks included in the place; half a surrogate pair becomes U+FFFD.
  static func string(_ bytes: Span<UInt8>, _ range: Range<Int>) -> String {
    let inner = range.lowerBound + 1..<range.upperBound - 1
    guard let first = inner.first(where: { bytes[$0] == UInt8(ascii: "\\") }) else { return text(bytes, inner) }
    var result: [UInt8] = []
    result.reserveCapacity(inner.count)
    for position in inner.lowerBound..<first { result.append(bytes[position]) }
    var position = first
    while position < inner.upperBound {
      let byte = bytes[position]
      position += 1
      guard byte == UInt8(ascii: "\\") else {
        result.append(byte)
        continue
      }
      let escaped = bytes[position]
      position += 1
      switch escaped {
      case UInt8(ascii: "b"): result.append(0x08)
      case UInt8(ascii: "f"): result.append(0x0C)
      case UInt8(ascii: "n"): result.append(0x0A)
      case UInt8(ascii: "r"): result.append(0x0D)
      case UInt8(ascii: "t"): result.append(0x09)
      case UInt8(ascii: "u"): result += Array(String(scalar(bytes, &position, inner.upperBound)).utf8)
      default: result.append(escaped)
      }
    }
    return String(decoding: result, as: UTF8.self)
  }

  /// The scalar whose four digits begin here, with the other half of its pair where it has one.
  private static func scalar(_ bytes: Span<UInt8>, _ position: inout Int, _ end: Int) -> Unicode.Scalar {
    let high = unit(bytes, position)
    position += 4
    if let scalar = Unicode.Scalar(high) { return scalar }
    guard high < 0xDC00, position + 6 <= end, bytes[position] == UInt8(ascii: "\\"),
      bytes[position + 1] == UInt8(ascii: "u")
    else { return "\u{FFFD}" }
    let low = unit(bytes, position + 2)
    guard (0xDC00...0xDFFF).contains(low) else { return "\u{FFFD}" }
    position += 6
    return Unicode.Scalar(0x10000 + (high - 0xD800) << 10 + (low - 0xDC00)) ?? "\u{FFFD}"
  }

  private static func unit(_ bytes: Span<UInt8>, _ position: Int) -> UInt32 {
    (0..<4).reduce(0) { $0 << 4 | UInt32(digit(bytes[position + $1]) ?? 0) }
  }

  private static func digit(_ byte: UInt8) -> UInt8? {
    switch byte {
    case UInt8(ascii: "0")...UInt8(ascii: "9"): byte - UInt8(ascii: "0")
    case UInt8(ascii: "a")...UInt8(ascii: "f"): byte - UInt8(ascii: "a") + 10
    case UInt8(ascii: "A")...UInt8(ascii: "F"): byte - UInt8(ascii: "A") + 10
    default: nil
    }
  }

  // MARK: The parts of values

  private static func expect(_ byte: UInt8, _ bytes: Span<UInt8>, _ position: inout Int) throws(FrameFault) {
    guard isNext(byte, bytes, &position) else { throw .malformed(offset: position) }
  }

  /// Reads past the byte where it is the next.
  private static func isNext(_ byte: UInt8, _ bytes: Span<UInt8>, _ position: inout Int) -> Bool {
    guard position < bytes.count, bytes[position] == byte else { return false }
    position += 1
    return true
  }

  private static func skipWord(_ word: StaticString, _ bytes: Span<UInt8>, _ position: inout Int) throws(FrameFault) {
    for index in 0..<word.utf8CodeUnitCount {
      // Safe: the word is ASCII, and the index is inside it.
      try expect(word.utf8Start[index], bytes, &position)
    }
  }

  /// Reads past a string (§7), quotation marks included.
  private static func skipString(_ bytes: Span<UInt8>, _ position: inout Int) throws(FrameFault) {
    try expect(UInt8(ascii: "\""), bytes, &position)
    while position < bytes.count {
      switch bytes[position] {
      case UInt8(ascii: "\""):
        position += 1
        return
      case UInt8(ascii: "\\"):
        position += 1
        try skipEscape(bytes, &position)
      case 0..<0x20: throw .malformed(offset: position)
      default: position += 1
      }
    }
    throw .malformed(offset: position)
  }

  private static func skipEscape(_ bytes: Span<UInt8>, _ position: inout Int) throws(FrameFault) {
    guard position < bytes.count else { throw .malformed(offset: position) }
    switch bytes[position] {
    case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"), UInt8(ascii: "b"), UInt8(ascii: "f"),
      UInt8(ascii: "n"), UInt8(ascii: "r"), UInt8(ascii: "t"):
      position += 1
    case UInt8(ascii: "u"):
      position += 1
      for _ in 0..<4 {
        guard position < bytes.count, digit(bytes[position]) != nil else { throw .malformed(offset: position) }
        position += 1
      }
    default: throw .malformed(offset: position)
    }
  }

  /// Reads past a number (§6).
  private static func skipNumber(_ bytes: Span<UInt8>, _ position: inout Int) throws(FrameFault) {
    _ = isNext(UInt8(ascii: "-"), bytes, &position)
    if !isNext(UInt8(ascii: "0"), bytes, &position) { try skipDigits(bytes, &position) }
    if isNext(UInt8(ascii: "."), bytes, &position) { try skipDigits(bytes, &position) }
    guard isNext(UInt8(ascii: "e"), bytes, &position) || isNext(UInt8(ascii: "E"), bytes, &position) else { return }
    if !isNext(UInt8(ascii: "+"), bytes, &position) { _ = isNext(UInt8(ascii: "-"), bytes, &position) }
    try skipDigits(bytes, &position)
  }

  /// Reads past at least one digit.
  private static func skipDigits(_ bytes: Span<UInt8>, _ position: inout Int) throws(FrameFault) {
    let start = position
    while position < bytes.count, (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(bytes[position]) { position += 1 }
    guard position > start else { throw .malformed(offset: position) }
  }
}
