import Foundation
import Testing
import WebSocketCore
import WebSocketTesting
import WebSocketTransport

@testable import WebSocketHandling

@Suite("Flow control and limits of the handler")
struct FlowControlTests {
  @Test("R116: past its limit the send queue takes nothing, and each completion comes once", arguments: Place.allCases)
  func sendQueue(place: Place) throws {
    let client = Client(place) { $0.sendQueueLimit = 1_000 }
    let server = try client.open()
    server.setWriteRoom(0)
    let handler = try #require(client.handler)
    // Larger than the queue: one message always fits an empty queue.
    client.send("1" + String(repeating: "x", count: 1_999))
    client.send("2" + String(repeating: "x", count: 99))
    #expect(handler.buffered.bytes == 2_000)
    #expect(handler.buffered.messages == 1)
    client.manual.settle()
    #expect(
      client.journal.take() == [
        .failed("send 2" + String(repeating: "x", count: 19), .limitExceeded(.sendQueue, size: 2_228, limit: 1_000))
      ])
    server.setWriteRoom(nil)
    client.manual.settle()
    #expect(client.journal.take() == [.ok("send 1" + String(repeating: "x", count: 19))])
    #expect(handler.buffered.bytes == 0)
    #expect(handler.buffered.messages == 0)
  }

  @Test(
    "R116: the low mark is told when a queue that was above it falls to it, and only then", arguments: Place.allCases)
  func lowMark(place: Place) throws {
    let client = Client(place) { $0.sendQueueLowMark = 500 }
    let server = try client.open()
    let journal = client.journal
    client.handler?.onSendQueueLow { journal.note(.step("low")) }
    client.send("short")
    client.manual.settle()
    #expect(client.journal.take() == [.ok("send short")])
    server.setWriteRoom(0)
    // Three of 64 + 200: the second passes the mark.
    for number in 1...3 { client.send("\(number)" + String(repeating: "y", count: 199)) }
    client.manual.settle()
    #expect(client.journal.take() == [])
    server.setWriteRoom(2 + 2 + 4 + 200)
    client.manual.settle()
    #expect(client.journal.take() == [.ok("send 1" + String(repeating: "y", count: 19))])
    server.setWriteRoom(nil)
    client.manual.settle()
    #expect(
      client.journal.take() == [
        .ok("send 2" + String(repeating: "y", count: 19)), .ok("send 3" + String(repeating: "y", count: 19)),
        .step("low"),
      ])
  }

  @Test func `a length that no memory holds is only a number, where the limits allow it`() async {
    await #expect(processExitsWith: .success) { try Self.receiveEndlessly() }
  }

  private static func receiveEndlessly() throws {
    for place in Place.allCases {
      let client = Client(place) {
        $0.limits.maximumMessageBytes = .max
        $0.limits.maximumFrameBytes = .max
      }
      let server = try client.open()
      client.receive()
      server.send([0x82, 0x7F, 0x7F] + [UInt8](repeating: 0xFF, count: 7))
      for _ in 0..<300 {
        server.send([UInt8](repeating: 7, count: 100_000))
        client.manual.settle()
      }
      server.finish()
      client.manual.settle()
      #expect(client.journal.take() == [.failed("receive", lost(.finished))])
    }
  }

  @Test(
    "a message that is dropped on the way to the end leaves nothing to be told of it", arguments: Place.allCases)
  func droppedIsNotLogged(place: Place) throws {
    let logger = RecordingLogger()
    let client = Client(place, logger: logger)
    let server = try client.open()
    server.send(.text("kept"))
    client.manual.settle()
    client.disconnect()
    for _ in 0..<100 { server.send(.text("dropped")) }
    client.manual.settle()
    #expect(logger.texts(.debug).count { $0 == "WebSocket message received" } == 1)
  }

  @Test("a message above the message limit is refused, with its size", arguments: Place.allCases)
  func messageLimit(place: Place) throws {
    let client = Client(place) { $0.limits = ConnectionLimits(maximumMessageBytes: 10) }
    _ = try client.open()
    client.send("12345678901")
    client.send("1234567890")
    client.manual.settle()
    #expect(
      client.journal.take() == [
        .failed("send 12345678901", .limitExceeded(.message, size: 11, limit: 10)), .ok("send 1234567890"),
      ])
  }

  @Test("receives wait within a limit of their own, also before the connection is there", arguments: Place.allCases)
  func receives(place: Place) throws {
    let client = Client(place) { $0.receiveBufferLimit = 640 }
    client.connect()
    for _ in 0..<11 { client.receive() }
    let server = try client.manual.nextConnection()
    client.manual.settle()
    #expect(client.journal.take() == [.failed("receive", .limitExceeded(.receives, size: 11, limit: 10))])
    try server.open()
    for number in 0..<10 { server.send(.text("\(number)")) }
    client.manual.settle()
    #expect(client.journal.take() == [.ok("connect")] + (0..<10).map { .message(.text("\($0)")) })
  }

  @Test("R118: what is in a callback that has not returned counts as undelivered", arguments: Place.allCases)
  func undelivered(place: Place) throws {
    let client = Client(place) { $0.receiveBufferLimit = 300 }
    let server = try client.open()
    let message = String(repeating: "z", count: 100)
    let journal = client.journal
    client.handler?.onMessage { received in
      journal.note(.message(.text(received.text ?? "")))
    }
    for _ in 0..<10 { server.send(.text(message)) }
    client.manual.settle()
    #expect(client.journal.take() == Array(repeating: .message(.text(message)), count: 10))
    #expect(server.unreadByClient == 0)
  }

  @Test(
    "what the callbacks of one read send is written once 20 KiB of it wait, and then when they end",
    arguments: Place.allCases)
  func earlyWrite(place: Place) throws {
    let client = Client(place)
    let server = try client.open()
    let message = String(repeating: "z", count: 100)
    let waiting = Lock<[Int]>([])
    client.handler?.onMessage { [weak handler = client.handler] _ in
      handler?.send(.text(message))
      waiting.withLock { $0.append(handler?.buffered.messages ?? -1) }
    }
    for _ in 0..<2 {
      server.send((0..<400).flatMap { _ in Frame.text(message).encoded() })
      client.manual.settle()
      // A frame of a client's takes six octets more than its payload.
      let early = (20 << 10) / (message.utf8.count + 6) + 1
      var expected = Array(1..<early) + Array(0...(400 - early))
      // The last callback on a queue may take its time: its send does not wait.
      if place == .queue { expected[399] = 0 }
      #expect(waiting.withLock { exchange(&$0, with: []) } == expected)
      #expect(client.handler?.buffered.messages == 0)
      for _ in 0..<400 { #expect(try server.readMessage() == .text(message)) }
    }
  }

  @Test("a receiver that is removed in its call leaves the messages behind it to receive", arguments: Place.allCases)
  func receiverRemoved(place: Place) throws {
    let client = Client(place)
    let server = try client.open()
    let journal = client.journal
    client.handler?.onMessage { [weak handler = client.handler] received in
      journal.note(.step(received.text ?? ""))
      handler?.onMessage(nil)
    }
    server.send(Frame.text("1").encoded() + Frame.text("2").encoded() + Frame.text("3").encoded())
    client.manual.settle()
    client.receive()
    client.receive()
    client.manual.settle()
    #expect(client.journal.take() == [.step("1"), .message(.text("2")), .message(.text("3"))])
  }

  @Test(
    "a receive that is made while no receiver stands is answered, also where the connection ends meanwhile",
    arguments: Place.allCases, [1, 3])
  func receiveBetweenReceivers(place: Place, count: Int) throws {
    // Without log lines about messages, so that on the loop's thread they are lent.
    let client = Client(place, logger: RecordingLogger(minimumLevel: .info))
    let server = try client.open()
    let journal = client.journal
    client.handler?.onMessage { [weak handler = client.handler] received in
      journal.note(.step(received.text ?? ""))
      handler?.onMessage(nil)
      handler?.receive { (result: Result<WebSocketMessage, Failure>) in
        switch result {
        case .success(let message): journal.note(.message(message))
        case .failure(let failure): journal.note(.failed("receive", failure))
        }
      }
      handler?.onMessage { journal.note(.step("later: \($0.text ?? "")")) }
      handler?.driver.abort()
    }
    server.send((1...count).flatMap { Frame.text("\($0)").encoded() })
    client.manual.settle()
    let rest: [Event] =
      count == 1 ? [.failed("receive", lost(.aborted, by: .local))] : [.message(.text("2")), .step("later: 3")]
    #expect(client.journal.take() == [.step("1")] + rest)
  }

  @Test("what nobody took of a connection is no message of the next one's", arguments: Place.allCases)
  func messagesOfBefore(place: Place) throws {
    let client = Client(place, logger: RecordingLogger(minimumLevel: .info))
    let server = try client.open()
    let journal = client.journal
    client.handler?.onMessage { [weak handler = client.handler] received in
      journal.note(.step(received.text ?? ""))
      handler?.onMessage(nil)
      handler?.driver.abort()
      handler?.connect(request: Client.request()) { journal.note("connect", $0) }
    }
    server.send(Frame.text("1").encoded() + Frame.text("2").encoded() + Frame.text("3").encoded())
    client.manual.settle()
    let next = try client.manual.nextConnection()
    try next.open()
    next.send(.text("new"))
    client.receive()
    client.manual.settle()
    #expect(client.journal.take() == [.step("1"), .ok("connect"), .message(.text("new"))])
    #expect(client.handler?.driver.state.withLock { $0.io.undelivered } == 0)
  }

  @Test(
    "a receive that waits behind messages that are out fails with its connection, though the next one is begun at once",
    arguments: Place.allCases)
  func receiveOfBefore(place: Place) throws {
    let client = Client(place, logger: RecordingLogger(minimumLevel: .info))
    let server = try client.open()
    let journal = client.journal
    client.handler?.onMessage { [weak handler = client.handler] received in
      journal.note(.step(received.text ?? ""))
      handler?.onMessage(nil)
      handler?.receive { (result: Result<WebSocketMessage, Failure>) in
        journal.note("receive of before", result.map { _ in })
      }
      handler?.disconnect { journal.note("disconnect", $0) }
      handler?.driver.abort()
      handler?.connect(request: Client.request()) { journal.note("connect", $0) }
    }
    server.send(.text("1"))
    client.manual.settle()
    let next = try client.manual.nextConnection()
    try next.open()
    next.send(.text("new"))
    client.receive()
    client.manual.settle()
    let end = lost(.aborted, by: .local)
    #expect(
      client.journal.take() == [
        .step("1"), .failed("receive of before", end), .failed("disconnect", end), .ok("connect"),
        .message(.text("new")),
      ])
  }

  @Test(
    "the completion of disconnect comes last, also where messages are out when the connection ends",
    arguments: Place.allCases, [1, 3])
  func disconnectLast(place: Place, count: Int) throws {
    let client = Client(place, logger: RecordingLogger(minimumLevel: .info))
    let server = try client.open()
    let journal = client.journal
    client.handler?.onMessage { [weak handler = client.handler] received in
      journal.note(.step(received.text ?? ""))
      handler?.onMessage(nil)
      handler?.receive { (result: Result<WebSocketMessage, Failure>) in
        switch result {
        case .success(let message): journal.note(.message(message))
        case .failure(let failure): journal.note(.failed("receive", failure))
        }
      }
      handler?.disconnect { journal.note("disconnect", $0) }
      handler?.driver.abort()
    }
    server.send((1...count).flatMap { Frame.text("\($0)").encoded() })
    client.manual.settle()
    let end = lost(.aborted, by: .local)
    #expect(
      client.journal.take() == [
        .step("1"), count == 1 ? .failed("receive", end) : .message(.text("2")), .failed("disconnect", end),
      ])
  }

  @Test("a pong is not put off for ever by a send queue that is filled again and again", arguments: Place.allCases)
  func pongWhileSending(place: Place) throws {
    let client = Client(place) { $0.sendQueueLowMark = 5_000 }
    let server = try client.open()
    server.setWriteRoom(0)
    let message = String(repeating: "x", count: 1_000)
    @Sendable func fill(_ handler: DefaultWebSocketHandler?) {
      for _ in 0..<10 { handler?.send(message: WebSocketMessage.text(message)) { _ in } }
    }
    client.handler?.onSendQueueLow { [weak handler = client.handler] in fill(handler) }
    fill(client.handler)
    server.send(frame: Frame(.ping, "first".utf8))
    server.send(frame: Frame(.ping, "are you there?".utf8))
    client.manual.settle()
    var frames: [Frame] = []
    for _ in 0..<40 {
      server.setWriteRoom(1_008)
      client.manual.settle()
      #expect(client.handler?.buffered.messages ?? 0 > 0)
      if let frame = try? server.readFrame() { frames.append(frame) }
    }
    #expect(frames.filter { $0.opcode == .pong } == [Frame(.pong, "are you there?".utf8)])
  }

  @Test("an end is heard of after the last message where a receiver is installed", arguments: Place.allCases)
  func onClose(place: Place) throws {
    let client = Client(place)
    let server = try client.open()
    let journal = client.journal
    client.handler?.onMessage { journal.note(.message(.text($0.text ?? ""))) }
    client.handler?.onClose { journal.note(.failed("close", .closed($0))) }
    server.send(Frame.text("last").encoded() + Frame.close(1012, "later").encoded())
    server.finish()
    client.manual.settle()
    #expect(
      client.journal.take() == [
        .message(.text("last")), .failed("close", closed(CloseCode(1012), by: .peer, reason: "later")),
      ])
  }
}
