import Foundation
import Testing
import WebSocketCore
import WebSocketHandling
import WebSocketTesting
import TestSupport

@Suite("Closing over TCP (RFC 6455 §7)", .timeLimit(.minutes(5)))
struct ClosingTests {
  @Test(
    "R61, R63: the peer's code reaches the application", arguments: [1000, 1001, 1012, 1014, 3000, 4999] as [UInt16])
  func peerCode(code: UInt16) async throws {
    let server = try ScriptedServer { connection in
      try connection.open(with: Frame.text("last").encoded() + Frame.close(code, "bye").encoded())
      #expect(try connection.readFrame() == Frame(.close, [UInt8(code >> 8), UInt8(code & 255)]))
    }
    let handler = makeHandler()
    try await handler.connect(request: request(server))
    #expect(try await handler.receive(WebSocketMessage.self) == .text("last"))
    let record = CloseRecord(
      code: CloseCode(code), reason: "bye", initiator: .peer, isClean: true, transportEnd: .finished)
    for _ in 0..<2 {
      let error = await failure { () throws(Failure) in _ = try await handler.receive(WebSocketMessage.self) }
      #expect(error == .closed(record))
    }
    #expect(server.failures == [])
  }

  @Test func `R64: TCP closed without Close ends as 1006`() async throws {
    let server = try ScriptedServer { connection in try connection.open() }
    let handler = makeHandler()
    try await handler.connect(request: request(server))
    let error = await failure { () throws(Failure) in _ = try await handler.receive(WebSocketMessage.self) }
    #expect(
      error
        == .closed(CloseRecord(code: .abnormalClosure, initiator: .peer, isClean: false, transportEnd: .finished)))
  }

  @Test func `R65: a peer that never answers Close ends in the close time-out`() async throws {
    let server = try ScriptedServer { connection in
      try connection.open()
      connection.waitForEnd()
    }
    let handler = makeHandler()
    try await handler.connect(request: request(server) { $0.closeTimeout = .milliseconds(100) })
    let error = await failure { () throws(Failure) in try await handler.disconnect() }
    #expect(error == .timedOut(.close))
  }

  @Test(
    "R39, R40, R47, R48, R76, R78: a violation is answered by its Close",
    arguments: [
      ([0x81, 0x82, 1, 2, 3, 4, 5, 6], 1002), ([0xC1, 0x00], 1002), ([0x83, 0x00], 1002), ([0x09, 0x00], 1002),
      ([0x82, 0x7E, 0x00, 0x05], 1002), ([0x81, 0x02, 0xC3, 0x28], 1007), ([0x88, 0x02, 0x00, 0x00], 1002),
      ([0x88, 0x03, 0x03, 0xE8, 0xFF], 1007), ([0x82, 0x7F, 0x80, 0, 0, 0, 0, 0, 0, 0], 1002),
      ([0x82, 0x7F, 0x7F, 255, 255, 255, 255, 255, 255, 255], 1009),
    ] as [([UInt8], UInt16)])
  func violation(bytes: [UInt8], code: UInt16) async throws {
    let seen = SharedList<[UInt8]>()
    let server = try ScriptedServer { connection in
      try connection.open(with: bytes)
      seen.append(Array(try connection.readFrame().payload.prefix(2)))
    }
    let handler = makeHandler()
    try await handler.connect(request: request(server))
    let error = await failure { () throws(Failure) in _ = try await handler.receive(WebSocketMessage.self) }
    guard case .closed(let record) = error else {
      Issue.record("expected an end, got \(String(describing: error))")
      return
    }
    #expect(record.code == CloseCode(code))
    #expect(record.violation?.closeCode == CloseCode(code))
    #expect(!record.isClean)
    #expect(seen.all == [[UInt8(code >> 8), UInt8(code & 255)]])
  }

  @Test func `R68: a second connect fails, the first is unaffected, and connect works again after the end`()
    async throws
  {
    let server = try ScriptedServer { connection in
      try connection.open()
      let frame = try connection.readFrame()
      try connection.send(frame.encoded())
    }
    let handler = makeHandler()
    for _ in 0..<50 {
      try await handler.connect(request: request(server))
      let error = await failure { () throws(Failure) in try await handler.connect(request: request(server)) }
      #expect(error == .connectionFailed("WebSocket is already connected"))
      try await handler.disconnect()
    }
    let error = await failure { () throws(Failure) in try await handler.disconnect() }
    #expect(error == .connectionFailed("WebSocket is not connected"))
    #expect(server.failures == [])
  }

  @Test func `without a connection the article's texts come back`() async {
    let handler = makeHandler()
    #expect(
      await failure { () throws(Failure) in try await handler.send(message: "x") }
        == .messageSendFailed("WebSocket is not connected"))
    #expect(
      await failure { () throws(Failure) in _ = try await handler.receive(String.self) }
        == .messageReceiveFailed("WebSocket is not connected"))
  }

  @Test func `releasing the last reference closes with 1001 and cancels what waits`() async throws {
    let (frames, feed) = AsyncStream.makeStream(of: Frame.self)
    let server = try ScriptedServer { connection in
      defer { feed.finish() }
      try connection.open()
      feed.yield(try connection.readFrame())
    }
    var handler: DefaultWebSocketHandler? = makeHandler()
    try await handler?.connect(request: request(server))
    let result: Failure? = await withCheckedContinuation { continuation in
      handler?.receive { (result: Result<WebSocketMessage, Failure>) in continuation.resume(returning: result.failure) }
      handler = nil
    }
    #expect(result == .cancelled)
    var seen: [Frame] = []
    for await frame in frames { seen.append(frame) }
    #expect(seen == [.close(1001)])
  }

  @Test(
    "a message is answered before the Close that its batch ends in",
    arguments: [
      ([0x83, 0x00], Frame(.close, [0x03, 0xEA] + "opcode 3 is reserved".utf8)),
      (Frame.close(1000).encoded(), .close(1000)),
    ])
  func answerBeforeClose(end: [UInt8], close: Frame) async throws {
    let (frames, feed) = AsyncStream.makeStream(of: Frame.self)
    let server = try ScriptedServer { connection in
      defer { feed.finish() }
      try connection.open()
      _ = try connection.readFrame()
      try connection.send(Frame.text("hello").encoded() + end)
      feed.yield(try connection.readFrame())
      feed.yield(try connection.readFrame())
    }
    let handler = makeHandler { $0.callbacks = .eventLoop }
    handler.onMessage { [weak handler] message in handler?.send(message) }
    try await handler.connect(request: request(server))
    try await handler.send(message: WebSocketMessage.text("go"))
    var seen: [Frame] = []
    for await frame in frames { seen.append(frame) }
    #expect(seen == [.text("hello"), close])
  }
}
