/// The octets that HTTP and WebSocket heads are made of, and the tests that RFC 7230 defines on them.
package enum ASCII {
  package static let nul: UInt8 = 0x00
  package static let tab: UInt8 = 0x09
  package static let lineFeed: UInt8 = 0x0A
  package static let carriageReturn: UInt8 = 0x0D
  package static let space: UInt8 = 0x20
  package static let quote: UInt8 = 0x22
  package static let comma: UInt8 = 0x2C
  package static let colon: UInt8 = 0x3A
  package static let semicolon: UInt8 = 0x3B
  package static let equals: UInt8 = 0x3D
  package static let questionMark: UInt8 = 0x3F
  package static let backslash: UInt8 = 0x5C

  /// Whether `byte` may stand in a token (RFC 7230 §3.2.6, `tchar`).
  package static func isTokenCharacter(_ byte: UInt8) -> Bool {
    switch byte {
    case 0x30...0x39, 0x41...0x5A, 0x61...0x7A: true  // digits and letters
    case 0x21, 0x23...0x27, 0x2A, 0x2B, 0x2D, 0x2E, 0x5E, 0x5F, 0x60, 0x7C, 0x7E: true  // ! # $ % & ' * + - . ^ _ ` | ~
    default: false
    }
  }

  /// Whether `byte` may stand in a field value: visible, space, tab, or above ASCII (RFC 7230 §3.2, `obs-text`).
  package static func isFieldValueCharacter(_ byte: UInt8) -> Bool {
    byte == tab || (byte >= space && byte != 0x7F)
  }

  /// Whether `byte` is optional whitespace (RFC 7230 §3.2.3).
  package static func isOptionalWhitespace(_ byte: UInt8) -> Bool { byte == space || byte == tab }

  /// `byte` with an upper-case letter made lower-case.
  package static func lowercased(_ byte: UInt8) -> UInt8 {
    (0x41...0x5A).contains(byte) ? byte | 0x20 : byte
  }

  /// The value of a hexadecimal digit, or nil.
  package static func hexadecimalValue(_ byte: UInt8) -> Int? {
    switch byte {
    case 0x30...0x39: Int(byte) - 0x30
    case 0x41...0x46: Int(byte) - 0x41 + 10
    case 0x61...0x66: Int(byte) - 0x61 + 10
    default: nil
    }
  }
}

extension StringProtocol {
  /// Whether the two are equal but for the case of ASCII letters.
  package func equalsIgnoringCase(_ other: some StringProtocol) -> Bool {
    // Lengths first: most names differ in theirs.
    guard utf8.count == other.utf8.count else { return false }
    let areEqual = utf8.withContiguousStorageIfAvailable { left in
      other.utf8.withContiguousStorageIfAvailable { right in
        left.indices.allSatisfy { ASCII.lowercased(left[$0]) == ASCII.lowercased(right[$0]) }
      }
    }
    return areEqual.flatMap(\.self) ?? utf8.elementsEqual(other.utf8) { ASCII.lowercased($0) == ASCII.lowercased($1) }
  }

  /// Whether this is a token (RFC 7230 §3.2.6): one or more `tchar`.
  package var isToken: Bool {
    !isEmpty && utf8.allSatisfy(ASCII.isTokenCharacter)
  }

}

extension Substring {
  /// The value without the spaces and tabs at both ends (RFC 7230 §3.2.3).
  package var trimmingOptionalWhitespace: Substring {
    let octets = utf8
    guard let first = octets.firstIndex(where: { !ASCII.isOptionalWhitespace($0) }),
      let last = octets.lastIndex(where: { !ASCII.isOptionalWhitespace($0) })
    else { return "" }
    return self[first...last]
  }
}
