/// What a Close frame carries: nothing, or a code and a reason (RFC 6455 §5.5.1).
package struct ClosePayload: Sendable, Hashable {
  /// The code; nil where the frame was empty.
  package let code: CloseCode?
  package let reason: String

  /// The longest reason: 123 bytes of UTF-8, so that the frame stays within 125.
  package static let maximumReasonBytes = FrameHeader.maximumControlPayload - 2

  /// A payload without code or reason.
  package static let empty = ClosePayload(code: nil, reason: "")

  private init(code: CloseCode?, reason: String) {
    self.code = code
    self.reason = reason
  }

  /// A payload to send; nil where the code may not be sent or the reason is longer than 123 bytes of UTF-8.
  package init?(sending code: CloseCode, reason: String = "") {
    guard code.mayBeSent, reason.utf8.count <= Self.maximumReasonBytes else { return nil }
    self.init(code: code, reason: reason)
  }

  /// Reads the payload of a received Close frame (RFC 6455 §7.1.5 and §7.1.6).
  package init(receiving payload: [UInt8]) throws(ProtocolViolation) {
    guard !payload.isEmpty else {
      self = .empty
      return
    }
    guard payload.count >= 2 else { throw .closePayloadTooShort }
    let code = CloseCode(UInt16(payload[0]) << 8 | UInt16(payload[1]))
    guard code.mayBeSent else { throw .invalidCloseCode(code.rawValue) }
    guard let reason = String(validating: payload.dropFirst(2), as: UTF8.self) else { throw .invalidCloseReason }
    self.init(code: code, reason: reason)
  }

  /// The bytes of the frame's payload.
  package var bytes: [UInt8] {
    guard let code else { return [] }
    return [UInt8(code.rawValue >> 8), UInt8(code.rawValue & 0xFF)] + reason.utf8
  }
}
