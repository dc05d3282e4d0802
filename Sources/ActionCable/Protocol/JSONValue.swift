/// Any JSON value (RFC 8259), such as a parameter of a channel.
public enum JSONValue: Sendable, Hashable {
  /// `null`.
  case null
  /// `true` or `false`.
  case bool(Bool)
  /// A number without a fraction.
  case integer(Int)
  /// Any other number.
  case number(Double)
  /// A string.
  case string(String)
  /// An array.
  case array([JSONValue])
  /// An object.
  case object([String: JSONValue])
}

extension JSONValue: ExpressibleByNilLiteral, ExpressibleByBooleanLiteral, ExpressibleByIntegerLiteral,
  ExpressibleByFloatLiteral, ExpressibleByStringLiteral, ExpressibleByArrayLiteral, ExpressibleByDictionaryLiteral
{
  /// `null`.
  public init(nilLiteral: ()) { self = .null }
  /// A truth value.
  public init(booleanLiteral value: Bool) { self = .bool(value) }
  /// A whole number.
  public init(integerLiteral value: Int) { self = .integer(value) }
  /// A number.
  public init(floatLiteral value: Double) { self = .number(value) }
  /// A string.
  public init(stringLiteral value: String) { self = .string(value) }
  /// An array.
  public init(arrayLiteral elements: JSONValue...) { self = .array(elements) }
  /// An object; of a key that comes twice the last value counts.
  public init(dictionaryLiteral elements: (String, JSONValue)...) {
    self = .object(Dictionary(elements) { $1 })
  }
}

extension JSONValue {
  /// The member of that name; nil where there is none or this is no object.
  public subscript(name: String) -> JSONValue? {
    guard case .object(let members) = self else { return nil }
    return members[name]
  }

  /// Reads JSON text.
  ///
  /// - Throws: ``FrameFault``, where it is no JSON or is nested too deeply.
  public init(parsing text: String) throws(FrameFault) {
    let bytes = text.utf8.span
    var position = 0
    self = try Self.value(bytes, &position, depth: 0)
    try JSONScanner.expectEnd(bytes, position)
  }

  private static func value(
    _ bytes: Span<UInt8>, _ position: inout Int, depth: Int
  ) throws(FrameFault) -> JSONValue {
    JSONScanner.skipSpace(bytes, &position)
    guard position < bytes.count else { throw .malformed(offset: position) }
    let start = position
    switch bytes[position] {
    case UInt8(ascii: "{"):
      var members: [String: JSONValue] = [:]
      try JSONScanner.object(bytes, &position, depth: depth) { key, position throws(FrameFault) in
        members[JSONScanner.string(bytes, key)] = try value(bytes, &position, depth: depth + 1)
      }
      return .object(members)
    case UInt8(ascii: "["):
      var elements: [JSONValue] = []
      try JSONScanner.array(bytes, &position, depth: depth) { position throws(FrameFault) in
        elements.append(try value(bytes, &position, depth: depth + 1))
      }
      return .array(elements)
    case let first:
      try JSONScanner.skipValue(bytes, &position, depth: depth)
      switch first {
      case UInt8(ascii: "\""): return .string(JSONScanner.string(bytes, start..<position))
      case UInt8(ascii: "t"): return .bool(true)
      case UInt8(ascii: "f"): return .bool(false)
      case UInt8(ascii: "n"): return .null
      default:
        let text = JSONScanner.text(bytes, start..<position)
        if let integer = Int(text) { return .integer(integer) }
        guard let number = Double(text), number.isFinite else { throw .malformed(offset: start) }
        return .number(number)
      }
    }
  }
}

extension JSONValue: Codable {
  /// Reads any JSON value.
  public init(from decoder: any Decoder) throws {
    let container = try decoder.singleValueContainer()
    if container.decodeNil() {
      self = .null
    } else if let value = try? container.decode(Bool.self) {
      self = .bool(value)
    } else if let value = try? container.decode(Int.self) {
      self = .integer(value)
    } else if let value = try? container.decode(Double.self) {
      self = .number(value)
    } else if let value = try? container.decode(String.self) {
      self = .string(value)
    } else if let value = try? container.decode([JSONValue].self) {
      self = .array(value)
    } else {
      self = .object(try container.decode([String: JSONValue].self))
    }
  }

  /// Writes the value.
  public func encode(to encoder: any Encoder) throws {
    var container = encoder.singleValueContainer()
    switch self {
    case .null: try container.encodeNil()
    case .bool(let value): try container.encode(value)
    case .integer(let value): try container.encode(value)
    case .number(let value): try container.encode(value)
    case .string(let value): try container.encode(value)
    case .array(let elements): try container.encode(elements)
    case .object(let members): try container.encode(members)
    }
  }
}

extension JSONValue: CustomStringConvertible {
  /// The value as canonical JSON; a number that JSON cannot write as `null`.
  public var description: String { CanonicalJSON.text(self) }
}
