import Foundation

/// The kinds of message that the server sends, by their `t`.
public enum MessageType: String, Sendable, Hashable, CaseIterable {
  /// The connection is there: subscribe.
  case connected = "connect.connected"
  /// A subscription was refused.
  case failed = "connect.failed"
  /// A price.
  case tradingQuote = "trading.quote"
  /// A subscription was accepted; the connection's id is in it.
  case connectionAck = "connect.ack"
}

/// Any message of the server's: its type.
public struct GenericSocketResponse: Codable, Sendable, Hashable {
  /// The type; see ``MessageType``.
  public var t: String
}

/// A price: `{"t":"trading.quote","body":{"securityId":"100","currentPrice":"42"}}`.
public struct SocketQuoteResponse: Codable, Sendable, Hashable {
  /// The type; taken as ``MessageType/tradingQuote`` where it is missing.
  public var t: String
  /// The product and its price.
  public var body: QuoteResponseBody

  /// A price of a product.
  public init(securityId: String, currentPrice: String) {
    t = MessageType.tradingQuote.rawValue
    body = QuoteResponseBody(securityId: securityId, currentPrice: currentPrice)
  }

  /// Reads a price; `t` may be missing.
  public init(from decoder: any Decoder) throws {
    let container = try decoder.container(keyedBy: CodingKeys.self)
    t = try container.decodeIfPresent(String.self, forKey: .t) ?? MessageType.tradingQuote.rawValue
    body = try container.decode(QuoteResponseBody.self, forKey: .body)
  }
}

/// A product and its price, both as text.
public struct QuoteResponseBody: Codable, Sendable, Hashable {
  /// The product.
  public var securityId: String
  /// Its price.
  public var currentPrice: String

  /// A product and its price.
  public init(securityId: String, currentPrice: String) {
    self.securityId = securityId
    self.currentPrice = currentPrice
  }

  /// Reads both as text or as numbers.
  public init(from decoder: any Decoder) throws {
    let container = try decoder.container(keyedBy: CodingKeys.self)
    securityId = try container.textOrNumber(forKey: .securityId)
    currentPrice = try container.textOrNumber(forKey: .currentPrice)
  }
}

/// A subscription was accepted: `{"t":"connect.ack","connectionId":7}`.
public struct ConnectionAck: Codable, Sendable, Hashable {
  /// The type; taken as ``MessageType/connectionAck`` where it is missing.
  public var t: String
  /// The connection, for as long as it lasts; never given to another one.
  public var connectionId: Int

  /// The acknowledgement of that connection's.
  public init(connectionId: Int) {
    t = MessageType.connectionAck.rawValue
    self.connectionId = connectionId
  }

  /// Reads an acknowledgement; `t` may be missing, and the id may be text.
  public init(from decoder: any Decoder) throws {
    let container = try decoder.container(keyedBy: CodingKeys.self)
    t = try container.decodeIfPresent(String.self, forKey: .t) ?? MessageType.connectionAck.rawValue
    connectionId = try container.integer(forKey: .connectionId)
  }
}

extension KeyedDecodingContainer {
  /// Text, or a number in its plain form.
  fileprivate func textOrNumber(forKey key: Key) throws -> String {
    if let text = try? decode(String.self, forKey: key) { return text }
    return "\(try decode(Decimal.self, forKey: key))"
  }

  /// A whole number, which may be written as text.
  func integer(forKey key: Key) throws -> Int {
    guard let text = try? decode(String.self, forKey: key) else { return try decode(Int.self, forKey: key) }
    guard let value = Int(text) else {
      throw DecodingError.dataCorruptedError(forKey: key, in: self, debugDescription: "not a whole number")
    }
    return value
  }
}
