import Foundation
import Testing
import WebSocketCore
import WebSocketHandling
import WebSocketTesting
import WebSocketTransport
import TestSupport

@Suite("Sending over TCP (RFC 6455 §5.3, §6.1)", .timeLimit(.minutes(5)))
struct SendingTests {
  @Test func `R53: every frame of the client's is masked with a fresh key`() async throws {
    let seen = SharedList<(frame: Frame, key: MaskingKey)>()
    let server = try ScriptedServer { connection in
      try connection.open()
      for _ in 0..<3 { seen.append(try connection.readMaskedFrame()) }
      let ping = seen.all[2].frame
      try connection.send(Frame(.pong, ping.payload).encoded() + Frame(.ping).encoded())
      for _ in 0..<2 { seen.append(try connection.readMaskedFrame()) }
      try connection.send(Frame.close(1000).encoded())
    }
    let handler = makeHandler()
    try await handler.connect(request: request(server))
    try await handler.send(message: WebSocketMessage.text("a"))
    try await handler.send(message: WebSocketMessage.text(""))
    _ = try await handler.ping()
    try await handler.disconnect()
    let frames = seen.all.map(\.frame)
    #expect(frames.map(\.opcode) == [.text, .text, .ping, .pong, .close])
    #expect(frames.map(\.payload) == [[97], [], frames[2].payload, [], [0x03, 0xE8]])
    #expect(Set(seen.all.map(\.key)).count == 5)
    #expect(server.failures == [])
  }

  @Test func `R53: the Close after a violation is masked too`() async throws {
    let (frames, feed) = AsyncStream.makeStream(of: Frame.self)
    let server = try ScriptedServer { connection in
      defer { feed.finish() }
      try connection.open(with: [0x83, 0x00])
      feed.yield(try connection.readMaskedFrame().frame)
    }
    let handler = makeHandler()
    try await handler.connect(request: request(server))
    var seen: [Frame] = []
    for await frame in frames { seen.append(frame) }
    #expect(seen == [.close(for: .reservedOpcode(3))])
    #expect(server.failures == [])
  }

  @Test func `R54: masking keys are spread over all values`() async throws {
    let count = 1000
    let (keys, feed) = AsyncStream.makeStream(of: MaskingKey.self)
    let server = try ScriptedServer { connection in
      defer { feed.finish() }
      try connection.open()
      for _ in 0..<count { feed.yield(try connection.readMaskedFrame().key) }
      feed.finish()
      try connection.echo()
    }
    let handler = makeHandler()
    try await handler.connect(request: request(server))
    for _ in 0..<count { handler.send(.text("")) }
    var seen: [MaskingKey] = []
    for await key in keys { seen.append(key) }
    try await handler.disconnect()
    #expect(seen.count == count)
    // Two of 1000 random keys are equal once in 8,000 runs, two pairs of them less than once in 100 million.
    #expect(Set(seen).count >= count - 1)
    for octet in [\MaskingKey.octets.0, \.octets.1, \.octets.2, \.octets.3] {
      let uses = Dictionary(grouping: seen, by: { $0[keyPath: octet] }).mapValues(\.count)
      #expect(uses.count > 200, "an octet of the key takes \(uses.count) values only")
      #expect((uses.values.max() ?? 0) < 40)
    }
  }

  @Test func `R54: handshake keys are 16 random bytes`() async throws {
    let keys = SharedList<[UInt8]>()
    let server = try ScriptedServer { connection in
      let request = try connection.readRequest()
      let field = "Sec-WebSocket-Key: "
      let line = request.components(separatedBy: "\r\n").first { $0.hasPrefix(field) }
      keys.append(Array(Data(base64Encoded: String((line ?? "").dropFirst(field.count))) ?? Data()))
      try connection.send(connection.answer(to: request))
      try connection.echo()
    }
    for _ in 0..<100 {
      let handler = makeHandler()
      try await handler.connect(request: request(server))
      try await handler.disconnect()
    }
    #expect(keys.all.map(\.count) == Array(repeating: 16, count: 100))
    #expect(Set(keys.all).count == 100)
    #expect(Set(keys.all.joined()).count > 200)
    #expect(server.failures == [])
  }

  @Test func `R69: a reset answers every send and ping that waits, once`() async throws {
    let mayReset = DispatchSemaphore(value: 0)
    defer { mayReset.signal() }
    let server = try ScriptedServer { connection in
      try connection.open()
      mayReset.wait()
      connection.reset()
    }
    let handler = makeHandler { $0.sendQueueLimit = 64 << 20 }
    try await handler.connect(request: request(server))
    let results = SharedList<(call: Int, failure: Failure?)>()
    let (answered, feed) = AsyncStream.makeStream(of: Void.self)
    // More than the kernel's buffers hold on the way to a peer that does not read.
    let message = WebSocketMessage.binary(Data(count: 512 << 10))
    let calls = 101
    for call in 0..<calls - 1 {
      handler.send(message: message) {
        results.append((call, $0.failure))
        feed.yield()
      }
    }
    handler.ping {
      results.append((calls - 1, $0.failure))
      feed.yield()
    }
    mayReset.signal()
    var waiting = answered.makeAsyncIterator()
    for _ in 0..<calls { await waiting.next() }
    // Callbacks are in order: what would be answered twice would be answered before this.
    let end = await failure { () throws(Failure) in try await handler.disconnect() }
    #expect(end == .connectionFailed("WebSocket is not connected"))
    #expect(results.all.map(\.call).sorted() == Array(0..<calls))
    let failures = results.all.compactMap(\.failure)
    let record = CloseRecord(code: .abnormalClosure, initiator: .peer, isClean: false, transportEnd: .reset)
    #expect(!failures.isEmpty)
    #expect(Set(failures) == [.closed(record)])
    #expect(results.all.last { $0.call == calls - 1 }?.failure != nil)
  }

  @Test func `R119: 100,000 messages are sent and answered in the order of the calls`() async throws {
    let count = 100_000
    let server = try ScriptedServer { connection in
      try connection.open()
      for number in 0..<count {
        let frame = try connection.readFrame()
        guard frame == .text("\(number)") else { throw ScriptFailure.io("\(frame) where \(number) was expected") }
      }
      try connection.echo()
    }
    let handler = makeHandler()
    try await handler.connect(request: request(server))
    let answers = SharedList<Int>()
    await withCheckedContinuation { continuation in
      for number in 0..<count {
        handler.send(message: WebSocketMessage.text("\(number)")) { result in
          answers.append(result.failure == nil ? number : -1)
          if number == count - 1 { continuation.resume() }
        }
      }
    }
    #expect(answers.all == Array(0..<count))
    try await handler.disconnect()
    #expect(server.failures == [])
  }

  @Test func `R119: 100,000 messages are received in the order of the wire, one for each receive`() async throws {
    let count = 100_000
    let server = try ScriptedServer { connection in
      try connection.open()
      try connection.send((0..<count).flatMap { Frame.text("\($0)").encoded() })
      try connection.echo()
    }
    let handler = makeHandler()
    try await handler.connect(request: request(server))
    let received = SharedList<Int>()
    @Sendable func receive(_ done: @escaping @Sendable () -> Void) {
      handler.receive { (result: Result<WebSocketMessage, Failure>) in
        guard case .success(.text(let text)) = result, let number = Int(text) else { return done() }
        received.append(number)
        if number == count - 1 { done() } else { receive(done) }
      }
    }
    await withCheckedContinuation { continuation in receive { continuation.resume() } }
    #expect(received.all == Array(0..<count))
    try await handler.disconnect()
    #expect(server.failures == [])
  }

  @Test func `R121: short writes lose and repeat nothing`() async throws {
    let long = pattern(10_000_000)
    let server = try ScriptedServer { connection in
      try connection.open()
      try connection.echo()
    }
    var environment = Environment.system
    environment.dialer = TricklingDialer()
    let handler = makeHandler(environment: environment) { $0.sendQueueLimit = 32 << 20 }
    try await handler.connect(request: request(server))
    let messages: [WebSocketMessage] = [
      .text("before"), .binary(Data(long)), .text("between"), .binary(Data(long.reversed())), .text("after"),
    ]
    for message in messages { handler.send(message) }
    for message in messages {
      let received = try await handler.receive(WebSocketMessage.self)
      #expect(received == message)
    }
    try await handler.disconnect()
    #expect(server.failures == [])
  }

  @Test("R122: sends to a peer that is gone fail, and no signal ends the process", arguments: [true, false])
  func peerIsGone(isReset: Bool) async throws {
    let server = try ScriptedServer { connection in
      try connection.open()
      if isReset { connection.reset() }
    }
    for _ in 0..<20 {
      let handler = makeHandler { $0.callbacks = .eventLoop }
      try await handler.connect(request: request(server))
      var end: Failure?
      while end == nil {
        end = await failure { () throws(Failure) in try await handler.send(message: WebSocketMessage.text("hello?")) }
      }
      guard case .closed(let record) = end else {
        Issue.record("expected an end, got \(String(describing: end))")
        return
      }
      #expect(record.code == .abnormalClosure && !record.isClean)
    }
  }
}

/// Connects over TCP and then lets only a little through at a time, now and then nothing.
private struct TricklingDialer: Dialer {
  func dial(
    _ addresses: [SocketAddress], on loop: any EventLoop,
    completion: @escaping @Sendable (Result<any Transport, TransportError>) -> Void
  ) -> any DialAttempt {
    TCPDialer().dial(addresses, on: loop) { result in
      completion(result.map { TricklingTransport($0, loop: loop) })
    }
  }
}

/// Writes 1 to 8192 bytes at a time, and every fifth time none.
private final class TricklingTransport: Transport {
  private let base: any Transport
  private let loop: any EventLoop
  private let generator = Lock(SeededGenerator(seed: 121))
  private let handler = Lock<(any TransportHandler)?>(nil)

  init(_ base: any Transport, loop: any EventLoop) {
    self.base = base
    self.loop = loop
  }

  func start(_ handler: any TransportHandler) throws(TransportError) {
    self.handler.withLock { $0 = handler }
    try base.start(Readiness(transport: self, handler: handler))
  }

  func read(into buffer: UnsafeMutableRawBufferPointer) -> ReadOutcome { base.read(into: buffer) }

  var peerHasFinished: Bool { base.peerHasFinished }

  var failure: TransportEnd? { base.failure }

  func write(_ bytes: UnsafeRawBufferPointer) -> WriteOutcome {
    let (room, isBlocked) = generator.withLock {
      (Int.random(in: 1...8192, using: &$0), Int.random(in: 1...5, using: &$0) == 1)
    }
    guard isBlocked else { return base.write(UnsafeRawBufferPointer(rebasing: bytes.prefix(room))) }
    loop.execute { [self] in
      handler.withLock { $0 }?.transportIsReady(self, readable: false, writable: true)
    }
    return .wouldBlock
  }

  func finishWriting() { base.finishWriting() }

  func close() {
    base.close()
    handler.withLock { $0 = nil }
  }

  /// Passes the news on in this transport's name.
  private final class Readiness: TransportHandler {
    private let transport: TricklingTransport
    private let handler: any TransportHandler

    init(transport: TricklingTransport, handler: any TransportHandler) {
      self.transport = transport
      self.handler = handler
    }

    func transportIsReady(_ transport: any Transport, readable: Bool, writable: Bool) {
      handler.transportIsReady(self.transport, readable: readable, writable: writable)
    }
  }
}
