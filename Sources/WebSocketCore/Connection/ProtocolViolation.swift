/// A way in which the peer broke the protocol or one of this endpoint's limits.
///
/// Each fails the connection (RFC 6455 §7.1.7) with its ``closeCode``.
public enum ProtocolViolation: Error, Sendable, Hashable {
  /// RSV1 to RSV3 set without an extension that gives them a meaning (§5.2). The bits as they stand in the octet.
  case reservedBits(UInt8)
  /// Opcode 3 to 7 or 11 to 15 (§5.2).
  case reservedOpcode(UInt8)
  /// A server's frame with a masking key (§5.1).
  case maskedFrameFromServer
  /// A client's frame without a masking key (§5.1).
  case unmaskedFrameFromClient
  /// A length in a longer form than it needs (§5.2).
  case lengthNotMinimal(UInt64)
  /// A 64-bit length with its highest bit set (§5.2).
  case lengthTooLarge(UInt64)
  /// A control frame of more than 125 bytes (§5.5).
  case controlFrameTooLong
  /// A control frame without FIN (§5.5).
  case fragmentedControlFrame
  /// A continuation frame where no message was begun (§5.4).
  case unexpectedContinuation
  /// A new message inside an unfinished one (§5.4).
  case unfinishedMessage
  /// Text that is not UTF-8 (§8.1).
  case invalidUTF8
  /// A Close frame with a payload of one byte (§5.5.1).
  case closePayloadTooShort
  /// A close code that no frame may carry (§7.4).
  case invalidCloseCode(UInt16)
  /// A close reason that is not UTF-8 (§5.5.1).
  case invalidCloseReason
  /// A frame longer than ``ConnectionLimits/maximumFrameBytes``.
  case frameTooBig(bytes: Int, limit: Int)
  /// A message longer than ``ConnectionLimits/maximumMessageBytes``; `bytes` is what was announced so far.
  case messageTooBig(bytes: Int, limit: Int)
  /// More frames in one message than ``ConnectionLimits/maximumFragments``.
  case tooManyFragments(limit: Int)

  /// The code of the Close frame that this violation earns (RFC 6455 §7.4.1).
  public var closeCode: CloseCode {
    switch self {
    case .invalidUTF8, .invalidCloseReason: .invalidPayload
    case .frameTooBig, .messageTooBig, .tooManyFragments: .messageTooBig
    case .reservedBits, .reservedOpcode, .maskedFrameFromServer, .unmaskedFrameFromClient, .lengthNotMinimal,
      .lengthTooLarge, .controlFrameTooLong, .fragmentedControlFrame, .unexpectedContinuation, .unfinishedMessage,
      .closePayloadTooShort, .invalidCloseCode:
      .protocolError
    }
  }
}

extension ProtocolViolation: CustomStringConvertible {
  /// A short sentence, also the reason of the Close frame (at most 123 bytes).
  public var description: String {
    switch self {
    case .reservedBits: "reserved bits are set"
    case .reservedOpcode(let opcode): "opcode \(opcode) is reserved"
    case .maskedFrameFromServer: "a server must not mask its frames"
    case .unmaskedFrameFromClient: "a client must mask its frames"
    case .lengthNotMinimal(let length): "length \(length) is not in its shortest form"
    case .lengthTooLarge(let length): "length \(length) is above 2^63 - 1"
    case .controlFrameTooLong: "a control frame is longer than 125 bytes"
    case .fragmentedControlFrame: "a control frame is fragmented"
    case .unexpectedContinuation: "a continuation without a message"
    case .unfinishedMessage: "a new message inside an unfinished one"
    case .invalidUTF8: "text is not UTF-8"
    case .closePayloadTooShort: "a close payload of one byte"
    case .invalidCloseCode(let code): "close code \(code) must not be sent"
    case .invalidCloseReason: "the close reason is not UTF-8"
    case .frameTooBig(let bytes, let limit): "a frame of \(bytes) bytes, the limit is \(limit)"
    case .messageTooBig(let bytes, let limit): "a message of \(bytes) bytes or more, the limit is \(limit)"
    case .tooManyFragments(let limit): "a message of more than \(limit) frames"
    }
  }
}
