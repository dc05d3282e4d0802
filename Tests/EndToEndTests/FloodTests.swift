import Foundation
import Glibc
import Testing
import WebSocketCore
import WebSocketHandling
import WebSocketTesting
import WebSocketTransport
import TestSupport

@Suite("Floods over TCP", .timeLimit(.minutes(5)))
struct FloodTests {
  /// What a test's process may use beside the limits.
  private static let slack = 8 << 20

  @Test func `R118: a flood of 1 GB leaves memory within the receive buffer's limit, and disconnect ends it`()
    async throws
  {
    await #expect(processExitsWith: .success) {
      let server = try ScriptedServer { connection in
        try connection.open()
        let frame = Frame(.binary, [UInt8](repeating: 7, count: 60_000)).encoded()
        for _ in 0..<(1 << 30) / frame.count { try connection.send(frame) }
      }
      var handler: DefaultWebSocketHandler? = makeHandler()
      try await handler?.connect(request: request(server) { $0.closeTimeout = .milliseconds(500) })
      let before = residentBytes()
      for _ in 0..<20 {
        _ = try await handler?.receive(WebSocketMessage.self)
        let grown = residentBytes() - before
        guard grown < (1 << 20) + Self.slack || !isCounted else { fatalError("\(grown) bytes more are resident") }
      }
      let error = await failure { () throws(Failure) in try await handler?.disconnect() }
      guard error == .timedOut(.close) || error == nil else { fatalError("\(String(describing: error))") }
      let grown = residentBytes() - before
      guard grown < (1 << 20) + Self.slack || !isCounted else {
        fatalError("\(grown) bytes more are resident at the end")
      }
      handler = nil
    }
  }

  @Test func `R116: 1 GB of sends to a server that never reads ends at the limit, each completion once`() async throws {
    await #expect(processExitsWith: .success) {
      let gate = DispatchSemaphore(value: 0)
      let server = try ScriptedServer { connection in
        try connection.open()
        gate.wait()
      }
      let handler = makeHandler { $0.sendQueueLimit = 4 << 20 }
      try await handler.connect(request: request(server) { $0.closeTimeout = .milliseconds(200) })
      let before = residentBytes()
      let payload = Data(count: 1 << 20)
      let answers = Lock<[Int: [Failure?]]>([:])
      for number in 0..<1024 {
        handler.send(message: WebSocketMessage.binary(payload)) { result in
          answers.withLock { $0[number, default: []].append(result.failure) }
        }
      }
      let grown = residentBytes() - before
      guard grown < (4 << 20) + Self.slack || !isCounted else { fatalError("\(grown) bytes more are resident") }
      let error = await failure { () throws(Failure) in try await handler.disconnect() }
      guard error == .timedOut(.close) else { fatalError("\(String(describing: error))") }
      gate.signal()
      let all = answers.withLock { $0 }
      guard all.count == 1024, all.values.allSatisfy({ $0.count == 1 }) else { fatalError("\(all.count) answers") }
      let refused = all.values.filter {
        if case .limitExceeded(.sendQueue, size: _, limit: 4_194_304)?? = $0.first { true } else { false }
      }
      guard refused.count > 900 else { fatalError("only \(refused.count) were refused") }
    }
  }

  @Test func `R116: an async send waits for room, and what is queued stays within the limit`() async throws {
    let server = try ScriptedServer { connection in
      try connection.open()
      var seen: Set<UInt8> = []
      for _ in 0..<64 {
        let frame = try connection.readFrame()
        guard frame.payload.count == 1 << 20, let number = frame.payload.first else { throw ScriptFailure.ended }
        seen.insert(number)
      }
      guard seen == Set(0..<64) else { throw ScriptFailure.ended }
      _ = try connection.readFrame()
      try connection.send(Frame.close(1000).encoded())
    }
    let handler = makeHandler {
      $0.sendQueueLimit = 3 << 20
      $0.sendQueueLowMark = 1 << 20
    }
    try await handler.connect(request: request(server))
    let sending = (0..<64).map { number in
      Task {
        try await handler.send(message: WebSocketMessage.binary(Data([UInt8(number)]) + Data(count: (1 << 20) - 1)))
      }
    }
    for task in sending {
      _ = await task.result
      #expect(handler.buffered.bytes <= 3 << 20)
    }
    try await handler.disconnect()
    #expect(server.failures == [])
  }

  @Test("a task that takes messages as large as the receive buffer gets all of them", arguments: [1, 100, 1 << 20])
  func largeMessagesOneByOne(length: Int) async throws {
    let frame = Frame(.binary, [UInt8](repeating: 1, count: length)).encoded()
    let server = try ScriptedServer { connection in
      try connection.open()
      for _ in 0..<5 { try connection.send(frame) }
      try connection.send(Frame.close(1000).encoded())
      _ = try connection.readFrame()
    }
    let handler = makeHandler { $0.receiveBufferLimit = length }
    try await handler.connect(request: request(server))
    var lengths: [Int] = []
    for try await message in handler.messages(of: WebSocketMessage.self) { lengths.append(message.data.count) }
    #expect(lengths == Array(repeating: length, count: 5))
    #expect(server.failures == [])
  }

  @Test func `a send that waits for room ends with its task`() async throws {
    let gate = DispatchSemaphore(value: 0)
    let server = try ScriptedServer { connection in
      try connection.open()
      gate.wait()
    }
    defer { gate.signal() }
    let handler = makeHandler { $0.sendQueueLimit = 1 << 20 }
    try await handler.connect(request: request(server) { $0.closeTimeout = .milliseconds(100) })
    while handler.buffered.bytes < 1 << 20 { handler.send(.binary(Data(count: 1 << 20))) }
    let task = Task {
      await failure { () throws(Failure) in try await handler.send(message: WebSocketMessage.text("no room")) }
    }
    task.cancel()
    #expect(await task.value == .cancelled)
  }
}

/// Whether this process's memory is that of the code alone: a sanitizer keeps books of its own.
private var isCounted: Bool { ProcessInfo.processInfo.environment["SANITIZER"] == nil }

/// The memory of this process that is in use.
private func residentBytes() -> Int {
  let fields = (try? String(contentsOfFile: "/proc/self/statm", encoding: .utf8))?.split(separator: " ") ?? []
  return fields.count > 1 ? (Int(fields[1]) ?? 0) * Int(getpagesize()) : 0
}
