/// Which channel, and which of its kind: a name and parameters, such as `ChatChannel` and a `room_id`.
///
/// Servers tell subscriptions apart by the identifier's text. Here it is written in one way only, its keys sorted by
/// Unicode scalar, so that the same parameters in two orders are one subscription.
public struct ChannelIdentifier: Sendable, Hashable {
  /// The channel's class, as the server names it.
  public let channel: String
  /// The channel's parameters.
  public let parameters: [String: JSONValue]
  /// The identifier as it travels: canonical JSON.
  public let text: String

  /// An identifier.
  ///
  /// - Throws: ``InvalidIdentifier``: the parameters have a key `channel`, or a number that JSON cannot write.
  public init(_ channel: String, _ parameters: [String: JSONValue] = [:]) throws(InvalidIdentifier) {
    guard parameters["channel"] == nil else { throw .channelIsReserved }
    guard parameters.values.allSatisfy(\.isFinite) else { throw .numberIsNotFinite }
    self.channel = channel
    self.parameters = parameters
    var members = parameters
    members["channel"] = .string(channel)
    text = CanonicalJSON.text(.object(members))
  }

  /// What the identifier is found by.
  var key: IdentifierKey { IdentifierKey(text) }

  /// Whether the texts have the same bytes.
  public static func == (left: ChannelIdentifier, right: ChannelIdentifier) -> Bool { left.key == right.key }

  /// Hashes the text's bytes.
  public func hash(into hasher: inout Hasher) { hasher.combine(key) }
}

extension ChannelIdentifier: CustomStringConvertible {
  /// The identifier as it travels.
  public var description: String { text }
}

/// What is wrong with the parts of a ``ChannelIdentifier``.
public enum InvalidIdentifier: Error, Sendable, Hashable {
  /// A parameter is named `channel`, which is the channel's own name.
  case channelIsReserved
  /// A number is infinite or none at all.
  case numberIsNotFinite
}

/// The text of an identifier, equal where its bytes are; `String` would take two Unicode forms for one.
package struct IdentifierKey: Sendable, Hashable {
  package let text: String

  package init(_ text: String) { self.text = text }

  /// The key of the same identifier in its canonical form, where the text is a JSON object in another one.
  package var canonical: IdentifierKey? {
    guard let value = try? JSONValue(parsing: text), case .object = value else { return nil }
    return IdentifierKey(CanonicalJSON.text(value))
  }

  package static func == (left: IdentifierKey, right: IdentifierKey) -> Bool {
    left.text.utf8.elementsEqual(right.text.utf8)
  }

  package func hash(into hasher: inout Hasher) {
    let bytes = text.utf8.span
    // Safe: the buffer is used inside the call only.
    bytes.withUnsafeBytes { hasher.combine(bytes: $0) }
  }
}

extension JSONValue {
  /// Whether JSON can write every number in it.
  fileprivate var isFinite: Bool {
    switch self {
    case .null, .bool, .integer, .string: true
    case .number(let value): value.isFinite
    case .array(let elements): elements.allSatisfy(\.isFinite)
    case .object(let members): members.values.allSatisfy(\.isFinite)
    }
  }
}
