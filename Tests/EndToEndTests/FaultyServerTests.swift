import Foundation
import Testing
import WebSocketCore
import WebSocketHandling
import WebSocketTesting
import TestSupport

@Suite("Servers that misbehave", .timeLimit(.minutes(5)))
struct FaultyServerTests {
  @Test("R65, R116: a server that stalls bounds the queue and cannot hold the close back", arguments: Place.allCases)
  func stall(place: Place) async throws {
    let isOver = DispatchSemaphore(value: 0)
    defer { isOver.signal() }
    let server = try ScriptedServer { connection in
      try connection.open()
      isOver.wait()
    }
    let handler = place.makeHandler { $0.sendQueueLimit = 1 << 20 }
    try await handler.connect(request: request(server) { $0.closeTimeout = .milliseconds(50) })
    let tally = Tally()
    let message = WebSocketMessage.binary(Data(repeating: 7, count: 64 << 10))
    // More than the kernel's buffers and the queue together can hold.
    for number in 0..<1_000 { handler.send(message: message, completion: tally.completion("send \(number)")) }
    #expect(handler.buffered.bytes <= 2 << 20)
    handler.disconnect(completion: tally.completion("disconnect"))
    await tally.allAnswered()
    #expect(tally.doubled == [])
    #expect(tally.all["disconnect"] == [.timedOut(.close)])
    let refused = tally.all.values.filter { if case .limitExceeded(.sendQueue, _, _)? = $0[0] { true } else { false } }
    #expect(!refused.isEmpty)
  }

  @Test(
    "R64, R69, R122: a server that resets fails everything that waits, and no signal kills", arguments: Place.allCases)
  func reset(place: Place) async throws {
    let server = try ScriptedServer { connection in
      try connection.open()
      _ = try connection.readFrame()
      connection.reset()
    }
    for _ in 0..<20 {
      let handler = place.makeHandler()
      try await handler.connect(request: request(server))
      let tally = Tally()
      for number in 0..<50 {
        let received: @Sendable (Result<WebSocketMessage, Failure>) -> Void = tally.completion("receive \(number)")
        handler.receive(completion: received)
        handler.send(
          message: WebSocketMessage.binary(Data(count: 10_000)), completion: tally.completion("send \(number)"))
      }
      handler.ping(completion: tally.completion("ping"))
      await tally.allAnswered()
      #expect(tally.doubled == [])
      guard case .closed(let record)?? = tally.all["receive 0"]?.first else {
        Issue.record("\(String(describing: tally.all["receive 0"]))")
        return
      }
      #expect(record.code == .abnormalClosure && !record.isClean)
      #expect(record.transportEnd == .reset)
      let late = await failure { () throws(Failure) in try await handler.send(message: WebSocketMessage.text("late")) }
      #expect(late == .closed(record))
    }
  }

  @Test("a server that ends its stream and goes on reading has closed", arguments: Place.allCases)
  func halfClose(place: Place) async throws {
    let server = try ScriptedServer { connection in
      try connection.open(with: Frame.text("last").encoded())
      connection.finish()
      connection.waitForEnd()
    }
    let handler = place.makeHandler()
    try await handler.connect(request: request(server))
    #expect(try await handler.receive(WebSocketMessage.self) == .text("last"))
    let error = await failure { () throws(Failure) in _ = try await handler.receive(WebSocketMessage.self) }
    let record = CloseRecord(code: .abnormalClosure, initiator: .peer, isClean: false, transportEnd: .finished)
    #expect(error == .closed(record))
  }

  @Test("R118, R119: a flood is held back; everything arrives in order", arguments: Place.allCases)
  func flood(place: Place) async throws {
    let (count, size) = (2_000, 16 << 10)
    let server = try ScriptedServer { connection in
      try connection.open()
      for number in 0..<count {
        var payload = [UInt8](repeating: 0, count: size)
        (payload[0], payload[1]) = (UInt8(number >> 8), UInt8(number & 255))
        try connection.send(Frame(.binary, payload).encoded())
        if number % 100 == 0 { try connection.send(Frame(.ping, payload[..<2]).encoded()) }
      }
      try connection.send(Frame.close(1000).encoded())
      while try connection.readFrame().opcode != .close {}
    }
    let handler = place.makeHandler { $0.receiveBufferLimit = 64 << 10 }
    try await handler.connect(request: request(server))
    for number in 0..<count {
      let message = try await handler.receive(WebSocketMessage.self)
      guard message.data.count == size, message.data.prefix(2) == Data([UInt8(number >> 8), UInt8(number & 255)]) else {
        Issue.record("message \(number) is another: \(message.data.prefix(4) as NSData)")
        return
      }
    }
    let error = await failure { () throws(Failure) in _ = try await handler.receive(WebSocketMessage.self) }
    let record = CloseRecord(code: .normalClosure, initiator: .peer, isClean: true, transportEnd: .finished)
    #expect(error == .closed(record))
    #expect(server.failures == [])
  }

  @Test("a server that trickles its answer and its frames is understood", arguments: Place.allCases)
  func trickle(place: Place) async throws {
    let server = try ScriptedServer { connection in
      let answer = try connection.answer(to: connection.readRequest())
      try connection.send(answer, piece: 1)
      try connection.send(Frame.text(String(repeating: "ü", count: 500)).encoded(), piece: 1)
      try connection.send(Frame.close(1001, "enough").encoded(), piece: 1)
      _ = try connection.readFrame()
    }
    let handler = place.makeHandler()
    try await handler.connect(request: request(server))
    #expect(try await handler.receive(WebSocketMessage.self) == .text(String(repeating: "ü", count: 500)))
    let error = await failure { () throws(Failure) in _ = try await handler.receive(WebSocketMessage.self) }
    let record = CloseRecord(
      code: .goingAway, reason: "enough", initiator: .peer, isClean: true, transportEnd: .finished)
    #expect(error == .closed(record))
    #expect(server.failures == [])
  }

  @Test("a server that floods with pings and never reads is owed one pong at a time", arguments: Place.allCases)
  func pingFlood(place: Place) async throws {
    let server = try ScriptedServer { connection in
      try connection.open()
      let pings = (0..<1_000).flatMap { Frame(.ping, "\($0)".utf8).encoded() }
      for _ in 0..<50 { try connection.send(pings) }
      try connection.send(Frame.text("done").encoded())
      var pongs = 0
      while true {
        let frame = try connection.readFrame()
        switch frame.opcode {
        case .pong: pongs += 1
        case .close:
          try connection.send(Frame.close(1000).encoded())
          return
        case .text, .binary, .continuation, .ping: throw ScriptFailure.otherFrame("\(frame)")
        }
        if pongs > 50_000 { throw ScriptFailure.otherFrame("more pongs than pings") }
      }
    }
    let handler = place.makeHandler()
    try await handler.connect(request: request(server))
    #expect(try await handler.receive(WebSocketMessage.self) == .text("done"))
    try await handler.disconnect()
    #expect(server.failures == [])
  }
}
