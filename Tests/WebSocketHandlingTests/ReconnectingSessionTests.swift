import Foundation
import Testing
import WebSocketCore
import WebSocketHandling
import WebSocketTesting
import WebSocketTransport
import TestSupport

@Suite("The reconnecting session")
struct ReconnectingSessionTests {
  @Test func `connect completes on the first success, and receive stays pending over losses`() throws {
    let bench = Bench()
    bench.connect()
    bench.receive()
    try bench.manual.nextConnection().reset()
    let first = try bench.open()
    first.reset()
    let second = try bench.open()
    second.send(.text("hello"))
    let told = bench.take()
    #expect(told.filter { $0 == .ok("connect") }.count == 1)
    #expect(
      told.suffix(7) == [
        .state(.connected), .ok("connect"), .problem(reset), .state(.waiting(attempt: 2, delay: .zero)),
        .state(.connecting), .state(.connected), .message("hello"),
      ])
    bench.connect()
    #expect(bench.take() == [.failed("connect", .connectionFailed("WebSocket is already connected"))])
  }

  @Test func `messages of a connection that ended are still served, in order`() throws {
    let bench = Bench(.tenSeconds)
    let server = try bench.opened()
    for text in ["1", "2", "3"] { server.send(.text(text)) }
    server.reset()
    bench.manual.settle()
    bench.receive()
    bench.receive()
    let told = bench.take()
    #expect(told.suffix(2) == [.message("1"), .message("2")])
  }

  @Test("R104: the provider is asked before each attempt, and sees the caller's request")
  func provider() throws {
    let asked = SharedList<NetworkRequest>()
    let count = Lock(0)
    let provider = RequestProvider { request, completion in
      asked.append(request)
      var request = request
      let number = count.withLock { count in
        count += 1
        return count
      }
      request.headers.append("Authorization", "token \(number)")
      completion(.success(request))
      completion(.failure(CancellationError()))
    }
    let bench = Bench(provider: provider)
    bench.start()
    var tokens: [String] = []
    for _ in 0..<3 {
      let server = try bench.manual.nextConnection()
      let request = try server.readRequest()
      tokens += request.split(separator: "\r\n").filter { $0.hasPrefix("Authorization") }.map(String.init)
      server.send(try server.answer(to: request))
      bench.manual.settle()
      server.reset()
    }
    #expect(tokens == ["Authorization: token 1", "Authorization: token 2", "Authorization: token 3"])
    bench.manual.settle()
    var watched = Bench.request
    watched.keepalive = Keepalive()
    #expect(asked.take() == Array(repeating: watched, count: 4))
  }

  @Test("R104: a provider's failure follows the policy")
  func providerFails() throws {
    let bench = Bench(
      .atOnce { $0.error is CancellationError && $0.failures < 3 ? .retry(notBefore: .seconds(1)) : .stop },
      provider: RequestProvider { _, completion in completion(.failure(CancellationError())) })
    bench.start()
    bench.manual.advance(by: .seconds(10))
    let failure = ReconnectCause(phase: .request, error: CancellationError()).failure
    #expect(
      bench.take() == [
        .state(.connecting), .problem(failure), .state(.waiting(attempt: 1, delay: .seconds(1))),
        .state(.connecting), .problem(failure), .state(.waiting(attempt: 2, delay: .seconds(1))),
        .state(.connecting), .problem(failure), .state(.stopped(.failed(failure))),
      ])
    #expect(bench.isQuiet)
    #expect(bench.manual.dialled == [])
  }

  @Test("R109: a provider that never answers is given up at the connect time-out")
  func providerIsSilent() {
    let bench = Bench(.tenSeconds, provider: RequestProvider { _, _ in })
    bench.start()
    bench.manual.advance(by: .milliseconds(9_999))
    #expect(bench.take() == [.state(.connecting)])
    bench.manual.advance(by: .milliseconds(1))
    #expect(
      bench.take() == [.problem(.timedOut(.connect)), .state(.waiting(attempt: 1, delay: .seconds(10)))])
  }

  @Test("R105: 503 with Retry-After is left alone so long")
  func retryAfter() throws {
    let bench = Bench()
    bench.start()
    let server = try bench.manual.nextConnection()
    try server.readRequest()
    server.send(text: "HTTP/1.1 503 Busy\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n")
    bench.manual.settle()
    #expect(bench.take().last == .state(.waiting(attempt: 1, delay: .seconds(7))))
    bench.manual.advance(by: .milliseconds(6_999))
    #expect(bench.manual.dialled.count == 1)
    bench.manual.advance(by: .milliseconds(1))
    #expect(bench.manual.dialled.count == 2)
  }

  @Test("R105: after a close by the application the session stops, and everything that waits hears why")
  func applicationClose() throws {
    let bench = Bench()
    let server = try bench.opened()
    bench.receive()
    server.sendClose(CloseCode(4001), reason: "banned")
    try server.readClose()
    server.finish()
    let failure = Failure.closed(
      CloseRecord(
        code: CloseCode(4001), reason: "banned", initiator: .peer, isClean: true, transportEnd: .finished))
    #expect(
      bench.take() == [.problem(failure), .failed("receive", failure), .state(.stopped(.failed(failure)))])
    bench.receive()
    bench.send("late")
    #expect(bench.take() == [.failed("receive", failure), .outcome("late", .dropped(failure))])
    #expect(bench.isQuiet)
  }

  @Test("R106: giving up has a name, and connect hears of it")
  func gaveUp() {
    let bench = Bench(.atOnce(maximumFailures: 1))
    bench.manual.script(address: "192.0.2.1", .refused())
    bench.connect()
    bench.send("never")
    let told = bench.take()
    guard case .state(.stopped(.gaveUp(failures: 2, let failure))) = told.last else {
      Issue.record("\(told)")
      return
    }
    #expect(told.suffix(3).dropLast() == [.failed("connect", failure), .outcome("never", .dropped(failure))])
    #expect(bench.manual.dialled.count == 2)
    #expect(bench.isQuiet)
  }

  @Test("R106: a server that accepts and drops at once is asked ever more slowly")
  func flapping() throws {
    let bench = Bench(ReconnectPolicy())
    bench.start()
    var delays: [Duration] = []
    for _ in 0..<30 {
      try bench.open().reset()
      guard case .state(.waiting(attempt: _, let delay)) = bench.take().last else { break }
      delays.append(delay)
      bench.manual.advance(by: delay)
    }
    let bounds = (1...30).map { Backoff().bound(attempt: $0) }
    #expect(delays.count == 30 && zip(delays, bounds).allSatisfy { $0 <= $1 })
    #expect(delays.reduce(.zero, +) > .seconds(200))
  }

  /// A state to stop in.
  enum Stage: CaseIterable {
    case held
    case asking
    case connecting
    case connected
    case waiting
  }

  @Test("R107: stop ends whatever is under way, and start works again", arguments: Stage.allCases)
  func stop(stage: Stage) throws {
    let isSilent = Lock(stage == .asking)
    let bench = Bench(
      .tenSeconds,
      provider: RequestProvider { request, completion in
        if !isSilent.withLock({ $0 }) { completion(.success(request)) }
      })
    switch stage {
    case .held: bench.with { $0.setGate(isOpen: false) }
    case .connecting: bench.manual.script(address: "192.0.2.1", .never)
    case .asking, .connected, .waiting: break
    }
    bench.connect()
    bench.manual.settle()
    if stage == .connected || stage == .waiting {
      let server = try bench.open()
      if stage == .waiting { server.reset() }
    }
    _ = bench.take()
    bench.receive()
    bench.disconnect()
    if stage == .connected {
      let server = try #require(bench.manual.connections.last)
      #expect(try server.readClose() == .normalClosure)
      server.sendClose(.normalClosure)
      server.finish()
    }
    let isDone = stage == .connected || stage == .waiting
    #expect(
      bench.take() == (isDone ? [] : [.failed("connect", .cancelled)]) + [
        .failed("receive", .cancelled), .state(.stopped(.requested)), .ok("disconnect"),
      ])
    #expect(bench.isQuiet)
    bench.manual.advance(by: .seconds(100))
    #expect(bench.take() == [])
    bench.disconnect()
    #expect(bench.take() == [.failed("disconnect", .connectionFailed("WebSocket is not connected"))])
    isSilent.withLock { $0 = false }
    bench.manual.script(address: "192.0.2.1", .accepted())
    bench.with { $0.setGate(isOpen: true) }
    bench.connect()
    _ = try bench.open()
    #expect(bench.take() == [.state(.connecting), .state(.connected), .ok("connect")])
  }

  @Test func `a connection that was lost a moment before does not make disconnect fail`() async throws {
    let mock = MockWebSocketHandler()
    mock.script(.disconnect, .failure(.connectionFailed("WebSocket is not connected")))
    let session = ReconnectingSession(mock, logger: SilentLogger())
    try await session.connect(request: Bench.request)
    try await session.disconnect()
    #expect(session.currentState == .stopped(.requested))
  }

  @Test("R102: connect inside the completion of disconnect works, twenty times")
  func connectInCompletion() throws {
    let bench = Bench()
    bench.connect()
    for _ in 0..<20 {
      let server = try bench.open()
      #expect(bench.take() == [.state(.connecting), .state(.connected), .ok("connect")])
      bench.with { session in
        session.disconnect { result in
          bench.note("disconnect", result)
          bench.connect()
        }
      }
      try server.readClose()
      server.sendClose(.normalClosure)
      server.finish()
      bench.manual.settle()
      let told = bench.take()
      #expect(told == [.state(.stopped(.requested)), .ok("disconnect"), .state(.connecting)])
      bench.say(.state(.connecting))
    }
  }

  @Test func `a start before the old connection has closed waits for it`() throws {
    let bench = Bench()
    let server = try bench.opened()
    bench.stop()
    bench.start()
    #expect(bench.take() == [.state(.stopped(.requested)), .state(.connecting)])
    #expect(bench.manual.dialled.count == 1)
    try server.readClose()
    server.sendClose(.normalClosure)
    server.finish()
    _ = try bench.open()
    #expect(bench.take() == [.state(.connected)])
  }

  @Test func `a closed gate holds attempts back and ends no connection`() throws {
    let bench = Bench(.tenSeconds)
    let server = try bench.opened()
    bench.with { $0.setGate(isOpen: false) }
    #expect(bench.take() == [])
    server.reset()
    bench.manual.advance(by: .seconds(100))
    #expect(
      bench.take() == [
        .problem(reset), .state(.waiting(attempt: 1, delay: .seconds(10))), .state(.held),
      ])
    bench.with { $0.setGate(isOpen: true) }
    _ = try bench.open()
    #expect(bench.take() == [.state(.connecting), .state(.connected)])
  }

  @Test func `reconnectNow ends the wait, and does nothing else`() throws {
    let bench = Bench(.tenSeconds)
    let server = try bench.opened()
    bench.with { $0.reconnectNow() }
    #expect(bench.take() == [])
    server.reset()
    bench.manual.settle()
    bench.with { $0.reconnectNow() }
    bench.with { $0.reconnectNow() }
    _ = try bench.open()
    #expect(bench.take().suffix(2) == [.state(.connecting), .state(.connected)])
    #expect(bench.manual.dialled.count == 2)
  }

  @Test func `another credential key reconnects, the same one does not`() throws {
    let bench = Bench()
    bench.with { $0.setCredentialKey("ann") }
    let server = try bench.opened()
    bench.receive()
    bench.with { $0.setCredentialKey("ann") }
    #expect(bench.take() == [])
    bench.with { $0.setCredentialKey("bob") }
    #expect(bench.take() == [.state(.connecting)])
    try server.readClose()
    server.sendClose(.normalClosure)
    server.finish()
    let second = try bench.open()
    second.send(.text("hello bob"))
    #expect(bench.take() == [.state(.connected), .message("hello bob")])
  }

  @Test func `never started, calls fail with the texts of a handler without a connection`() {
    let bench = Bench()
    bench.send("early")
    bench.receive()
    bench.disconnect()
    #expect(
      bench.take() == [
        .outcome("early", .dropped(.messageSendFailed("WebSocket is not connected"))),
        .failed("receive", .messageReceiveFailed("WebSocket is not connected")),
        .failed("disconnect", .connectionFailed("WebSocket is not connected")),
      ])
  }

  @Test func `JSON goes through both ways, and what cannot be decoded ends nothing`() throws {
    struct Line: Codable, Sendable, Equatable { var text: String }
    let bench = Bench()
    let server = try bench.opened()
    let lines = SharedList<Result<Line, Failure>>()
    bench.with { session in
      session.send(message: Line(text: "out")) { bench.note("send", $0) }
      for _ in 0..<2 { session.receive { lines.append($0) } }
    }
    #expect(try server.readMessage() == .text(#"{"text":"out"}"#))
    server.send(.text("nonsense"))
    server.send(.text(#"{"text":"in"}"#))
    #expect(bench.take() == [.ok("send")])
    let received = lines.take()
    #expect(received.count == 2)
    #expect(received.last == .success(Line(text: "in")))
    if case .failure(.undecodable(let message, _, _)) = received.first {
      #expect(message == .text("nonsense"))
    } else {
      Issue.record("\(received)")
    }
  }

  @Test("a released session closes its connection and answers everything", arguments: [false, true])
  func release(isConnected: Bool) throws {
    let bench = Bench()
    bench.connect()
    if isConnected { _ = try bench.open() } else { bench.manual.settle() }
    _ = bench.take()
    if !isConnected { bench.send("kept") }
    bench.receive()
    bench.manual.settle()
    bench.release()
    #expect(
      bench.take()
        == (isConnected ? [] : [.failed("connect", .cancelled), .outcome("kept", .dropped(.cancelled))])
        + [.failed("receive", .cancelled)])
    bench.manual.advance(by: .seconds(10))
    #expect(bench.isQuiet)
  }
}
