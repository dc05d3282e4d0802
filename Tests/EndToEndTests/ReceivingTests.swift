import Foundation
import Testing
import WebSocketCore
import WebSocketHandling
import WebSocketTesting
import TestSupport

@Suite("Receiving over TCP (RFC 6455 §5)", .timeLimit(.minutes(5)))
struct ReceivingTests {
  /// Around the lengths at which a header changes its form (§5.2), and around a round number of reads.
  static let lengths =
    [0, 1] + Array(124...128) + Array(65_534...65_537) + Array((1 << 20) - 1...(1 << 20) + 1)
  /// A binary and a text frame of each length.
  static let frames = lengths.flatMap { [Frame(.binary, pattern($0)), Frame(.text, ascii($0))] }

  @Test("R49: each length arrives exactly and leaves exactly", arguments: Cut.all)
  func lengths(cut: Cut) async throws {
    let server = try ScriptedServer { connection in
      try connection.open()
      for frame in Self.frames {
        try connection.send(frame.encoded(), cut)
        #expect(try connection.readFrame() == frame)
      }
      try connection.echo()
    }
    let handler = makeHandler()
    try await handler.connect(request: request(server))
    for frame in Self.frames {
      let message = try await handler.receive(WebSocketMessage.self)
      #expect(message.data == Data(frame.payload))
      #expect(message.kind.opcode == frame.opcode)
      try await handler.send(message: message)
    }
    try await handler.disconnect()
    #expect(server.failures == [])
  }

  @Test("R36: a message is one message, however TCP cuts it", arguments: Cut.all)
  func oneMessage(cut: Cut) async throws {
    let text = String(repeating: "twenty thousand bytes, é and 😀. ", count: 556)
    let bytes = Array(text.utf8)
    let whole = Frame(.text, bytes).encoded()
    let fragments = [
      Frame(.text, bytes[..<7], isFinal: false), Frame(.continuation, bytes[7..<9001], isFinal: false),
      Frame(.continuation, bytes[9001...]),
    ]
    let play = try await Play.of(whole + fragments.flatMap { $0.encoded() } + Frame.close(1000).encoded(), cut: cut)
    #expect(
      play
        == Play(messages: [.text(text), .text(text)], end: .closedByPeer(.normalClosure), answers: [.close(1000)]))
  }

  @Test("R36: a message arrives whole from writes of any size", arguments: [1, 2, 3, 125, 1000, 4096])
  func writesOfAnySize(piece: Int) async throws {
    let text = String(repeating: "x", count: 20_000)
    let server = try ScriptedServer { connection in
      try connection.open()
      try connection.send(Frame.text(text).encoded(), piece: piece)
      try connection.echo()
    }
    let handler = makeHandler()
    try await handler.connect(request: request(server))
    #expect(try await handler.receive(WebSocketMessage.self) == .text(text))
    try await handler.disconnect()
    #expect(server.failures == [])
  }

  @Test("R37, R44: fragments, empty ones too, and scalars across them", arguments: Cut.all)
  func fragments(cut: Cut) async throws {
    let frames: [Frame] = [
      Frame(.text, [0xF0, 0x9F], isFinal: false), Frame(.continuation, [0x98, 0x80]),
      Frame(.text), Frame(.binary),
      Frame(.text, isFinal: false), Frame(.continuation),
      Frame(.binary, isFinal: false), Frame(.continuation, [7], isFinal: false), Frame(.continuation),
      .close(1000),
    ]
    #expect(
      try await Play.of(frames.flatMap { $0.encoded() }, cut: cut)
        == Play(
          messages: [.text("😀"), .text(""), .binary(Data()), .text(""), .binary(Data([7]))],
          end: .closedByPeer(.normalClosure), answers: [.close(1000)]))
  }

  @Test("R38: control frames between fragments are answered, and the message is unchanged", arguments: Cut.all)
  func controlBetweenFragments(cut: Cut) async throws {
    let frames: [Frame] = [
      .text("a", isFinal: false), Frame(.ping, [1, 2]), Frame(.continuation, "b".utf8, isFinal: false), Frame(.pong),
      Frame(.continuation, "c".utf8), .close(1000),
    ]
    #expect(
      try await Play.of(frames.flatMap { $0.encoded() }, cut: cut)
        == Play(
          messages: [.text("abc")], controls: [.ping([1, 2]), .pong([], roundTrip: nil)],
          end: .closedByPeer(.normalClosure), answers: [Frame(.pong, [1, 2]), .close(1000)]))
  }

  @Test("R41, R42, R52: what passes a limit fails the connection with 1009, what meets it does not", arguments: Cut.all)
  func limits(cut: Cut) async throws {
    let limits = ConnectionLimits(maximumMessageBytes: 1024, maximumFrameBytes: 1000, maximumFragments: 3)
    let message = Frame(.binary, pattern(1000), isFinal: false).encoded()
    let fits = message + Frame(.continuation, pattern(24)).encoded()
    let cases: [(bytes: [UInt8], violation: ProtocolViolation)] = [
      (message + Frame(.continuation, pattern(25)).encoded(), .messageTooBig(bytes: 1025, limit: 1024)),
      (Frame(.text, ascii(1001)).encoded(), .frameTooBig(bytes: 1001, limit: 1000)),
      ([0x82, 0x7F, 0x40, 0, 0, 0, 0, 0, 0, 0], .frameTooBig(bytes: 1 << 62, limit: 1000)),
      ([0x82, 0x7F, 0x80, 0, 0, 0, 0, 0, 0, 0], .lengthTooLarge(1 << 63)),
      ([0x82, 0x7F] + [UInt8](repeating: 255, count: 8), .lengthTooLarge(.max)),
      ([0x01, 0, 0, 0, 0, 0, 0, 0], .tooManyFragments(limit: 3)),
    ]
    for (bytes, violation) in cases {
      let play = try await Play.of(fits + bytes, cut: cut, limits: limits)
      #expect(
        play
          == Play(
            messages: [.binary(Data(pattern(1000) + pattern(24)))], end: .violated(violation),
            answers: [.close(for: violation)]))
    }
  }

  @Test("R52: one byte above the message limit, in one frame", arguments: [1023, 1024, 1025, 1026])
  func messageLimit(length: Int) async throws {
    let limits = ConnectionLimits(maximumMessageBytes: 1024)
    let play = try await Play.of(Frame(.text, ascii(length)).encoded() + Frame.close(1000).encoded(), limits: limits)
    if length <= 1024 {
      #expect(
        play
          == Play(
            messages: [.text(String(decoding: ascii(length), as: UTF8.self))], end: .closedByPeer(.normalClosure),
            answers: [.close(1000)]))
    } else {
      let violation = ProtocolViolation.messageTooBig(bytes: length, limit: 1024)
      #expect(play == Play(end: .violated(violation), answers: [.close(for: violation)]))
      let text = "\(Failure.violated(violation))"
      #expect(text.contains("\(length)") && text.contains("1024"))
    }
  }

  @Test func `R52: a message above the limit is not sent, and the connection goes on`() async throws {
    let server = try ScriptedServer { connection in
      try connection.open()
      try connection.echo()
    }
    let handler = makeHandler { $0.limits.maximumMessageBytes = 1024 }
    try await handler.connect(request: request(server))
    let tooLong = WebSocketMessage.binary(Data(pattern(1025)))
    #expect(
      await failure { () throws(Failure) in try await handler.send(message: tooLong) }
        == .limitExceeded(.message, size: 1025, limit: 1024))
    let fits = WebSocketMessage.binary(Data(pattern(1024)))
    try await handler.send(message: fits)
    #expect(try await handler.receive(WebSocketMessage.self) == fits)
    try await handler.disconnect()
    #expect(server.failures == [])
  }

  @Test func `R56: only the pong with a ping's payload answers it, and those before it`() async throws {
    let server = try ScriptedServer { connection in
      try connection.open()
      let first = try connection.readFrame()
      let second = try connection.readFrame()
      #expect([first.opcode, second.opcode] == [.ping, .ping])
      let unasked = [Frame(.pong), Frame(.pong, [1, 2, 3]), Frame(.pong, first.payload + [0]), .text("unasked")]
      let pong = Frame(.pong, second.payload)
      let answers = unasked + [pong, pong, Frame(.pong, first.payload), .text("answered")]
      try connection.send(answers.flatMap { $0.encoded() })
      try connection.echo()
    }
    let order = SharedList<String>()
    let handler = makeHandler()
    try await handler.connect(request: request(server))
    let (received, feed) = AsyncStream.makeStream(of: Void.self)
    // They wait before the pings go out, so that each answer is told when it comes.
    for _ in 1...2 {
      handler.receive { (result: Result<WebSocketMessage, Failure>) in
        order.append("\(result)")
        feed.yield()
      }
    }
    for number in 1...2 {
      handler.ping { result in order.append("ping \(number)" + (result.failure.map { ": \($0)" } ?? "")) }
    }
    var iterator = received.makeAsyncIterator()
    for _ in 1...2 { await iterator.next() }
    let message = { (text: String) in "\(Result<WebSocketMessage, Failure>.success(.text(text)))" }
    #expect(order.all == [message("unasked"), "ping 1", "ping 2", message("answered")])
    try await handler.disconnect()
    #expect(server.failures == [])
  }

  @Test("R58: a pong carries its ping's bytes", arguments: Cut.all)
  func pong(cut: Cut) async throws {
    var generator = SeededGenerator(seed: 58)
    let payloads = [0, 1, 2, 124, 125].map { length in
      (0..<length).map { _ in UInt8.random(in: 0...255, using: &generator) }
    }
    let heard = SharedList<ControlFrameEvent>()
    let server = try ScriptedServer { connection in
      try connection.open()
      for payload in payloads {
        try connection.send(Frame(.ping, payload).encoded(), cut)
        #expect(try connection.readFrame() == Frame(.pong, payload))
      }
      try connection.send(Frame.close(1000).encoded(), cut)
      #expect(try connection.readFrame() == .close(1000))
    }
    let handler = makeHandler { $0.onControlFrame = { heard.append($0) } }
    try await handler.connect(request: request(server))
    let end = await failure { () throws(Failure) in _ = try await handler.receive(WebSocketMessage.self) }
    #expect(end == .closedByPeer(.normalClosure))
    #expect(heard.all == payloads.map { .ping($0) })
    #expect(server.failures == [])
  }

  @Test(
    "R60: the most talkative logger changes nothing",
    arguments: [
      Frame(.text, [0xF0, 0x9F], isFinal: false).encoded() + Frame(.continuation, [0x41]).encoded(),
      Frame(.text, [0xC3, 0x28]).encoded(), Frame(.text, [0xED, 0xA0, 0x80]).encoded(),
      Frame(.binary, [0xFF, 0xFE, 0x00]).encoded() + Frame(.ping, [0xC3]).encoded() + Frame.close(1000).encoded(),
      Frame(.close, [0x03, 0xE8, 0xFF]).encoded(), Frame(.close, [0x03]).encoded(), Frame(.pong, [0x80]).encoded(),
      [0x83, 0x00], [0xC1, 0x00], [0x82, 0x7F], [],
    ] as [[UInt8]])
  func logging(bytes: [UInt8]) async throws {
    let silent = try await Play.of(bytes)
    let logger = RecordingLogger()
    #expect(try await Play.of(bytes, logger: logger) == silent)
    #expect(try await Play.of(bytes, cut: .singleBytes, logger: logger) == silent)
    #expect(logger.texts(.info).contains("WebSocket connected"))
  }
}

/// Bytes without a short period.
func pattern(_ count: Int) -> [UInt8] { (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ $0 >> 8) } }

/// Letters without a short period.
func ascii(_ count: Int) -> [UInt8] { (0..<count).map { UInt8(97 + ($0 &* 7 &+ $0 >> 8) % 26) } }
