import Testing
import WebSocketCore
import WebSocketHandling
import WebSocketTesting
import WebSocketTransport
import TestSupport

@Suite("The reconnecting session under faults that users reported")
struct SessionFaultTests {
  @Test("R100: a server that falls silent is noticed by pings, and the session does not wait for its Close")
  func silence() throws {
    let bench = Bench()
    let server = try bench.opened()
    bench.manual.advance(by: .seconds(20))
    #expect(try server.readFrame().opcode == .ping)
    // Any byte is a sign of life: half a frame will do.
    bench.manual.advance(by: .seconds(19))
    server.send([0x81])
    bench.manual.advance(by: .seconds(20))
    #expect(bench.take() == [])
    #expect(try server.readFrame().opcode == .ping)
    bench.manual.advance(by: .seconds(1))
    let dead = Failure.closed(
      CloseRecord(code: .abnormalClosure, initiator: .local, isClean: false, transportEnd: .timedOut))
    #expect(
      bench.take() == [.problem(dead), .state(.waiting(attempt: 1, delay: .zero)), .state(.connecting)])
    #expect(server.unread == [])
    #expect(server.clientHasClosed)
    _ = try bench.open()
    #expect(bench.take() == [.state(.connected)])
  }

  /// A way in which an attempt or a connection ends.
  enum End: CaseIterable {
    case refused
    case hanging
    case resetAtOnce
    case noAnswer
    case nonsense
    case reset
    case finished
    case violation
    case goingAway
  }

  @Test("R101: after every end the session says so and comes back, with one connection", arguments: End.allCases)
  func everyEnd(end: End) throws {
    let bench = Bench()
    switch end {
    case .refused: bench.manual.script(address: "192.0.2.1", .refused())
    case .hanging: bench.manual.script(address: "192.0.2.1", .never)
    case .resetAtOnce, .noAnswer, .nonsense, .reset, .finished, .violation, .goingAway: break
    }
    // One failure is enough: the gate holds the next attempt back.
    bench.start()
    bench.with { $0.setGate(isOpen: false) }
    switch end {
    case .refused, .hanging: break
    case .resetAtOnce: try bench.manual.nextConnection().reset()
    case .noAnswer: try bench.manual.nextConnection().readRequest()
    case .nonsense: try bench.manual.nextConnection().send(text: "SSH-2.0-OpenSSH\r\n\r\n")
    case .reset: try bench.open().reset()
    case .finished: try bench.open().finish()
    case .violation: try bench.open().send([0xFF, 0xFF, 0xFF])
    case .goingAway:
      let server = try bench.open()
      server.sendClose(.goingAway)
      server.finish()
    }
    bench.manual.advance(by: .seconds(30))
    let told = bench.take()
    #expect(told.filter { if case .problem = $0 { true } else { false } }.count == 1)
    #expect(told.suffix(2) == [.state(.waiting(attempt: 1, delay: .zero)), .state(.held)])
    #expect(bench.isQuiet)
    bench.manual.script(address: "192.0.2.1", .accepted())
    bench.with { $0.setGate(isOpen: true) }
    let server = try bench.open()
    server.send(.text("welcome back"))
    bench.receive()
    #expect(bench.take() == [.state(.connecting), .state(.connected), .message("welcome back")])
  }

  @Test("R102: connect inside the receive that the stop failed works, twenty times")
  func connectInReceive() throws {
    let bench = Bench()
    bench.start()
    for number in 1...20 {
      let server = try bench.open()
      bench.with { session in
        session.receive { [bench] (result: Result<WebSocketMessage, Failure>) in
          bench.say(.ok("receive \(number) failed: \((try? result.get()) == nil)"))
          bench.start()
        }
      }
      bench.manual.settle()
      _ = bench.take()
      server.sendClose(.normalClosure)
      try server.readClose()
      server.finish()
      let told = bench.take()
      #expect(told.dropFirst().first == .ok("receive \(number) failed: true"))
      #expect(told.last == .state(.connecting))
    }
    #expect(bench.manual.dialled.count == 21)
  }

  @Test(
    "R105: what a close code leads to",
    arguments: [
      (1000, false), (1001, true), (1008, false), (1011, true), (1012, true), (1013, true), (3000, false),
      (4000, false), (4999, false),
    ] as [(UInt16, Bool)])
  func closeCode(code: UInt16, retries: Bool) throws {
    let bench = Bench(.atOnce { ReconnectPolicy.standard($0) == .stop ? .stop : .retry(notBefore: .seconds(10)) })
    let server = try bench.opened()
    server.sendClose(CloseCode(code))
    try server.readClose()
    server.finish()
    let failure = Failure.closed(
      CloseRecord(code: CloseCode(code), initiator: .peer, isClean: true, transportEnd: .finished))
    let next = retries ? SessionState.waiting(attempt: 1, delay: .seconds(10)) : .stopped(.failed(failure))
    #expect(bench.take() == [.problem(failure), .state(next)])
    bench.manual.advance(by: .seconds(10))
    #expect(bench.manual.dialled.count == (retries ? 2 : 1))
  }

  @Test("R105: what a refusal leads to, and when", arguments: [401, 403, 404, 429, 500, 503])
  func refusal(status: Int) throws {
    let count = Lock(0)
    let bench = Bench(
      provider: RequestProvider { request, completion in
        count.withLock { $0 += 1 }
        completion(.success(request))
      })
    bench.start()
    func refuse() throws {
      let server = try bench.manual.nextConnection()
      try server.readRequest()
      server.send(text: "HTTP/1.1 \(status) No\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n")
      bench.manual.settle()
    }
    func states() -> [SessionState] {
      bench.take().compactMap { if case .state(let state) = $0 { state } else { nil } }
    }
    try refuse()
    switch status {
    case 401, 403:
      // The provider may have other credentials: once.
      #expect(states() == [.connecting, .waiting(attempt: 1, delay: .zero), .connecting])
      #expect(count.withLock { $0 } == 2)
      try refuse()
      #expect(states().map(\.isStopped) == [true])
    case 404:
      #expect(states().map(\.isStopped) == [false, true])
    default:
      #expect(states() == [.connecting, .waiting(attempt: 1, delay: .seconds(7))])
      bench.manual.advance(by: .milliseconds(6_999))
      #expect(count.withLock { $0 } == 1)
      bench.manual.advance(by: .milliseconds(1))
      #expect(count.withLock { $0 } == 2)
    }
  }

  @Test("R106: thirty connections that are dropped at once count as thirty failures, until one lasts")
  func flapping() throws {
    let bench = Bench(.atOnce(maximumFailures: 30))
    bench.start()
    for number in 1...29 {
      try bench.open().reset()
      #expect(bench.take().contains(.state(.waiting(attempt: number, delay: .zero))))
    }
    let lasting = try bench.open()
    bench.manual.advance(by: .seconds(5))
    lasting.reset()
    #expect(bench.take().contains(.state(.waiting(attempt: 1, delay: .zero))))
    for _ in 2...30 { try bench.open().reset() }
    try bench.open().reset()
    #expect(bench.take().last == .state(.stopped(.gaveUp(failures: 31, reset))))
    #expect(bench.isQuiet)
  }

  @Test("R107: stop from inside a callback is final: of the rule, the provider, an event", arguments: 0...2)
  func stopInside(place: Int) throws {
    let stop = SharedList<@Sendable () -> Void>()
    let isStopping = Lock(false)
    let stopNow: @Sendable (Int) -> Void = { here in
      if here == place, isStopping.withLock({ $0 }) { for body in stop.take() { body() } }
    }
    let bench = Bench(
      .atOnce { cause in
        stopNow(0)
        return ReconnectPolicy.standard(cause)
      },
      provider: RequestProvider { request, completion in
        stopNow(1)
        completion(.success(request))
      },
      onEvent: { if case .problem = $0 { stopNow(2) } })
    let server = try bench.opened()
    stop.append { bench.stop() }
    isStopping.withLock { $0 = true }
    server.reset()
    #expect(bench.take().last == .state(.stopped(.requested)))
    bench.manual.advance(by: .seconds(100))
    #expect(bench.take() == [])
    #expect(bench.manual.dialled.count == 1)
    #expect(bench.isQuiet)
  }

  /// What gives an attempt up that is under way.
  enum GivingUp: CaseIterable {
    case stop
    case otherCredentials
    case release
  }

  @Test("R107: a connect that succeeds after it was given up leaves no connection open", arguments: GivingUp.allCases)
  func lateConnect(how: GivingUp) {
    let handler = LateHandler()
    let manual = ManualEnvironment()
    let told = SharedList<SessionEvent>()
    var session: ReconnectingSession? = ReconnectingSession(
      handler, policy: .tenSeconds, logger: SilentLogger(), environment: manual.environment
    ) { told.append($0) }
    session?.start(Bench.request)
    manual.settle()
    switch how {
    case .stop:
      session?.stop()
      session?.start(Bench.request)
    case .otherCredentials: session?.setCredentialKey("other")
    case .release: session = nil
    }
    manual.settle()
    handler.succeed()
    manual.settle()
    #expect(!handler.isConnected)
    #expect(handler.isConnecting == (how != .release))
    handler.succeed()
    manual.settle()
    #expect(handler.isConnected == (how != .release))
    #expect(!told.take().contains { if case .problem = $0 { true } else { false } })
  }

  @Test("R109: the total time ends attempts that hang, with all their phases")
  func totalTime() {
    let asked = Lock(0)
    let bench = Bench(
      ReconnectPolicy(
        backoff: Backoff(first: .zero, base: .zero, maximum: .zero), maximumTime: .seconds(25)),
      provider: RequestProvider { request, completion in
        // The provider is silent in turn, so that its time counts as well.
        let number = asked.withLock { count in
          count += 1
          return count
        }
        if !number.isMultiple(of: 2) { completion(.success(request)) }
      })
    bench.manual.script(address: "192.0.2.1", .never)
    bench.start()
    bench.manual.advance(by: .seconds(600))
    #expect(asked.withLock { $0 } == 4)
    #expect(bench.take().last == .state(.stopped(.gaveUp(failures: 4, .timedOut(.connect)))))
    #expect(bench.isQuiet)
  }
}

extension SessionState {
  fileprivate var isStopped: Bool { if case .stopped = self { true } else { false } }
}
