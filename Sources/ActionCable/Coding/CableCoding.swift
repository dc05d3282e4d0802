public import Foundation

/// How values become JSON and back: keys in snake case and dates as seconds since 1970, unless changed.
///
/// Foundation's snake case is not a way there and back for capitals in a row: `userID` is sent as `user_id`, which is
/// read as `userId`. Name such a property `userId`, or give it a coding key.
public struct CableCoding: Sendable {
  private let encoder: @Sendable (JSONEncoder) -> Void
  private let decoder: @Sendable (JSONDecoder) -> Void

  /// A coding.
  ///
  /// - Parameters:
  ///   - encoder: changes the encoder's settings. Keys are sorted by their scalars in any case.
  ///   - decoder: changes the decoder's settings.
  public init(
    encoder: @escaping @Sendable (JSONEncoder) -> Void = { _ in },
    decoder: @escaping @Sendable (JSONDecoder) -> Void = { _ in }
  ) {
    self.encoder = encoder
    self.decoder = decoder
  }

  /// A value as JSON text.
  func encode(_ value: some Encodable) throws(InvalidData) -> String {
    let encoder = JSONEncoder()
    encoder.keyEncodingStrategy = .convertToSnakeCase
    encoder.dateEncodingStrategy = .secondsSince1970
    encoder.outputFormatting = .withoutEscapingSlashes
    self.encoder(encoder)
    encoder.outputFormatting.insert(.sortedKeys)
    encoder.outputFormatting.remove(.prettyPrinted)
    do {
      return String(decoding: try encoder.encode(value), as: UTF8.self)
    } catch {
      throw .unencodable(reason: String(describing: error))
    }
  }

  /// The value that JSON stands for.
  func decode<Value: Decodable>(_ type: Value.Type, from data: Data) throws -> Value {
    let decoder = JSONDecoder()
    decoder.keyDecodingStrategy = .convertFromSnakeCase
    decoder.dateDecodingStrategy = .secondsSince1970
    self.decoder(decoder)
    return try decoder.decode(type, from: data)
  }
}
