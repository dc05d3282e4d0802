import Foundation

/// A message of the server's, read.
enum ServerMessage: Sendable, Hashable {
  case connected
  /// The topic is nil where the server does not say it.
  case failed(topic: String?)
  case quote(product: String, price: String)
  case ack(connectionID: Int)
  /// Not for us.
  case unknown

  private struct Envelope: Decodable {
    var t: String?
    var subscribeTo: String?
  }

  init(_ data: Data) {
    let decoder = JSONDecoder()
    guard let envelope = try? decoder.decode(Envelope.self, from: data) else {
      self = .unknown
      return
    }
    switch (envelope.t, envelope.t.flatMap(MessageType.init)) {
    case (_, .connected): self = .connected
    case (_, .failed): self = .failed(topic: envelope.subscribeTo)
    case (_, .tradingQuote): self = Self.quote(data, decoder) ?? .unknown
    case (_, .connectionAck): self = Self.ack(data, decoder) ?? .unknown
    case (nil, _): self = Self.quote(data, decoder) ?? Self.ack(data, decoder) ?? .unknown
    case (.some, nil): self = .unknown
    }
  }

  private static func quote(_ data: Data, _ decoder: JSONDecoder) -> ServerMessage? {
    (try? decoder.decode(SocketQuoteResponse.self, from: data)).map {
      .quote(product: $0.body.securityId, price: $0.body.currentPrice)
    }
  }

  private static func ack(_ data: Data, _ decoder: JSONDecoder) -> ServerMessage? {
    (try? decoder.decode(ConnectionAck.self, from: data)).map { .ack(connectionID: $0.connectionId) }
  }

  /// As the server sends it.
  var data: Data {
    switch self {
    case .connected: Wire.encode(GenericSocketResponse(t: MessageType.connected.rawValue))
    case .failed(let topic): Wire.encode(Refusal(t: MessageType.failed.rawValue, subscribeTo: topic))
    case .quote(let product, let price):
      Wire.encode(SocketQuoteResponse(securityId: product, currentPrice: price))
    case .ack(let connectionID): Wire.encode(ConnectionAck(connectionId: connectionID))
    case .unknown: Data()
    }
  }

  private struct Refusal: Encodable {
    var t: String
    var subscribeTo: String?
  }
}

/// A message of the client's.
enum ClientMessage: Sendable, Hashable, Codable {
  case subscribe(topic: String)
  case unsubscribe(connectionID: Int)

  private enum CodingKeys: String, CodingKey {
    case subscribeTo
    case unsubscribeFrom
  }

  init(from decoder: any Decoder) throws {
    let container = try decoder.container(keyedBy: CodingKeys.self)
    if container.contains(.subscribeTo) {
      self = .subscribe(topic: try container.decode(String.self, forKey: .subscribeTo))
    } else {
      self = .unsubscribe(connectionID: try container.integer(forKey: .unsubscribeFrom))
    }
  }

  func encode(to encoder: any Encoder) throws {
    var container = encoder.container(keyedBy: CodingKeys.self)
    switch self {
    case .subscribe(let topic): try container.encode(topic, forKey: .subscribeTo)
    case .unsubscribe(let connectionID): try container.encode(connectionID, forKey: .unsubscribeFrom)
    }
  }

  /// As the client sends it.
  var text: String { String(decoding: Wire.encode(self), as: UTF8.self) }
}

/// What both sides write alike.
enum Wire {
  private static let topicPrefix = "trading.product."

  static func topic(of product: String) -> String { topicPrefix + product }

  /// The product that a topic names; nil where it names none.
  static func product(ofTopic topic: String) -> String? {
    guard topic.hasPrefix(topicPrefix), topic.count > topicPrefix.count else { return nil }
    return String(topic.dropFirst(topicPrefix.count))
  }

  static func encode(_ value: some Encodable) -> Data {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
    // Text and whole numbers in structures: nothing of it can fail.
    return (try? encoder.encode(value)) ?? Data()
  }
}
