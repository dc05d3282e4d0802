import Foundation
import Testing
import WebSocketCore
import WebSocketHandling
import WebSocketTesting
import WebSocketTransport
import TestSupport

/// Work is measured as the processor time of one thread and compared with itself, so that a slow machine changes
/// nothing.
@Suite("Work that grows with the bytes and no faster", .timeLimit(.minutes(5)), .serialized)
struct WorkTests {
  @Test func `R13: an endless header is given up at the limit`() async throws {
    let (sent, feed) = AsyncStream.makeStream(of: Int.self)
    let server = try ScriptedServer { connection in
      defer { feed.finish() }
      try connection.readRequest()
      try connection.send(text: "HTTP/1.1 101 Switching Protocols\r\nX: ")
      let piece = [UInt8](repeating: 0x61, count: 100)
      for number in 0..<200_000 {
        feed.yield(number * piece.count)
        try connection.send(piece)
      }
    }
    let handler = makeHandler()
    let error = await failure { () throws(Failure) in try await handler.connect(request: request(server)) }
    #expect(error == .handshakeFailed(.headTooLong(limit: 64 << 10)))
    var total = 0
    for await bytes in sent { total = bytes }
    #expect(total < 199_999 * 100, "the client read on")
  }

  @Test(
    "R51: one message costs about what sixteen of a sixteenth of its length cost",
    arguments: [(Opcode.binary, 32 << 20), (.text, 4 << 20)])
  func linear(opcode: Opcode, bytes: Int) async throws {
    // The least of several: whatever else the machine does, as finding memory, can only add to a time.
    var (one, sixteen) = (Duration.seconds(3600), Duration.seconds(3600))
    for _ in 0..<5 {
      one = min(one, try await loopTime(opcode, bytes: bytes, messages: 1))
      sixteen = min(sixteen, try await loopTime(opcode, bytes: bytes / 16, messages: 16))
      if one < sixteen * 4 { return }
    }
    // Work that grows with the square would be 16 times as much.
    #expect(one < sixteen * 8, "one of \(bytes) bytes: \(one), sixteen of \(bytes / 16): \(sixteen)")
  }

  /// The loop's processor time for messages that come in writes of 4 KiB.
  private func loopTime(_ opcode: Opcode, bytes: Int, messages: Int) async throws -> Duration {
    let server = try ScriptedServer { connection in
      try connection.open()
      _ = try connection.readFrame()
      let frame = Frame(opcode, [UInt8](repeating: 0x61, count: bytes)).encoded()
      for _ in 0..<messages { try connection.send(frame, piece: 4096) }
      try connection.echo()
    }
    let loop = EpollEventLoop(name: "work")
    var environment = Environment.system
    environment.makeLoop = { loop }
    let handler = makeHandler(environment: environment) {
      $0.callbacks = .eventLoop
      $0.limits = ConnectionLimits(maximumMessageBytes: bytes, maximumFrameBytes: bytes)
    }
    let (lengths, feed) = AsyncStream.makeStream(of: Int.self)
    handler.onMessage { feed.yield($0.count) }
    try await handler.connect(request: request(server))
    let before = await threadTime(of: loop)
    handler.send(.text("go"))
    var iterator = lengths.makeAsyncIterator()
    for _ in 0..<messages { #expect(await iterator.next() == bytes) }
    let after = await threadTime(of: loop)
    try await handler.disconnect()
    return after - before
  }

  private func threadTime(of loop: any EventLoop) async -> Duration {
    await withCheckedContinuation { continuation in
      loop.execute { continuation.resume(returning: EndToEndTests.threadTime()) }
    }
  }
}
