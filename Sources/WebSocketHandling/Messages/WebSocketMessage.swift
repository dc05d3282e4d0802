public import Foundation
public import WebSocketCore

/// A message as it travels.
///
/// As the type of `send` or `receive` it bypasses the JSON coding.
///
/// Its own `Codable` form, for handlers that know nothing of it, is `{"text":...}` or `{"binary":base64}`.
public enum WebSocketMessage: Sendable, Hashable, Codable {
  /// Text.
  case text(String)
  /// Bytes.
  case binary(Data)

  private enum CodingKeys: CodingKey {
    case text
    case binary
  }

  /// Reads `{"text":...}` or `{"binary":base64}`.
  public init(from decoder: any Decoder) throws {
    let container = try decoder.container(keyedBy: CodingKeys.self)
    if let text = try container.decodeIfPresent(String.self, forKey: .text) {
      self = .text(text)
    } else {
      self = .binary(try container.decode(Data.self, forKey: .binary))
    }
  }

  /// Writes `{"text":...}` or `{"binary":base64}`.
  public func encode(to encoder: any Encoder) throws {
    var container = encoder.container(keyedBy: CodingKeys.self)
    switch self {
    case .text(let text): try container.encode(text, forKey: .text)
    case .binary(let data): try container.encode(data, forKey: .binary)
    }
  }

  /// Text or binary.
  public var kind: MessageKind {
    switch self {
    case .text: .text
    case .binary: .binary
    }
  }

  /// The payload's bytes.
  public var data: Data {
    switch self {
    case .text(let text): Data(text.utf8)
    case .binary(let data): data
    }
  }
}
