/// What a server says in one text frame of `actioncable-v1-json`.
///
/// Keys may come in any order, unknown ones are ignored, and of a key that comes twice the last counts. AnyCable's
/// extended protocol (`sid`, `stream_id`, `epoch`, `offset`; `pong`, `confirm_history` and others) has its place here.
package enum ServerMessage: Sendable, Hashable {
  case welcome
  case ping
  case confirmSubscription(identifier: String)
  case rejectSubscription(identifier: String)
  /// `reconnect` is nil where the frame does not say.
  case disconnect(DisconnectReason?, reconnect: Bool?)
  /// Data of a channel: where the value of `message` lies in the frame's UTF-8, and the frame's type, which data
  /// frames of Rails do not have.
  case message(identifier: String, type: String?, body: Range<Int>)
  /// An object that is none of these.
  case unknown(type: String?)

  /// Reads a frame's text.
  package init(parsing text: String) throws(FrameFault) {
    let bytes = text.utf8.span
    var type: String?
    var identifier: String?
    var body: Range<Int>?
    var reason: String?
    var reconnect: Bool?
    var position = 0
    JSONScanner.skipSpace(bytes, &position)
    guard position < bytes.count else { throw .malformed(offset: position) }
    guard bytes[position] == UInt8(ascii: "{") else {
      try JSONScanner.skipValue(bytes, &position, depth: 0)
      try JSONScanner.expectEnd(bytes, position)
      throw .notAnObject
    }
    try JSONScanner.object(bytes, &position, depth: 0) { key, position throws(FrameFault) in
      let start = position
      try JSONScanner.skipValue(bytes, &position, depth: 1)
      let value = start..<position
      switch JSONScanner.string(bytes, key) {
      case "type": type = Self.string(bytes, value)
      case "identifier": identifier = Self.string(bytes, value)
      case "message": body = value
      case "reason": reason = Self.string(bytes, value)
      case "reconnect": reconnect = Self.bool(bytes, value)
      default: break
      }
    }
    try JSONScanner.expectEnd(bytes, position)
    switch (type, identifier, body) {
    case ("welcome", _, _): self = .welcome
    case ("ping", _, _): self = .ping
    case ("disconnect", _, _): self = .disconnect(reason.map(DisconnectReason.init), reconnect: reconnect)
    case ("confirm_subscription", let identifier?, _): self = .confirmSubscription(identifier: identifier)
    case ("reject_subscription", let identifier?, _): self = .rejectSubscription(identifier: identifier)
    case (_, let identifier?, let body?): self = .message(identifier: identifier, type: type, body: body)
    default: self = .unknown(type: type)
    }
  }

  /// The value where it is a string.
  private static func string(_ bytes: Span<UInt8>, _ value: Range<Int>) -> String? {
    bytes[value.lowerBound] == UInt8(ascii: "\"") ? JSONScanner.string(bytes, value) : nil
  }

  /// The value where it is a truth value.
  private static func bool(_ bytes: Span<UInt8>, _ value: Range<Int>) -> Bool? {
    switch bytes[value.lowerBound] {
    case UInt8(ascii: "t"): true
    case UInt8(ascii: "f"): false
    default: nil
    }
  }
}
