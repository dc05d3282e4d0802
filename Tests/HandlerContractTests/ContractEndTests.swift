import Foundation
import Testing
import WebSocketCore
import WebSocketHandling
import WebSocketTesting
import WebSocketTransport

/// The numbered promises of a handler, second half: ends, connecting, closing, bounds, safety, cuts.
@Suite("The contract, 5 to 10")
struct ContractEndTests {
  // MARK: 5. After the end: kept messages first, then the record, always

  @Test("5, R72: after the peer's close kept messages come first, then the record, always", arguments: Place.allCases)
  func keptAfterClose(place: Place) throws {
    let client = Client(place)
    let server = try client.open()
    server.send(Frame.text("a").encoded() + Frame.text("b").encoded() + Frame.close(1000, "bye").encoded())
    server.finish()
    client.manual.settle()
    for _ in 0..<4 { client.receive() }
    client.send("late")
    client.ping()
    client.disconnect()
    client.manual.settle()
    let record = closed(.normalClosure, by: .peer, reason: "bye")
    #expect(
      client.journal.all == [
        .message(.text("a")), .message(.text("b")), .failed("receive", record), .failed("receive", record),
        .failed("send late", record), .failed("ping", record),
        .failed("disconnect", .connectionFailed("WebSocket is not connected")),
      ])
  }

  @Test("5, R64, R69: a loss fails everything that waits with its record", arguments: [true, false], Place.allCases)
  func lossFailsAll(isReset: Bool, place: Place) throws {
    let client = Client(place)
    let server = try client.open()
    server.setWriteRoom(0)
    for number in 1...3 { client.send("\(number)") }
    client.receive()
    client.receive()
    client.ping()
    if isReset { server.reset() } else { server.finish() }
    client.manual.settle()
    let record = lost(isReset ? .reset : .finished)
    #expect(
      client.journal.all == [
        .failed("send 1", record), .failed("send 2", record), .failed("send 3", record), .failed("receive", record),
        .failed("receive", record), .failed("ping", record),
      ])
    #expect(server.clientHasClosed)
    #expect(!client.manual.hasTimers)
  }

  @Test(
    "2, 5: sends that fail with the end fail in their order, one that the Close overtook too", arguments: Place.allCases
  )
  func failedSends(place: Place) throws {
    let client = Client(place)
    let server = try client.open()
    server.setWriteRoom(0)
    for name in ["begun ", "waiting "] { client.send(name + String(repeating: "x", count: 100_000)) }
    client.manual.settle()
    server.sendClose(.goingAway)
    client.manual.settle()
    server.reset()
    client.manual.settle()
    let failed = client.journal.take().compactMap { event -> String? in
      if case .failed(let name, .closed) = event { String(name.prefix { $0 != "x" }) } else { nil }
    }
    #expect(failed == ["send begun ", "send waiting "])
  }

  @Test("5: messages of an earlier connection are not the next one's", arguments: Place.allCases)
  func freshStart(place: Place) throws {
    let client = Client(place)
    let first = try client.open(with: Frame.text("old").encoded())
    first.reset()
    client.manual.settle()
    let second = try client.open()
    client.receive()
    second.send(.text("new"))
    client.manual.settle()
    #expect(client.journal.all == [.message(.text("new"))])
  }

  // MARK: 6. connect succeeds on a valid 101, not before and not later

  @Test("6: connect succeeds with the last byte of the answer, on a silent server too", arguments: Place.allCases)
  func lastByte(place: Place) throws {
    let client = Client(place)
    client.connect()
    let server = try client.manual.nextConnection()
    let answer = try server.answer(to: server.readRequest())
    server.send(Array(answer.dropLast()))
    client.manual.settle()
    #expect(client.journal.all == [])
    #expect(client.handler?.handshake == nil)
    server.send(Array(answer.suffix(1)))
    client.manual.settle()
    #expect(client.journal.all == [.ok("connect")])
    #expect(client.handler?.handshake?.status == 101)
  }

  @Test("6: a redirect is a refusal with its status and headers", arguments: [301, 302, 303, 307, 308])
  func redirect(status: Int) throws {
    let client = Client(.queue)
    client.connect()
    let server = try client.manual.nextConnection()
    try server.readRequest()
    server.send(text: "HTTP/1.1 \(status) Elsewhere\r\nLocation: ws://other.example/\r\nContent-Length: 0\r\n\r\n")
    client.manual.settle()
    let refusal = HandshakeRefusal(
      status: status,
      headers: [
        HTTPField(name: "Location", value: "ws://other.example/"), HTTPField(name: "Content-Length", value: "0"),
      ], body: [])
    #expect(client.journal.all == [.failed("connect", .handshakeRefused(refusal))])
    #expect(client.manual.lookedUp == ["chat.example"])
  }

  @Test("6, R68: a second connect fails at once and the first is unaffected", arguments: Place.allCases)
  func secondConnect(place: Place) throws {
    let client = Client(place)
    client.connect()
    client.handler?.connect(request: Client.request("ws://other.example/")) { [journal = client.journal] in
      journal.note("second", $0)
    }
    let server = try client.manual.nextConnection()
    #expect(client.journal.take() == [.failed("second", .connectionFailed("WebSocket is already connected"))])
    try server.open()
    client.manual.settle()
    client.connect()
    client.manual.settle()
    #expect(
      client.journal.take() == [
        .ok("connect"), .failed("connect", .connectionFailed("WebSocket is already connected")),
      ])
    #expect(client.manual.lookedUp == ["chat.example"])
  }

  // MARK: 7. disconnect

  @Test("7: disconnect sends what was queued, closes, and completes when TCP has ended", arguments: Place.allCases)
  func disconnectOrder(place: Place) throws {
    let client = Client(place)
    let server = try client.open()
    server.setWriteRoom(0)
    client.send("a")
    client.send("b")
    client.disconnect()
    client.send("c")
    client.manual.settle()
    #expect(client.journal.take() == [.failed("send c", .closing)])
    server.setWriteRoom(nil)
    #expect(try server.readMessage() == .text("a"))
    #expect(try server.readMessage() == .text("b"))
    #expect(try server.readFrame() == .close(1000))
    #expect(client.journal.take() == [.ok("send a"), .ok("send b")])
    server.sendClose(.normalClosure)
    client.manual.settle()
    #expect(client.journal.take() == [])
    server.finish()
    client.manual.settle()
    #expect(client.journal.take() == [.ok("disconnect")])
    #expect(server.clientHasClosed)
    #expect(server.unread == [])
    #expect(!client.manual.hasTimers)
  }

  @Test("7: code and reason travel; what may not be sent is refused and changes nothing", arguments: Place.allCases)
  func codeAndReason(place: Place) throws {
    let client = Client(place)
    let server = try client.open()
    let journal = client.journal
    client.handler?.disconnect(code: CloseCode(1006), reason: "") { journal.note("forbidden", $0) }
    client.handler?.disconnect(code: CloseCode(4000), reason: String(repeating: "é", count: 62)) {
      journal.note("long", $0)
    }
    client.manual.settle()
    #expect(
      journal.take() == [
        .failed("forbidden", .misuse(.closeCode(1006))),
        .failed("long", .limitExceeded(.closeReason, size: 124, limit: 123)),
      ])
    client.send("still open")
    #expect(try server.readMessage() == .text("still open"))
    client.handler?.disconnect(code: CloseCode(4000), reason: "see you") { journal.note("disconnect", $0) }
    #expect(try server.readFrame() == .close(4000, "see you"))
    server.sendClose(CloseCode(4000))
    server.finish()
    client.manual.settle()
    #expect(journal.all == [.ok("send still open"), .ok("disconnect")])
  }

  @Test("7: after disconnect pending receives are served until the peer's Close", arguments: Place.allCases)
  func receivesWhileClosing(place: Place) throws {
    let client = Client(place)
    let server = try client.open()
    client.receive()
    client.receive()
    client.disconnect()
    try server.readClose()
    server.send(.text("under way"))
    client.manual.settle()
    #expect(client.journal.take() == [.message(.text("under way"))])
    server.sendClose(.normalClosure)
    server.finish()
    client.manual.settle()
    #expect(client.journal.all == [.failed("receive", closed(.normalClosure, by: .local)), .ok("disconnect")])
  }

  @Test("7: a connection that is held back can close too", arguments: Place.allCases)
  func disconnectWhileHeldBack(place: Place) throws {
    let client = Client(place) { $0.receiveBufferLimit = 100 }
    let server = try client.open()
    for number in 1...5 { server.send(.text(String(repeating: "\(number)", count: 100))) }
    #expect(server.unreadByClient == 4 * 102)
    client.disconnect()
    try server.readClose()
    server.sendClose(.normalClosure)
    server.finish()
    client.manual.settle()
    #expect(client.journal.all == [.ok("disconnect")])
    #expect(server.clientHasClosed)
  }

  @Test("7: disconnect fails with the record when TCP ends without a closing handshake", arguments: Place.allCases)
  func disconnectThenLoss(place: Place) throws {
    let client = Client(place)
    let server = try client.open()
    client.disconnect()
    try server.readClose()
    server.finish()
    client.manual.settle()
    #expect(client.journal.all == [.failed("disconnect", lost(.finished, by: .local))])
  }

  @Test("7: a second disconnect joins the first; after the end there is nothing to close", arguments: Place.allCases)
  func secondDisconnect(place: Place) throws {
    let client = Client(place)
    let server = try client.open()
    client.disconnect("first")
    client.disconnect("second")
    #expect(try server.readFrame() == .close(1000))
    server.sendClose(.normalClosure)
    server.finish()
    client.manual.settle()
    client.disconnect("third")
    client.manual.settle()
    #expect(
      client.journal.all == [
        .ok("first"), .ok("second"), .failed("third", .connectionFailed("WebSocket is not connected")),
      ])
    #expect(server.unread == [])
  }

  @Test("7: disconnect while the peer's close is under way succeeds with it", arguments: Place.allCases)
  func disconnectDuringPeerClose(place: Place) throws {
    let client = Client(place)
    let server = try client.open()
    server.sendClose(CloseCode(3000))
    #expect(try server.readClose() == CloseCode(3000))
    client.disconnect()
    client.manual.settle()
    #expect(client.journal.all == [])
    server.finish()
    client.manual.settle()
    #expect(client.journal.all == [.ok("disconnect")])
    #expect(server.unread == [])
  }

  @Test("7: our Close goes out, also where the peer's comes while messages before it wait", arguments: Place.allCases)
  func crossingCloses(place: Place) throws {
    let client = Client(place)
    let server = try client.open()
    server.setWriteRoom(0)
    let long = String(repeating: "x", count: 100_000)
    client.send(long)
    client.send("never begun" + long)
    client.disconnect()
    client.manual.settle()
    server.sendClose(CloseCode(3000))
    client.manual.settle()
    server.setWriteRoom(nil)
    #expect(try server.readMessage() == .text(long))
    #expect(try server.readClose() == .normalClosure)
    server.finish()
    client.manual.settle()
    #expect(
      client.journal.all == [
        .ok("send " + long.prefix(20)), .failed("send never begunxxxxxxxxx", closed(CloseCode(3000), by: .local)),
        .ok("disconnect"),
      ])
    #expect(server.unread == [])
  }

  @Test(
    "7, R46: disconnect inside a receive, with more messages buffered, delivers none twice", arguments: Place.allCases)
  func disconnectInsideReceive(place: Place) throws {
    let client = Client(place)
    let server = try client.open()
    let journal = client.journal
    client.handler?.receive { [weak handler = client.handler] (result: Result<WebSocketMessage, Failure>) in
      if case .success(let message) = result { journal.note(.message(message)) }
      handler?.disconnect { journal.note("disconnect", $0) }
    }
    server.send(["a", "b", "c"].flatMap { Frame.text($0).encoded() })
    client.manual.settle()
    try server.readClose()
    server.sendClose(.normalClosure)
    server.finish()
    client.manual.settle()
    #expect(journal.all == [.message(.text("a")), .ok("disconnect")])
  }

  // MARK: 8. Memory is bounded, and no received byte can trap

  @Test(
    "8, R116: the send queue refuses what would pass its limit, but one message always fits", arguments: Place.allCases)
  func sendLimit(place: Place) throws {
    let client = Client(place) { $0.sendQueueLimit = 1_000 }
    let server = try client.open()
    server.setWriteRoom(0)
    let long = String(repeating: "x", count: 5_000)
    client.send(long)
    client.send("second")
    client.manual.settle()
    #expect(
      client.journal.take() == [
        .failed("send second", .limitExceeded(.sendQueue, size: 5_064 + 70, limit: 1_000))
      ])
    server.setWriteRoom(nil)
    #expect(try server.readMessage() == .text(long))
    client.send("third")
    #expect(try server.readMessage() == .text("third"))
  }

  @Test("8: no more than sixteen pings wait", arguments: Place.allCases)
  func pingLimit(place: Place) throws {
    let client = Client(place)
    let server = try client.open()
    for _ in 0..<18 { client.ping() }
    client.manual.settle()
    let full = Failure.limitExceeded(.pings, size: 17, limit: 16)
    #expect(client.journal.take() == [.failed("ping", full), .failed("ping", full)])
    var last: [UInt8] = []
    for _ in 0..<16 { last = try server.readFrame().payload }
    server.send(frame: Frame(.pong, last))
    client.manual.settle()
    #expect(client.journal.all == Array(repeating: .pong(after: .zero), count: 16))
  }

  @Test("8, R58: a peer that pings and reads nothing is owed one pong, the latest", arguments: Place.allCases)
  func pingFlood(place: Place) throws {
    let client = Client(place)
    let server = try client.open()
    server.setWriteRoom(0)
    client.send("x")
    for number in 0..<10_000 { server.send(frame: Frame(.ping, "\(number)".utf8)) }
    client.manual.settle()
    server.setWriteRoom(nil)
    #expect(try server.readMessage() == .text("x"))
    #expect(try server.readFrame() == Frame(.pong, "9999".utf8))
    #expect(server.unread == [])
  }

  @Test("8: a refusal's body is kept up to 64 KiB, a head without end fails", arguments: Place.allCases)
  func handshakeBounds(place: Place) throws {
    let client = Client(place)
    client.connect()
    let server = try client.manual.nextConnection()
    server.send(text: "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n" + String(repeating: "x", count: 1_000_000))
    client.manual.settle()
    let kept = client.journal.take().map { event -> Int? in
      if case .failed("connect", .handshakeRefused(let refusal)) = event { refusal.body.count } else { nil }
    }
    #expect(kept == [64 << 10])
    client.connect()
    let second = try client.manual.nextConnection()
    second.send(text: "HTTP/1.1 101 Switching Protocols\r\n")
    for _ in 0..<100 { second.send(text: "X: " + String(repeating: "a", count: 997)) }
    client.manual.settle()
    #expect(client.journal.take() == [.failed("connect", .handshakeFailed(.headTooLong(limit: 64 << 10)))])
    #expect(client.manual.everythingIsClosed)
  }

  @Test("8: no bytes trap, and every call is answered", arguments: Place.allCases)
  func garbage(place: Place) throws {
    for seed in 0..<150 as Range<UInt64> {
      let client = Client(place, manual: ManualEnvironment(seed: seed)) { $0.limits.maximumMessageBytes = 10_000 }
      let random = client.manual.environment.random
      client.connect()
      client.receive()
      client.ping()
      let server = try client.manual.nextConnection()
      if seed % 3 == 0 {
        server.send(text: "HTTP/1.1 101 \r\n")
      } else {
        try server.open()
      }
      for _ in 0..<8 {
        // Frames that begin well go further than chance alone.
        var bytes = random.bytes(Int(random.bytes(1)[0]))
        if seed % 3 == 1, bytes.count > 2 {
          (bytes[0], bytes[1]) = ([0x81, 0x82, 0x01, 0x89, 0x88][Int(bytes[0]) % 5], bytes[1] & 0x7F)
        }
        server.send(bytes)
      }
      server.finish()
      client.manual.advance(by: .seconds(60))
      client.handler = nil
      client.manual.advance(by: .seconds(60))
      #expect(client.journal.all.count == 3, "seed \(seed)")
      #expect(client.isGone, "seed \(seed)")
    }
  }

  // MARK: 9. No silent fallback to plain text

  @Test("9: a wss request never speaks in plain text", arguments: Place.allCases)
  func noPlainText(place: Place) {
    let client = Client(place)
    client.connect(Client.request("wss://chat.example/secret"))
    client.manual.advance(by: .seconds(60))
    #expect(client.journal.all.count == 1)
    #expect(!client.journal.all.contains(.ok("connect")))
    for connection in client.manual.connections {
      #expect(!String(decoding: connection.unread, as: UTF8.self).contains("secret"))
    }
    #expect(client.manual.everythingIsClosed)
  }

  // MARK: 10. The same bytes cut differently give the same result

  private static let frames: [Frame] = [
    .text("héllo"), Frame(.ping, "p".utf8), .text("frag", isFinal: false), Frame(.ping, "in between".utf8),
    Frame(.continuation, "ment".utf8, isFinal: false), Frame(.continuation, "ed ✓".utf8),
    Frame(.binary, [UInt8](repeating: 7, count: 300)), Frame(.pong, "unasked".utf8), .text(""), .close(4001, "fin"),
  ]

  /// Plays one connection whose server sends answer and frames in the given cuts; what the callbacks said, and what the
  /// client sent.
  private func play(_ place: Place, readBufferBytes: Int, cut: (Int) -> [Int]) throws -> ([Event], [Frame]) {
    let client = Client(place, manual: ManualEnvironment(readBufferBytes: readBufferBytes))
    client.connect()
    for _ in 0..<6 { client.receive() }
    let server = try client.manual.nextConnection()
    let bytes = try server.answer(to: server.readRequest()) + Self.frames.flatMap { $0.encoded() }
    var start = 0
    for end in cut(bytes.count) + [bytes.count] {
      server.send(Array(bytes[start..<end]))
      start = end
    }
    server.finish()
    client.manual.settle()
    var sent: [Frame] = []
    while let frame = try? server.readFrame() { sent.append(frame) }
    return (client.journal.all, sent)
  }

  private func expectSame(_ place: Place, _ found: ([Event], [Frame]), _ comment: Comment) {
    let record = closed(CloseCode(4001), by: .peer, reason: "fin")
    let events: [Event] = [
      .ok("connect"), .message(.text("héllo")), .message(.text("fragmented ✓")),
      .message(.binary(Data(repeating: 7, count: 300))), .message(.text("")), .failed("receive", record),
      .failed("receive", record),
    ]
    #expect(found.0 == events, comment)
    #expect(found.1 == [Frame(.pong, "p".utf8), Frame(.pong, "in between".utf8), .close(4001)], comment)
  }

  @Test("10, R01, R36: one cut at each place gives the same result", arguments: Place.allCases)
  func oneCut(place: Place) throws {
    var length = 0
    expectSame(
      place,
      try play(place, readBufferBytes: 64 << 10) { count in
        length = count
        return []
      }, "no cut")
    for offset in 1..<length {
      expectSame(place, try play(place, readBufferBytes: 64 << 10) { _ in [offset] }, "cut at \(offset)")
    }
  }

  @Test("10, R15: bytes one by one give the same result, and so do small reads", arguments: Place.allCases)
  func smallPieces(place: Place) throws {
    for size in [1, 2, 3, 5, 7, 11, 100] {
      expectSame(
        place, try play(place, readBufferBytes: 64 << 10) { Array(stride(from: size, to: $0, by: size)) },
        "pieces of \(size)")
      expectSame(place, try play(place, readBufferBytes: size) { _ in [] }, "reads of \(size)")
    }
  }
}
