import Testing
import WebSocketCore
import WebSocketTesting

@Suite("UTF-8 piece by piece (RFC 3629 §4, RFC 6455 §8.1)")
struct UTF8ValidatorTests {
  static let valid: [[UInt8]] = [
    [], [0x00], [0x7F], Array("hello".utf8), Array("κόσμε".utf8), Array("𝄞 and 👩‍👩‍👧".utf8),
    [0xC2, 0x80], [0xDF, 0xBF], [0xE0, 0xA0, 0x80], [0xED, 0x9F, 0xBF], [0xEE, 0x80, 0x80], [0xEF, 0xBF, 0xBF],
    [0xF0, 0x90, 0x80, 0x80], [0xF4, 0x8F, 0xBF, 0xBF],
    Array(String(repeating: "a", count: 45).utf8) + [0xC3, 0xA9] + Array(String(repeating: "b", count: 45).utf8),
  ]

  /// Bytes of which the last is the first that cannot stand there.
  static let impossible: [[UInt8]] = [
    [0x80], [0xBF], [0xC0], [0xC1], [0xF5], [0xFE], [0xFF], [0x41, 0x80],
    [0xC2, 0x7F], [0xC2, 0xC0], [0xC2, 0x41], [0xE0, 0x9F], [0xE0, 0x80], [0xE1, 0x80, 0xC0], [0xED, 0xA0],
    [0xED, 0xBF], [0xEF, 0xBF, 0x41], [0xF0, 0x8F], [0xF0, 0x80], [0xF0, 0x90, 0x80, 0x41], [0xF4, 0x90], [0xF4, 0xBF],
    [0xF1, 0x80, 0x80, 0xC0], [0xF0, 0x9F, 0x41],
    [UInt8](repeating: 0x61, count: 31) + [0xFF], [UInt8](repeating: 0x61, count: 39) + [0xFF],
    [UInt8](repeating: 0x61, count: 71) + [0x80],
  ]

  /// How many of the bytes are accepted when they come in those pieces, and whether they end between scalars.
  private func outcome(_ pieces: [[UInt8]]) -> (accepted: Bool, atBoundary: Bool) {
    var validator = UTF8Validator()
    for piece in pieces where !validator.accepts(piece.span.bytes) { return (false, false) }
    return (true, validator.isAtScalarBoundary)
  }

  @Test(arguments: valid)
  func `valid text is accepted at every cut`(bytes: [UInt8]) {
    for cut in 0...bytes.count { #expect(outcome(bytes.pieces(cutAt: [cut])) == (true, true)) }
    #expect(outcome(bytes.singleBytes) == (true, true))
  }

  @Test(arguments: valid)
  func `only a cut between scalars is a boundary`(bytes: [UInt8]) {
    for cut in 0...bytes.count {
      let isBoundary = cut == bytes.count || bytes[cut] & 0xC0 != 0x80
      #expect(outcome([Array(bytes[..<cut])]) == (true, isBoundary))
    }
  }

  // R37
  @Test(arguments: impossible)
  func `the first impossible byte is refused, and not the byte before it`(bytes: [UInt8]) {
    #expect(outcome([Array(bytes.dropLast())]).accepted)
    for cut in 0...bytes.count { #expect(!outcome(bytes.pieces(cutAt: [cut])).accepted) }
    #expect(!outcome(bytes.singleBytes).accepted)
  }

  @Test(arguments: impossible)
  func `the valid start of a piece is counted`(bytes: [UInt8]) {
    var validator = UTF8Validator()
    #expect(validator.validPrefix(of: (bytes + [0x41, 0x42]).span.bytes) == bytes.count - 1)
  }

  @Test func `every pair of bytes is judged as the standard library judges it`() {
    for first in UInt8.min...UInt8.max {
      for second in UInt8.min...UInt8.max {
        let bytes = [first, second]
        let isValid = String(validating: bytes, as: UTF8.self) != nil
        if outcome([bytes]) != (isValid, isValid) {
          // A pair may also be the start of a longer scalar; then it is accepted but ends inside it.
          let (accepted, atBoundary) = outcome([bytes])
          #expect(!isValid && accepted && !atBoundary, "\(bytes.hexadecimal)")
        }
      }
    }
  }

  @Test func `an impossible byte is found wherever it stands among ASCII`() {
    for count in 1...100 {
      for place in 0..<count {
        var bytes = [UInt8](repeating: 0x61, count: count)
        bytes[place] = 0xFF
        var validator = UTF8Validator()
        let valid = validator.validPrefix(of: bytes.span.bytes)
        if valid != place { Issue.record("\(valid) of \(count) bytes, the byte at \(place) is impossible") }
      }
    }
  }

  @Test func `a cut scalar is found wherever it stands among ASCII`() {
    for count in 2...100 {
      for place in 0..<count - 1 {
        var bytes = [UInt8](repeating: 0x61, count: count)
        bytes[place] = 0xE2
        var validator = UTF8Validator()
        let valid = validator.validPrefix(of: bytes.span.bytes)
        if valid != place + 1 { Issue.record("\(valid) of \(count) bytes, the scalar at \(place) is cut") }
      }
    }
  }
}
