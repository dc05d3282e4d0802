/// What a frame carries (RFC 6455 §5.2).
///
/// The ten reserved values are a ``ProtocolViolation/reservedOpcode(_:)``.
@usableFromInline package enum Opcode: UInt8, Sendable, Hashable, CaseIterable {
  case continuation = 0x0
  case text = 0x1
  case binary = 0x2
  case close = 0x8
  case ping = 0x9
  case pong = 0xA

  /// Whether this is a control frame: at most 125 bytes, never fragmented (RFC 6455 §5.5).
  @inlinable package var isControl: Bool { rawValue & 0x8 != 0 }
}

extension Opcode: CustomStringConvertible {
  @usableFromInline package var description: String {
    switch self {
    case .continuation: "CONTINUATION"
    case .text: "TEXT"
    case .binary: "BINARY"
    case .close: "CLOSE"
    case .ping: "PING"
    case .pong: "PONG"
    }
  }
}

/// The two kinds of message (RFC 6455 §5.6).
public enum MessageKind: Sendable, Hashable {
  /// UTF-8 text, checked.
  case text
  /// Arbitrary bytes.
  case binary

  /// The opcode of the message's first frame.
  @inlinable package var opcode: Opcode { self == .text ? .text : .binary }
}
