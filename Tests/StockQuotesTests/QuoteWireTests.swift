import Foundation
import Testing

@testable import StockQuotes

@Suite("The messages of the stock quotes")
struct QuoteWireTests {
  private func read(_ json: String) -> ServerMessage { ServerMessage(Data(json.utf8)) }

  @Test func `each message of the server's is read as it was written`() {
    let messages: [ServerMessage] = [
      .connected, .failed(topic: nil), .failed(topic: "trading.product.9"), .quote(product: "100", price: "42"),
      .ack(connectionID: 7),
    ]
    #expect(messages.map { ServerMessage($0.data) } == messages)
    #expect(
      messages.map { String(decoding: $0.data, as: UTF8.self) } == [
        #"{"t":"connect.connected"}"#, #"{"t":"connect.failed"}"#,
        #"{"subscribeTo":"trading.product.9","t":"connect.failed"}"#,
        #"{"body":{"currentPrice":"42","securityId":"100"},"t":"trading.quote"}"#,
        #"{"connectionId":7,"t":"connect.ack"}"#,
      ])
  }

  @Test func `numbers in place of text and a missing t are read too`() {
    #expect(
      read(#"{"t":"trading.quote","body":{"securityId":100,"currentPrice":42.5}}"#)
        == .quote(product: "100", price: "42.5"))
    #expect(read(#"{"body":{"securityId":"100","currentPrice":42}}"#) == .quote(product: "100", price: "42"))
    #expect(read(#"{"connectionId":"7"}"#) == .ack(connectionID: 7))
    #expect(read(#"{"connectionId":7}"#) == .ack(connectionID: 7))
  }

  @Test(
    "what is not for us is told apart, and never an end",
    arguments: [
      "", "null", "[]", "{", #"{"t":"weather.report"}"#, #"{"t":7}"#, #"{"t":"trading.quote"}"#,
      #"{"t":"connect.ack","connectionId":"x"}"#, #"{"t":"connect.ack","connectionId":1e30}"#, "\u{1}",
    ])
  func unknown(json: String) {
    #expect(read(json) == .unknown)
  }

  @Test func `what the client asks for is text with one key`() throws {
    let messages = [ClientMessage.subscribe(topic: "trading.product.100"), .unsubscribe(connectionID: 7)]
    #expect(messages.map(\.text) == [#"{"subscribeTo":"trading.product.100"}"#, #"{"unsubscribeFrom":7}"#])
    #expect(try messages.map { try JSONDecoder().decode(ClientMessage.self, from: Data($0.text.utf8)) } == messages)
    #expect(
      try JSONDecoder().decode(ClientMessage.self, from: Data(#"{"unsubscribeFrom":"7"}"#.utf8))
        == .unsubscribe(connectionID: 7))
  }

  @Test func `a topic names a product or nothing`() {
    #expect(Wire.product(ofTopic: Wire.topic(of: "100")) == "100")
    #expect(Wire.product(ofTopic: "trading.product.") == nil)
    #expect(Wire.product(ofTopic: "100") == nil)
  }
}
