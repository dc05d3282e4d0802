import Foundation
import Testing
import WebSocketCore
import WebSocketHandling
import WebSocketTesting
import TestSupport

@Suite("Life cycle over TCP", .timeLimit(.minutes(5)))
struct LifeCycleTests {
  @Test func `R02: a message that arrives before its receive is kept`() async throws {
    let (pongs, feed) = AsyncStream.makeStream(of: Frame.self)
    let server = try ScriptedServer { connection in
      defer { feed.finish() }
      try connection.open(with: Frame.text("hi").encoded() + Frame(.ping, [1]).encoded())
      feed.yield(try connection.readFrame())
      try connection.echo()
    }
    let handler = makeHandler()
    try await handler.connect(request: request(server))
    // The pong tells that the message before its ping was read.
    var iterator = pongs.makeAsyncIterator()
    #expect(await iterator.next() == Frame(.pong, [1]))
    #expect(try await handler.receive(WebSocketMessage.self) == .text("hi"))
    try await handler.disconnect()
    #expect(server.failures == [])
  }

  @Test("R46: a disconnect inside a receive delivers no message twice", arguments: [true, false])
  func disconnectInsideReceive(stands: Bool) async throws {
    let server = try ScriptedServer { connection in
      try connection.open()
      _ = try connection.readFrame()
      try connection.send(["1", "2", "3"].flatMap { Frame.text($0).encoded() })
      try connection.echo()
    }
    let handler = makeHandler()
    try await handler.connect(request: request(server))
    let received = SharedList<String>()
    let (ends, feed) = AsyncStream.makeStream(of: Failure?.self)
    @Sendable func take(_ text: String?) {
      received.append(text ?? "none")
      if received.all.count == 1 { handler.disconnect { feed.yield($0.failure) } }
    }
    @Sendable func receive() {
      handler.receive { (result: Result<WebSocketMessage, Failure>) in
        guard case .success(let message) = result else { return }
        take(String(decoding: message.data, as: UTF8.self))
        receive()
      }
    }
    if stands { handler.onMessage { take($0.text) } } else { receive() }
    handler.send(.text("go"))
    var iterator = ends.makeAsyncIterator()
    let end = await iterator.next()
    #expect(end == .some(nil))
    #expect(!received.all.isEmpty)
    #expect(received.all == Array(["1", "2", "3"].prefix(received.all.count)))
    #expect(server.failures == [])
  }

  @Test(
    "R66: the peer's Close is answered at once, and its end of TCP is not waited for long", arguments: [1001, 4000])
  func closeIsAnswered(code: UInt16) async throws {
    let (frames, feed) = AsyncStream.makeStream(of: Frame.self)
    let server = try ScriptedServer { connection in
      defer { feed.finish() }
      try connection.open(with: Frame.close(code).encoded())
      feed.yield(try connection.readFrame())
      connection.waitForEnd()
    }
    let handler = makeHandler()
    try await handler.connect(request: request(server) { $0.closeTimeout = .milliseconds(100) })
    let error = await failure { () throws(Failure) in _ = try await handler.receive(WebSocketMessage.self) }
    #expect(
      error
        == .closed(CloseRecord(code: CloseCode(code), initiator: .peer, isClean: true, transportEnd: .timedOut)))
    var seen: [Frame] = []
    for await frame in frames { seen.append(frame) }
    #expect(seen == [.close(code)])
    #expect(server.failures == [])
  }

  /// A completion to call `disconnect` from.
  enum Place: String, CaseIterable {
    case connect, send, receive, ping, control, disconnect
  }

  @Test("R71: disconnect may be called twice from inside any callback", arguments: Place.allCases, [true, false])
  func disconnectInside(chosen: Place, inline: Bool) async throws {
    let server = try ScriptedServer { connection in
      try connection.open(with: Frame(.ping).encoded())
      try connection.echo()
    }
    let calls = SharedList<Place>()
    let (answered, feed) = AsyncStream.makeStream(of: Void.self)
    let kept = SharedList<DefaultWebSocketHandler>()
    @Sendable func enter(_ place: Place) {
      let isFirst = !calls.all.contains(place)
      calls.append(place)
      if place == chosen, isFirst {
        for handler in kept.all {
          for _ in 0..<2 { handler.disconnect { _ in enter(.disconnect) } }
        }
      }
      feed.yield()
    }
    let handler = makeHandler {
      $0.onControlFrame = { if case .ping = $0 { enter(.control) } }
      if inline { $0.callbacks = .eventLoop }
    }
    kept.append(handler)
    handler.connect(request: request(server)) { _ in enter(.connect) }
    handler.send(message: WebSocketMessage.text("a")) { _ in enter(.send) }
    handler.receive { (_: Result<WebSocketMessage, Failure>) in enter(.receive) }
    handler.ping { _ in enter(.ping) }
    var expected: [Place] = [.connect, .send, .receive, .ping, .disconnect, .disconnect]
    if chosen == .control { expected.append(.control) }
    if chosen == .disconnect {
      handler.disconnect { _ in enter(.disconnect) }
      expected.append(.disconnect)
    }
    var iterator = answered.makeAsyncIterator()
    while calls.all.filter({ $0 != .control || chosen == .control }).count < expected.count {
      await iterator.next()
    }
    // Callbacks are in order: what would be answered twice would be answered before this.
    _ = await failure { () throws(Failure) in try await handler.disconnect() }
    let counted = calls.all.filter { $0 != .control || chosen == .control }
    #expect(counted.map(\.rawValue).sorted() == expected.map(\.rawValue).sorted())
    handler.onMessage(nil)
  }

  struct Note: Codable, Hashable, Sendable {
    var text: String
    var number: Int
  }

  @Test func `R123: connect completes on the 101 of a server that says nothing more`() async throws {
    let server = try ScriptedServer { connection in
      try connection.open()
      try connection.echo()
    }
    let handler = makeHandler()
    try await handler.connect(request: request(server))
    try await handler.disconnect()
    #expect(server.failures == [])
  }

  @Test("R123: JSON goes out as text or as binary, and is decoded from both", arguments: [true, false])
  func coding(asText: Bool) async throws {
    let (opcodes, feed) = AsyncStream.makeStream(of: Opcode.self)
    let server = try ScriptedServer { connection in
      defer { feed.finish() }
      try connection.open()
      let frame = try connection.readFrame()
      feed.yield(frame.opcode)
      for opcode in [Opcode.text, .binary] { try connection.send(Frame(opcode, frame.payload).encoded()) }
      try connection.echo()
    }
    let note = Note(text: "é", number: 7)
    let handler = makeHandler { $0.sendsJSONAsText = asText }
    try await handler.connect(request: request(server))
    try await handler.send(message: note)
    for _ in 0..<2 { #expect(try await handler.receive(Note.self) == note) }
    try await handler.disconnect()
    var seen: [Opcode] = []
    for await opcode in opcodes { seen.append(opcode) }
    #expect(seen == [asText ? .text : .binary])
  }

  @Test func `R123: what cannot be decoded or encoded keeps its cause, and the connection goes on`() async throws {
    let server = try ScriptedServer { connection in
      try connection.open(with: Frame.text("[1]").encoded())
      try connection.echo()
    }
    let handler = makeHandler()
    try await handler.connect(request: request(server))
    let received = await failure { () throws(Failure) in _ = try await handler.receive(Note.self) }
    guard case .undecodable(.text("[1]"), let reason, "DecodingError") = received else {
      Issue.record("expected an undecodable message, got \(String(describing: received))")
      return
    }
    #expect(!reason.isEmpty)
    let sent = await failure { () throws(Failure) in try await handler.send(message: Double.infinity) }
    guard case .unencodable(_, "EncodingError") = sent else {
      Issue.record("expected an unencodable message, got \(String(describing: sent))")
      return
    }
    try await handler.send(message: "still here")
    #expect(try await handler.receive(String.self) == "still here")
    try await handler.disconnect()
  }
}
