import Foundation
import StockQuotes
import Testing
import WebSocketHandling
import WebSocketServing
import WebSocketTransport

@Suite("Stock quotes over loopback", .timeLimit(.minutes(5)))
struct QuoteServerTests {
  @Test func `the seed's flow goes over the wire as printed, text or binary`() async throws {
    let server = try QuoteServer(products: ["100"], interval: .seconds(3_600)) { _ in 42 }
    let handler = DefaultWebSocketHandler(logger: Silent())
    try await handler.connect(request: patient(server.url))
    func next() async throws -> String {
      let message = try await handler.receive(WebSocketMessage.self)
      guard case .binary(let data) = message else { return "text: \(message)" }
      return String(decoding: data, as: UTF8.self)
    }
    #expect(try await next() == #"{"t":"connect.connected"}"#)
    for request in [
      WebSocketMessage.text(#"{"subscribeTo":"trading.product.100"}"#),
      .binary(Data(#"{"subscribeTo":"trading.product.100"}"#.utf8)),
    ] {
      try await handler.send(message: request)
      #expect(try await next() == #"{"connectionId":1,"t":"connect.ack"}"#)
      #expect(try await next() == #"{"body":{"currentPrice":"42","securityId":"100"},"t":"trading.quote"}"#)
    }
    try await handler.send(message: WebSocketMessage.text(#"{"subscribeTo":"trading.product.7"}"#))
    #expect(try await next() == #"{"subscribeTo":"trading.product.7","t":"connect.failed"}"#)
    try await handler.send(message: WebSocketMessage.text("no JSON"))
    #expect(try await next() == #"{"t":"connect.failed"}"#)
    // Of others' connections nothing is told and nothing ends.
    try await handler.send(message: WebSocketMessage.text(#"{"unsubscribeFrom":99}"#))
    try await handler.send(message: WebSocketMessage.text(#"{"unsubscribeFrom":1}"#))
    await #expect {
      _ = try await handler.receive(WebSocketMessage.self)
    } throws: { error in
      guard case .closed(let record) = error as? EngineError.WebSocketError else { return false }
      return record.code == .normalClosure && record.isClean
    }
  }

  @Test func `a client tells its server its id before it closes`() async throws {
    let told = Lock<[String]>([])
    let (messages, feed) = AsyncStream.makeStream(of: Void.self)
    let server = try WebSocketServer { connection in
      connection.onMessage { [unowned connection] message in
        told.withLock { $0.append(message.text ?? "") }
        connection.send(.text(#"{"connectionId":7}"#))
        connection.send(.text(#"{"body":{"securityId":100,"currentPrice":"9"}}"#))
      }
      connection.onClose { _ in feed.finish() }
      connection.send(.text(#"{"t":"connect.connected"}"#))
    }
    let client = QuoteClient(request: patient(server.url), handler: DefaultWebSocketHandler(logger: Silent()))
    let heard = Lock<[String?]>([])
    let (prices, priceFeed) = AsyncStream.makeStream(of: Void.self)
    client.subscribe(to: "100") { price in
      heard.withLock { $0.append(price) }
      priceFeed.yield()
    }
    for await _ in prices { break }
    #expect(client.isOpen)
    #expect(client.connectionId == 7)
    client.close()
    for await _ in messages {}
    #expect(told.withLock { $0 } == [#"{"subscribeTo":"trading.product.100"}"#, #"{"unsubscribeFrom":7}"#])
    #expect(heard.withLock { $0 } == ["9"])
    #expect(!client.isOpen)
  }

  @Test func `no server and a refused product are told as nil, once`() async throws {
    let gone = try QuoteServer()
    let url = gone.url
    gone.shutDown()
    let server = try QuoteServer(products: ["1"])
    for (url, product) in [(url, "1"), (server.url, "2")] {
      let (told, feed) = AsyncStream.makeStream(of: String?.self)
      let client = QuoteClient(request: patient(url), handler: DefaultWebSocketHandler(logger: Silent()))
      client.subscribe(to: product) { feed.yield($0) }
      var iterator = told.makeAsyncIterator()
      #expect(await iterator.next() == .some(nil))
      client.close { feed.finish() }
      #expect(await iterator.next() == nil)
    }
  }

  @Test func `given a session, a client goes on by itself after a loss`() async throws {
    let server = try QuoteServer(products: ["1"], interval: .milliseconds(5))
    let policy = ReconnectPolicy(backoff: Backoff(first: .zero, base: .zero, maximum: .zero))
    let session = ReconnectingSession(
      DefaultWebSocketHandler(logger: Silent()), policy: policy, logger: Silent())
    let client = QuoteClient(request: patient(server.url), handler: session)
    var prices = client.prices(of: "1").makeAsyncIterator()
    for _ in 0..<3 {
      #expect(try await prices.next() != nil)
      let id = client.connectionId
      server.dropAll()
      while client.connectionId == id { #expect(try await prices.next() != nil) }
    }
    client.close()
  }

}

/// A request that a slow machine does not end.
func patient(_ url: URL) -> NetworkRequest {
  NetworkRequest(url: url, connectTimeout: .seconds(240), closeTimeout: .seconds(240))
}

/// A logger that says nothing.
struct Silent: Logger {
  func log(file: String, function: String, line: Int, logLevel: LogLevel, _ message: @autoclosure () -> Any) {}
}
