import Testing
import WebSocketCore

@Suite("Close payloads (RFC 6455 §5.5.1, §7.4)")
struct ClosePayloadTests {
  static let allowed: [UInt16] = [
    1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014, 3000, 3999, 4000, 4999,
  ]
  static let forbidden: [UInt16] = [
    0, 1, 999, 1004, 1005, 1006, 1015, 1016, 1100, 1999, 2000, 2999, 5000, 5001, 65535,
  ]

  private func reading(_ bytes: [UInt8]) -> Result<ClosePayload, ProtocolViolation> {
    Result { () throws(ProtocolViolation) in try ClosePayload(receiving: bytes) }
  }

  // R63
  @Test(arguments: allowed)
  func `a code that may travel is read and written with its number`(number: UInt16) throws {
    let bytes = [UInt8(number >> 8), UInt8(number & 255)] + Array("bye é".utf8)
    let payload = try #require(ClosePayload(sending: CloseCode(number), reason: "bye é"))
    #expect(payload.bytes == bytes)
    #expect(reading(bytes) == .success(payload))
  }

  // R63
  @Test(arguments: forbidden)
  func `a code that may not travel is neither sent nor accepted`(number: UInt16) {
    #expect(ClosePayload(sending: CloseCode(number)) == nil)
    #expect(reading([UInt8(number >> 8), UInt8(number & 255)]) == .failure(.invalidCloseCode(number)))
  }

  @Test func `exactly 2012 numbers may travel`() {
    // 4 from 1000, 8 from 1007, 2000 from 3000, and no other.
    #expect((UInt16.min...UInt16.max).count { CloseCode($0).mayBeSent } == 4 + 8 + 2000)
  }

  // R61
  @Test func `an empty payload has no code`() {
    #expect(reading([]) == .success(.empty))
    #expect(ClosePayload.empty.bytes == [])
  }

  // R76
  @Test(
    arguments: [
      ([0x03], .closePayloadTooShort),
      ([0x03, 0xE8, 0xFF], .invalidCloseReason),
      ([0x03, 0xE8, 0xF0, 0x9F], .invalidCloseReason),
      ([0x00, 0x00], .invalidCloseCode(0)),
    ] as [([UInt8], ProtocolViolation)])
  func `a broken payload is refused with its cause`(bytes: [UInt8], violation: ProtocolViolation) {
    #expect(reading(bytes) == .failure(violation))
  }

  @Test func `a reason of 123 bytes may be sent and one of 124 not`() {
    #expect(ClosePayload(sending: .normalClosure, reason: String(repeating: "x", count: 123))?.bytes.count == 125)
    #expect(ClosePayload(sending: .normalClosure, reason: String(repeating: "x", count: 124)) == nil)
    #expect(ClosePayload(sending: .normalClosure, reason: String(repeating: "é", count: 62)) == nil)
  }
}
