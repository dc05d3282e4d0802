/// A whole frame in memory: a header's facts and an unmasked payload.
///
/// The hot path never builds one; scripts, tests and logs do.
package struct Frame: Sendable, Hashable {
  package var opcode: Opcode
  package var payload: [UInt8]
  package var isFinal: Bool
  package var reservedBits: ReservedBits

  package init(
    _ opcode: Opcode, _ payload: some Sequence<UInt8> = [], isFinal: Bool = true, reservedBits: ReservedBits = []
  ) {
    self.opcode = opcode
    self.payload = Array(payload)
    self.isFinal = isFinal
    self.reservedBits = reservedBits
  }

  /// A text frame.
  package static func text(_ text: String, isFinal: Bool = true) -> Frame {
    Frame(.text, text.utf8, isFinal: isFinal)
  }

  /// A Close frame with a code and a reason, whatever their values.
  package static func close(_ code: UInt16, _ reason: String = "") -> Frame {
    Frame(.close, [UInt8(code >> 8), UInt8(code & 0xFF)] + reason.utf8)
  }

  /// The frame as it goes over the wire, masked where a key is given.
  package func encoded(maskingKey: MaskingKey? = nil) -> [UInt8] {
    let header = FrameHeader(
      opcode: opcode, payloadLength: payload.count, isFinal: isFinal, reservedBits: reservedBits, maskingKey: maskingKey
    )
    var bytes = [UInt8](repeating: 0, count: header.encodedLength) + payload
    // Safe: the array holds exactly the header and the payload behind it.
    bytes.withUnsafeMutableBytes { target in
      guard let base = target.baseAddress else { return }
      let length = header.write(to: base)
      maskingKey?.copy(from: base + length, to: base + length, count: payload.count)
    }
    return bytes
  }
}

extension Frame: CustomStringConvertible {
  /// The opcode, a short view of the payload, and its length: `TEXT "hello" [5 bytes]`.
  ///
  /// Never traps: text that is no UTF-8 is repaired, and long payloads are cut.
  package var description: String {
    var words = ["\(opcode)"]
    if !isFinal { words.append("(not final)") }
    if !reservedBits.isEmpty { words.append("RSV \(reservedBits.rawValue >> 4)") }
    if !payload.isEmpty { words.append(shownPayload) }
    words.append("[\(payload.count) bytes]")
    return words.joined(separator: " ")
  }

  private var shownPayload: String {
    switch opcode {
    case .close where payload.count >= 2:
      let code = UInt16(payload[0]) << 8 | UInt16(payload[1])
      let reason = payload.dropFirst(2)
      return reason.isEmpty ? "\(code)" : "\(code) \(quoted(reason))"
    case .text: return quoted(payload[...])
    case .continuation, .binary, .close, .ping, .pong:
      let shown = payload.prefix(16).map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined(separator: " ")
      return payload.count > 16 ? shown + " ..." : shown
    }
  }

  private func quoted(_ bytes: ArraySlice<UInt8>) -> String {
    let shown = String(decoding: bytes.prefix(64), as: UTF8.self)
    return shown.debugDescription + (bytes.count > 64 ? "..." : "")
  }
}
