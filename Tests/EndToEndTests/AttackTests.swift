import Foundation
import Testing
import WebSocketCore
import WebSocketHandling
import WebSocketTesting
import WebSocketTransport

/// Where callbacks run.
enum Place: CaseIterable, CustomTestStringConvertible {
  case queue
  case eventLoop

  var testDescription: String { self == .queue ? "callbacks on a queue" : "callbacks on the event loop" }

  func makeHandler(_ change: (inout HandlerConfiguration) -> Void = { _ in }) -> DefaultWebSocketHandler {
    EndToEndTests.makeHandler { configuration in
      configuration.callbacks = self == .queue ? .privateQueue : .eventLoop
      change(&configuration)
    }
  }
}

@Suite("Many threads at once", .timeLimit(.minutes(5)))
struct ThreadAttackTests {
  private static let threads = 16
  private static let sends = 500

  /// What a strict server saw: the messages in their order, then whether Close was the last frame.
  private struct Seen: Sendable {
    var messages: [String] = []
    var endedWithClose = false
  }

  /// A server that reads strictly, answers pings, and ends the closing handshake.
  private func strictServer(_ seen: AsyncStream<Seen>.Continuation) throws -> ScriptedServer {
    try ScriptedServer { connection in
      var log = Seen()
      defer {
        seen.yield(log)
        seen.finish()
      }
      try connection.open()
      while true {
        let frame = try connection.readFrame()
        switch frame.opcode {
        case .text: log.messages.append(String(decoding: frame.payload, as: UTF8.self))
        case .ping: try connection.send(Frame(.pong, frame.payload).encoded())
        case .close:
          try connection.send(Frame.close(1000).encoded())
          connection.finish()
          do {
            _ = try connection.readFrame()
          } catch ScriptFailure.ended {
            log.endedWithClose = true
          }
          return
        case .binary, .continuation, .pong: throw ScriptFailure.otherFrame("\(frame)")
        }
      }
    }
  }

  private func expectOrder(_ messages: [String]) {
    var last: [Substring: Int] = [:]
    for message in messages {
      let parts = message.split(separator: ".")
      let (thread, number) = (parts[0], Int(parts[1]) ?? -1)
      if let before = last[thread], before >= number { Issue.record("\(message) comes after \(thread).\(before)") }
      last[thread] = number
    }
  }

  @Test("R111: sixteen threads send and ping; all arrives whole, each thread's in order", arguments: Place.allCases)
  func sendAndPing(place: Place) async throws {
    let (reports, report) = AsyncStream.makeStream(of: Seen.self)
    let server = try strictServer(report)
    let handler = place.makeHandler()
    try await handler.connect(request: request(server))
    let (sends, pings) = (Tally(), Tally())
    await onThreads(Self.threads) { thread in
      for number in 0..<Self.sends {
        let name = "\(thread).\(number)"
        handler.send(message: WebSocketMessage.text(name), completion: sends.completion(name))
        if number % 50 == 0 { handler.ping(completion: pings.completion(name)) }
      }
    }
    await sends.allAnswered()
    await pings.allAnswered()
    try await handler.disconnect()
    var seen = Seen()
    for await last in reports { seen = last }
    #expect(seen.messages.count == Self.threads * Self.sends)
    #expect(Set(seen.messages).count == Self.threads * Self.sends)
    expectOrder(seen.messages)
    #expect(seen.endedWithClose)
    #expect(sends.doubled == [] && pings.doubled == [])
    #expect(sends.succeeded.count == Self.threads * Self.sends)
    let failures = pings.all.values.flatMap { $0 }.compactMap { $0 }
    #expect(failures.allSatisfy { if case .limitExceeded(.pings, _, _) = $0 { true } else { false } })
    #expect(server.failures == [])
  }

  @Test(
    "R74, R111: threads send, ping and disconnect; what succeeded arrived, nothing follows the Close",
    arguments: Place.allCases)
  func sendAndDisconnect(place: Place) async throws {
    let (reports, report) = AsyncStream.makeStream(of: Seen.self)
    let server = try strictServer(report)
    let handler = place.makeHandler()
    try await handler.connect(request: request(server))
    let (sends, others) = (Tally(), Tally())
    await onThreads(Self.threads) { thread in
      for number in 0..<Self.sends {
        let name = "\(thread).\(number)"
        handler.send(message: WebSocketMessage.text(name), completion: sends.completion(name))
        if number == Self.sends / 2, thread.isMultiple(of: 4) {
          handler.disconnect(completion: others.completion("disconnect \(thread)"))
        }
        if number % 50 == 0 { handler.ping(completion: others.completion("ping \(name)")) }
      }
    }
    await sends.allAnswered()
    await others.allAnswered()
    var seen = Seen()
    for await last in reports { seen = last }
    #expect(Set(seen.messages) == sends.succeeded)
    #expect(seen.messages.count == sends.succeeded.count)
    expectOrder(seen.messages)
    #expect(seen.endedWithClose)
    #expect(sends.doubled == [] && others.doubled == [])
    #expect(server.failures == [])
  }

  @Test("R111: connect, send, receive, ping and disconnect from all threads at once", arguments: Place.allCases)
  func everything(place: Place) async throws {
    let server = try LoopbackServer()
    let handler = place.makeHandler()
    let url = server.url
    let tally = Tally()
    await onThreads(Self.threads) { thread in
      for number in 0..<50 {
        let name = "\(thread).\(number)"
        handler.connect(request: request(url), completion: tally.completion("connect \(name)"))
        handler.send(message: WebSocketMessage.text(name), completion: tally.completion("send \(name)"))
        let received: @Sendable (Result<WebSocketMessage, Failure>) -> Void = tally.completion("receive \(name)")
        handler.receive(completion: received)
        handler.ping(completion: tally.completion("ping \(name)"))
        if number % 5 == 4 { handler.disconnect(completion: tally.completion("disconnect \(name)")) }
      }
    }
    handler.disconnect(completion: tally.completion("the last disconnect"))
    await tally.allAnswered()
    #expect(tally.all.count == Self.threads * (4 * 50 + 10) + 1)
    #expect(tally.doubled == [])
    // It still works.
    try await handler.connect(request: request(url))
    try await handler.send(message: WebSocketMessage.text("after"))
    #expect(try await handler.receive(WebSocketMessage.self) == .text("after"))
    try await handler.disconnect()
  }

  @Test("R90: the handler is released while other threads still call it", arguments: Place.allCases)
  func releaseWhileBusy(place: Place) async throws {
    let server = try LoopbackServer()
    for _ in 0..<20 {
      let held = Lock<DefaultWebSocketHandler?>(place.makeHandler())
      weak let weakHandler = held.withLock { $0 }
      try await weakHandler?.connect(request: request(server.url))
      let tally = Tally()
      await onThreads(4) { thread in
        for number in 0..<50 {
          guard let handler = held.withLock({ $0 }) else { return }
          handler.send(
            message: WebSocketMessage.text("x"), completion: tally.completion("send \(thread).\(number)"))
          if thread == 0, number == 20 { held.withLock { $0 = nil } }
        }
      }
      await tally.allAnswered()
      #expect(weakHandler == nil)
      #expect(tally.doubled == [])
    }
  }
}

@Suite("Calls from inside callbacks, over TCP", .timeLimit(.minutes(5)))
struct ReentrancyTests {
  @Test("R71, R112: every method is called from every callback", arguments: Place.allCases)
  func everyMethod(place: Place) async throws {
    let server = try LoopbackServer()
    let tally = Tally()
    let remaining = Lock(60)
    let (isDone, done) = AsyncStream.makeStream(of: Void.self)
    let held = Lock<DefaultWebSocketHandler?>(nil)
    let url = server.url

    @Sendable func callAll(from name: String) {
      let number = remaining.withLock { remaining in
        remaining -= 1
        return remaining
      }
      if number == 0 { done.finish() }
      guard number > 0, let handler = held.withLock({ $0 }) else { return }
      @Sendable func tallied<Value>(_ method: String) -> @Sendable (Result<Value, Failure>) -> Void {
        let answer: @Sendable (Result<Value, Failure>) -> Void = tally.completion("\(method) \(number)")
        return { result in
          answer(result)
          callAll(from: method)
        }
      }
      handler.connect(request: request(url), completion: tallied("connect"))
      handler.send(message: WebSocketMessage.text("\(number)"), completion: tallied("send"))
      let received: @Sendable (Result<WebSocketMessage, Failure>) -> Void = tallied("receive")
      handler.receive(completion: received)
      handler.ping(completion: tallied("ping"))
      _ = (handler.buffered, handler.handshake)
      if number % 10 == 3 { handler.disconnect(completion: tallied("disconnect")) }
    }
    held.withLock { $0 = place.makeHandler { $0.onControlFrame = { _ in callAll(from: "control") } } }
    callAll(from: "test")
    for await _ in isDone {}
    // What still waits for a message is answered now.
    held.withLock { $0 = nil }
    await tally.allAnswered()
    #expect(tally.doubled == [])
  }
}
