public import Foundation
import WebSocketHandling

/// What a channel sent.
public struct CableMessage: Sendable {
  /// The channel that sent it.
  public let identifier: ChannelIdentifier
  /// The frame's own type; nil with Rails, whose data frames have none.
  public let type: String?
  /// The value of the type that is registered for such messages; nil where none is, or where it does not decode.
  public internal(set) var object: (any Sendable)?
  /// Why the registered type does not decode; nil where it does, or where none is registered.
  public internal(set) var decodingFailure: DecodingFailure?

  /// The whole frame, and where the body lies in its UTF-8.
  private let frame: String
  private let body: Range<Int>
  var coding = CableCoding()

  init(identifier: ChannelIdentifier, type: String?, frame: String, body: Range<Int>) {
    self.identifier = identifier
    self.type = type
    self.frame = frame
    self.body = body
  }

  /// A message, for tests of what takes one; `body` is JSON text.
  public init(identifier: ChannelIdentifier, type: String? = nil, body: String, coding: CableCoding = CableCoding()) {
    self.init(identifier: identifier, type: type, frame: body, body: 0..<body.utf8.count)
    self.coding = coding
  }

  /// What the message counts for where it waits: it keeps its whole frame.
  package var cost: Int { WebSocketMessage.text(frame).cost }

  /// The body, byte for byte as it was sent: any JSON value, `null` too.
  public var bodyData: Data { bytes(body) }

  /// The body as text.
  public var bodyText: String { JSONScanner.text(frame.utf8.span, body) }

  /// The body as a value of that type, by the client's coding.
  public func decode<Value: Decodable>(_ type: Value.Type) throws -> Value { try coding.decode(type, from: bodyData) }

  /// The member of that name of a body that is an object, byte for byte as it was sent; nil where there is none.
  public func data(forKey name: String) -> Data? { member(name).map(bytes) }

  /// The member `type` of the body; nil where there is none.
  public var typeData: Data? { data(forKey: "type") }

  /// The member `data` of the body; nil where there is none.
  public var textData: Data? { data(forKey: "data") }

  private func bytes(_ range: Range<Int>) -> Data {
    // Safe: the buffer is used inside the call only.
    frame.utf8.span.extracting(range).withUnsafeBytes { Data($0) }
  }

  private func member(_ name: String) -> Range<Int>? {
    members?.last { $0.name == name }?.value
  }

  /// The names of the body's members and where their values lie; nil where it is no object.
  private var members: [(name: String, value: Range<Int>)]? {
    let bytes = frame.utf8.span
    guard !body.isEmpty, bytes[body.lowerBound] == UInt8(ascii: "{") else { return nil }
    var members: [(name: String, value: Range<Int>)] = []
    var position = body.lowerBound
    // A frame was checked as a whole; a body of a test's own may be anything.
    try? JSONScanner.object(bytes, &position, depth: 0) { key, position throws(FrameFault) in
      let start = position
      try JSONScanner.skipValue(bytes, &position, depth: 0)
      members.append((JSONScanner.string(bytes, key), start..<position))
    }
    return members
  }

  /// The only member of the body; nil where it is no object, or has another number of them.
  var onlyMember: (name: String, data: Data)? {
    guard let members, members.count == 1, let only = members.first else { return nil }
    return (only.name, bytes(only.value))
  }
}

extension CableMessage: Equatable {
  /// Whether identifier, type and body are the same.
  public static func == (left: CableMessage, right: CableMessage) -> Bool {
    left.identifier == right.identifier && left.type == right.type && left.bodyText == right.bodyText
  }
}

extension CableMessage: CustomStringConvertible {
  /// The body as text.
  public var description: String { bodyText }
}

/// Why a message does not decode as the type that is registered for it.
public struct DecodingFailure: Error, Sendable, Hashable {
  /// The type's name.
  public let type: String
  /// What the decoder said.
  public let reason: String
}
