import Foundation
import Glibc
import Testing
import WebSocketHandling
import WebSocketTransport

@testable import StockQuotes

@Suite("A quote server under clients that mean no good", .timeLimit(.minutes(5)))
struct QuoteFloodTests {
  /// What a test's process may use beside the limits.
  private static let slack = 8 << 20
  /// The send queue's limit, once for each of up to four event loops, whose threads keep what they once had.
  private static let most = 4 * (16 << 20) + 2 * slack

  @Test func `a flood for ever new products, its refusals read, leaves nothing behind`() async throws {
    await #expect(processExitsWith: .success) {
      let server = try QuoteServer(interval: .seconds(3_600)) { _ in 42 }
      let client = try PlainClient(server)
      let name = String(repeating: "x", count: 8_000)
      guard client.hears("connect.connected") else { fatalError("not greeted") }
      var before = 0
      for number in 0..<2_000 {
        if number == 200 { before = residentBytes() }
        client.send(#"{"subscribeTo":"trading.product.\#(name)\#(number)"}"#)
        guard client.hears("x\(number)\"", forgetting: true) else { fatalError("\(number) is not answered") }
      }
      let grown = residentBytes() - before
      guard grown < Self.slack || !isCounted else { fatalError("\(grown) bytes more are resident") }
      guard server.watchedProducts == [] else { fatalError("\(server.watchedProducts)") }
      client.send(#"{"subscribeTo":"trading.product.100"}"#)
      guard client.hears(#""currentPrice":"42""#) else { fatalError("not quoted") }
    }
  }

  @Test func `a flood whose answers nobody reads ends at the send queue's limit, each time`() async throws {
    await #expect(processExitsWith: .success) {
      let server = try QuoteServer(interval: .seconds(3_600)) { _ in 42 }
      let name = String(repeating: "x", count: 2_000)
      let before = residentBytes()
      for _ in 0..<6 {
        let client = try PlainClient(server)
        var number = 0
        while client.send(#"{"subscribeTo":"trading.product.\#(name)\#(number)"}"#) {
          number += 1
          guard number < 1 << 20 else { fatalError("goes on") }
        }
        let grown = residentBytes() - before
        guard grown < Self.most || !isCounted else { fatalError("\(grown) bytes more are resident") }
      }
      let deadline = ContinuousClock.now + .seconds(240)
      while server.clientCount > 0, ContinuousClock.now < deadline { usleep(10_000) }
      guard server.clientCount == 0, server.watchedProducts == [] else { fatalError("\(server.clientCount) are left") }
    }
  }

  @Test func `what is no message of the protocol is refused, and the connection lives`() throws {
    let server = try QuoteServer(products: ["1"], interval: .seconds(3_600)) { _ in 42 }
    let client = try PlainClient(server)
    let deep = String(repeating: "[", count: 10_000)
    let wrong = [
      "null", "0", "[]", "\"\"", "{}", "{\"subscribeTo\":null}", "{\"subscribeTo\":1}", "{\"subscribeTo\":{}}",
      "{\"unsubscribeFrom\":1e400}", "{\"unsubscribeFrom\":99999999999999999999}", "{\"unsubscribeFrom\":0.5}",
      "{\"unsubscribeFrom\":\"99999999999999999999\"}", "{\"unsubscribeFrom\":null}", deep,
      "{\"subscribeTo\":\(deep)", "{\"subscribeTo\":\"\\ud800\"}", "{\"subscribeTo\":\"trading.product.\"}", "",
    ]
    for text in wrong {
      client.send(text)
      #expect(client.hears("connect.failed", forgetting: true), "\(text.prefix(40))")
    }
    for bytes in [
      [0xFF], [0xFE, 0xFF, 0xD8], [0, 0, 0, 0x7B], Array("{\"subscribeTo\":\"".utf8) + [0xFF, 0x22, 0x7D],
    ] {
      client.send(bytes as [UInt8])
      #expect(client.hears("connect.failed", forgetting: true))
    }
    // Of others, and of nobody.
    for id in ["2", "-1", "9223372036854775807", "\"-9223372036854775808\""] {
      client.send("{\"unsubscribeFrom\":\(id)}")
    }
    client.send("{\"subscribeTo\":\"no\",\"subscribeTo\":\"trading.product.1\"}")
    client.send(#"{"subscribeTo":"trading.product.1"}"#)
    #expect(client.hears(#""currentPrice":"42""#))
  }

  @Test func `what a server says wrongly is no message to a client`() {
    let deep = String(repeating: "{\"body\":", count: 10_000)
    for text in [
      "null", "1e400", "{\"t\":null}", "{\"t\":1}", "{\"t\":\"trading.quote\"}", "{\"t\":\"connect.ack\"}",
      "{\"t\":\"connect.ack\",\"connectionId\":1e400}", "{\"t\":\"connect.ack\",\"connectionId\":99999999999999999999}",
      "{\"t\":\"trading.quote\",\"body\":null}", "{\"t\":\"trading.quote\",\"body\":\(deep)",
      "{\"t\":\"trading.quote\",\"body\":{\"securityId\":null,\"currentPrice\":\"1\"}}", "\u{0}", "",
    ] { #expect(ServerMessage(Data(text.utf8)) == .unknown, "\(text.prefix(60))") }
    // Numbers that no type holds are read or refused, and never trap.
    for number in ["1e400", "-1e400", "1e99999999999", "1e-400", "-0", String(repeating: "9", count: 500)] {
      _ = ServerMessage(Data("{\"body\":{\"securityId\":1,\"currentPrice\":\(number)}}".utf8))
    }
  }
}

/// Whether this process's memory is that of the code alone: a sanitizer keeps books of its own.
private var isCounted: Bool { ProcessInfo.processInfo.environment["SANITIZER"] == nil }

/// The memory of this process that is in use.
private func residentBytes() -> Int {
  let fields = (try? String(contentsOfFile: "/proc/self/statm", encoding: .utf8))?.split(separator: " ") ?? []
  return fields.count > 1 ? (Int(fields[1]) ?? 0) * Int(getpagesize()) : 0
}
