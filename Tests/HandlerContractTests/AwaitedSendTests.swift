import Testing
import WebSocketCore
import WebSocketTesting
import WebSocketTransport

@testable import WebSocketHandling

/// The callback under the async form of `send`, which is told at once where the message is written.
@Suite("An awaited send")
struct AwaitedSendTests {
  private func send(_ text: String, _ client: Client) throws -> Event {
    let journal = client.journal
    let driver = try #require(client.handler?.driver)
    switch driver.send(.text, .string(text), orLater: { { journal.note("later", $0) } }) {
    case .written: return .step("written")
    case .pending: return .step("pending")
    case .refused(let failure), .failed(let failure): return .failed("send", failure)
    }
  }

  @Test("is written at once where the system takes it, and its completion never asked for")
  func written() throws {
    let client = Client(.queue)
    let server = try client.open()
    #expect(try send("now", client) == .step("written"))
    #expect(try server.readMessage() == .text("now"))
    client.manual.settle()
    #expect(client.journal.take() == [])
  }

  @Test(
    "completes once, when its last byte is taken: encoded, encoded in part, or whole",
    arguments: [10, 1000, 100_000, 300_000], [0, 1, 70_000])
  func pending(count: Int, before: Int) throws {
    let client = Client(.queue)
    let server = try client.open()
    let (first, message) = (String(repeating: "a", count: before), String(repeating: "z", count: count))
    server.setWriteRoom(0)
    // Short ones that nobody awaits share their place in the queue with the one behind them.
    if before > 0 { client.handler?.send(.text(first)) }
    #expect(try send(message, client) == .step("pending"))
    let bytes = [before, count].reduce(0) { sum, length in
      length == 0 ? sum : sum + FrameHeader.encodedLength(payloadLength: length, isMasked: true) + length
    }
    server.setWriteRoom(bytes - 1)
    client.manual.settle()
    #expect(client.journal.take() == [])
    server.setWriteRoom(1)
    client.manual.settle()
    #expect(client.journal.take() == [.ok("later")])
    if before > 0 { #expect(try server.readMessage() == .text(first)) }
    #expect(try server.readMessage() == .text(message))
    client.manual.settle()
    #expect(client.journal.take() == [])
  }

  @Test("is written when its own last byte is taken, though a pong that was held back waits behind it")
  func pongBehind() throws {
    let client = Client(.queue)
    let server = try client.open()
    client.handler?.driver.state.withLock { $0.io.latePong = Array("late".utf8) }
    server.setWriteRoom(FrameHeader.encodedLength(payloadLength: 3, isMasked: true) + 3)
    #expect(try send("now", client) == .step("written"))
    #expect(try server.readMessage() == .text("now"))
    server.setWriteRoom(nil)
    client.manual.settle()
    #expect(try server.readFrame() == Frame(.pong, Array("late".utf8)))
    #expect(client.journal.take() == [])
  }

  @Test("fails once, with the record of the end, where the connection ends before it is written")
  func ended() throws {
    let client = Client(.queue)
    let server = try client.open()
    server.setWriteRoom(0)
    #expect(try send("lost", client) == .step("pending"))
    server.reset()
    client.manual.settle()
    #expect(client.journal.take() == [.failed("later", lost(.reset))])
    #expect(try send("too late", client) == .failed("send", lost(.reset)))
  }

  @Test("waits for a connection that is being opened")
  func connecting() throws {
    let client = Client(.queue)
    client.connect()
    #expect(try send("early", client) == .step("pending"))
    let server = try client.manual.nextConnection()
    try server.open()
    client.manual.settle()
    #expect(client.journal.take() == [.ok("connect"), .ok("later")])
    #expect(try server.readMessage() == .text("early"))
  }

  @Test("leaves nothing behind where its task is cancelled while it waits for room", .timeLimit(.minutes(5)))
  func cancelled() async throws {
    let client = Client(.queue) { $0.sendQueueLimit = 100 }
    let server = try client.open()
    server.setWriteRoom(0)
    let handler = try #require(client.handler)
    handler.send(.text(String(repeating: "a", count: 100)))
    let send = Task { try await handler.send(message: WebSocketMessage.text("no room")) }
    while handler.driver.state.withLock({ $0.io.roomWaiters.isEmpty }) { await Task.yield() }
    send.cancel()
    await #expect(throws: Failure.cancelled) { try await send.value }
    #expect(handler.driver.state.withLock { $0.io.roomWaiters.count } == 0)
  }
}
