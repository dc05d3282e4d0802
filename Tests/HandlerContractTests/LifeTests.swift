import Foundation
import Testing
import WebSocketCore
import WebSocketHandling
import WebSocketTesting
import WebSocketTransport
import TestSupport

/// Where a handler stands in its life.
enum Stage: CaseIterable {
  case unused
  case resolving
  case dialling
  case waitingForAnswer
  case open
  case openWithWork
  case closing
  case closedByPeer
  case ended
  case refused

  /// Brings a client there; returns what of its calls still waits.
  func reach(_ client: Client) throws -> [String] {
    switch self {
    case .unused: return []
    case .resolving:
      try ConnectPhase.resolving.begin(client)
      return ["connect"]
    case .dialling:
      try ConnectPhase.dialling.begin(client)
      return ["connect"]
    case .waitingForAnswer:
      try ConnectPhase.halfAnswered.begin(client)
      client.send("early")
      return ["connect", "send early"]
    case .open:
      _ = try client.open()
      return []
    case .openWithWork:
      let server = try client.open()
      server.setWriteRoom(4)
      client.send("blocked")
      client.receive()
      client.ping()
      client.manual.settle()
      return ["send blocked", "receive", "ping"]
    case .closing:
      let server = try client.open()
      client.receive()
      client.disconnect()
      try server.readClose()
      return ["receive", "disconnect"]
    case .closedByPeer:
      let server = try client.open()
      client.receive()
      server.sendClose(.normalClosure)
      try server.readClose()
      return ["receive"]
    case .ended:
      try client.open().reset()
      client.manual.settle()
      return []
    case .refused:
      client.manual.script(address: "192.0.2.1", .refused())
      client.connect()
      client.manual.settle()
      _ = client.journal.take()
      return []
    }
  }
}

@Suite("The end of a handler")
struct ReleaseTests {
  @Test(
    "R114, R115: releasing the last reference answers everything once and frees everything", arguments: Stage.allCases,
    Place.allCases)
  func release(stage: Stage, place: Place) throws {
    let client = Client(place)
    let waiting = try stage.reach(client)
    weak let handler = client.handler
    client.handler = nil
    #expect(handler == nil)
    client.manual.advance(by: .seconds(60))
    var answers: [String: [Event]] = [:]
    for event in client.journal.all {
      if case .failed(let name, _) = event { answers[name, default: []].append(event) }
    }
    #expect(client.journal.all.count == waiting.count)
    for name in waiting where name != "disconnect" { #expect(answers[name] == [.failed(name, .cancelled)]) }
    if waiting.contains("disconnect") { #expect(answers["disconnect"] == [.failed("disconnect", .timedOut(.close))]) }
    #expect(client.manual.everythingIsClosed)
    #expect(client.isGone)
  }

  @Test("releasing an open handler closes with 1001 after what was queued", arguments: Place.allCases)
  func closeCode(place: Place) throws {
    let client = Client(place)
    let server = try client.open()
    server.setWriteRoom(2)
    client.send("last words")
    client.handler = nil
    client.manual.settle()
    server.setWriteRoom(nil)
    #expect(try server.readMessage() == .text("last words"))
    #expect(try server.readClose() == .goingAway)
    server.sendClose(.goingAway)
    server.finish()
    client.manual.settle()
    #expect(client.journal.all == [.failed("send last words", .cancelled)])
    #expect(server.clientHasClosed)
    #expect(client.isGone)
  }

  @Test("3: what waits for a connect fails behind it, also where the handler is released", arguments: Place.allCases)
  func releaseWhileConnecting(place: Place) throws {
    let client = Client(place)
    client.connect()
    client.send("early")
    client.receive()
    client.ping()
    client.manual.settle()
    client.handler = nil
    client.manual.settle()
    #expect(
      client.journal.all == ["connect", "send early", "receive", "ping"].map { Event.failed($0, .cancelled) })
  }

  @Test("R115: a handler may be released inside each of its callbacks", arguments: Place.allCases)
  func releaseInCallback(place: Place) throws {
    for name in ["connect", "send", "receive", "ping", "disconnect", "message", "control"] {
      let manual = ManualEnvironment()
      let journal = Journal(manual)
      let held = Lock<DefaultWebSocketHandler?>(nil)
      let drop: @Sendable (String) -> Void = { called in
        guard called == name else { return }
        let last = held.withLock { $0.take() }
        if last != nil { journal.note(.step("released in \(called)")) }
      }
      var configuration = HandlerConfiguration()
      configuration.callbacks = place == .queue ? .privateQueue : .eventLoop
      configuration.onControlFrame = { event in if case .ping = event { drop("control") } }
      held.withLock {
        $0 = DefaultWebSocketHandler(
          logger: SilentLogger(), configuration: configuration, environment: manual.environment)
      }
      weak let handler = held.withLock { $0 }
      handler?.connect(request: Client.request()) { _ in drop("connect") }
      try manual.nextConnection().open()
      manual.settle()
      let server = try #require(manual.connections.first)
      handler?.send(message: WebSocketMessage.text("x")) { _ in drop("send") }
      handler?.ping { _ in drop("ping") }
      server.send(frame: Frame(.ping))
      if name == "message" {
        handler?.onMessage { _ in drop("message") }
      } else {
        handler?.receive { (_: Result<WebSocketMessage, Failure>) in drop("receive") }
      }
      server.send(.text("y"))
      while let frame = try? server.readFrame() {
        if frame.opcode == .ping { server.send(frame: Frame(.pong, frame.payload)) }
      }
      manual.settle()
      handler?.disconnect { _ in drop("disconnect") }
      manual.advance(by: .seconds(60))
      #expect(journal.all == [.step("released in \(name)")])
      #expect(handler == nil, "\(name)")
      #expect(manual.everythingIsClosed, "\(name)")
    }
  }
}

@Suite("Connecting again")
struct ConnectAgainTests {
  @Test("R102: connect works inside the completion of disconnect, twenty times", arguments: Place.allCases)
  func insideDisconnect(place: Place) throws {
    let client = Client(place)
    let handler = try #require(client.handler)
    let journal = client.journal
    for round in 1...20 {
      if round == 1 { client.connect() }
      let server = try client.manual.nextConnection()
      try server.open()
      client.manual.settle()
      handler.disconnect { [weak handler] result in
        journal.note("disconnect \(round)", result)
        handler?.connect(request: Client.request()) { journal.note("connect \(round + 1)", $0) }
        journal.note(.step("returned \(round)"))
      }
      try server.readClose()
      server.sendClose(.normalClosure)
      server.finish()
      client.manual.settle()
    }
    var expected: [Event] = [.ok("connect")]
    for round in 1...20 {
      expected += [.ok("disconnect \(round)"), .step("returned \(round)")]
      if round < 20 { expected.append(.ok("connect \(round + 1)")) }
    }
    #expect(journal.all == expected)
  }

  @Test("R102: connect works inside the receive that the loss failed, twenty times", arguments: Place.allCases)
  func insideReceive(place: Place) throws {
    let client = Client(place)
    let handler = try #require(client.handler)
    let journal = client.journal
    client.connect()
    for round in 1...20 {
      let server = try client.manual.nextConnection()
      try server.open()
      client.manual.settle()
      handler.receive { [weak handler] (result: Result<WebSocketMessage, Failure>) in
        journal.note("receive \(round)", result.map { _ in })
        handler?.connect(request: Client.request()) { journal.note("connect \(round + 1)", $0) }
      }
      server.reset()
      client.manual.settle()
    }
    var expected: [Event] = [.ok("connect")]
    for round in 1...20 {
      expected.append(.failed("receive \(round)", lost(.reset)))
      if round < 20 { expected.append(.ok("connect \(round + 1)")) }
    }
    #expect(journal.all == expected)
  }

  @Test("R102: connect works inside the completion of a failed connect, twenty times", arguments: Place.allCases)
  func insideFailedConnect(place: Place) throws {
    let client = Client(place)
    client.manual.script(address: "192.0.2.1", .refused(after: .seconds(1)))
    let handler = try #require(client.handler)
    let journal = client.journal
    let attempts = Attempts(handler, journal, limit: 20)
    attempts.start()
    client.manual.advance(by: .seconds(60))
    let refused = Failure.unreachable(
      address: "192.0.2.1:80", errorNumber: ECONNREFUSED, reason: "Connection refused")
    #expect(journal.timeline == (1...20).map { Timed($0 * 1_000, .failed("connect \($0)", refused)) })
  }

  /// Connects again at each failure.
  private final class Attempts: Sendable {
    private let handler: DefaultWebSocketHandler
    private let journal: Journal
    private let limit: Int
    private let count = Lock(0)

    init(_ handler: DefaultWebSocketHandler, _ journal: Journal, limit: Int) {
      self.handler = handler
      self.journal = journal
      self.limit = limit
    }

    func start() {
      let number = count.withLock { count in
        count += 1
        return count
      }
      guard number <= limit else { return }
      handler.connect(request: Client.request()) { [self] result in
        journal.note("connect \(number)", result)
        start()
      }
    }
  }

  @Test("R101: after every kind of failure the next connect succeeds", arguments: FatalCause.all, Place.allCases)
  func afterFailure(cause: FatalCause, place: Place) throws {
    let client = Client(place)
    cause.prepare(client.manual)
    client.connect()
    try cause.act(client.manual)
    client.manual.advance(by: .seconds(10))
    #expect(client.journal.take() == [.failed("connect", cause.expected)])
    #expect(client.manual.everythingIsClosed)
    ConnectPhase.heal(client.manual)
    client.connect()
    client.manual.settle()
    try #require(client.manual.connections.last).open()
    client.manual.settle()
    #expect(client.journal.take() == [.ok("connect")])
  }

  @Test("R101: after every end of a connection the next connect succeeds", arguments: Place.allCases)
  func afterEnd(place: Place) throws {
    let client = Client(place)
    let violation = CloseRecord(
      code: .protocolError, reason: "opcode 3 is reserved", initiator: .local, isClean: false,
      transportEnd: .finished, violation: .reservedOpcode(3))
    let ends: [(end: (MemoryConnection) -> Void, expected: Failure)] = [
      ({ $0.reset() }, lost(.reset)), ({ $0.finish() }, lost(.finished)),
      (
        { server in
          server.send([0x83, 0x00])
          server.finish()
        }, .closed(violation)
      ),
      (
        { server in
          server.sendClose(.goingAway, reason: "bye")
          server.finish()
        }, closed(.goingAway, by: .peer, reason: "bye")
      ),
    ]
    for (end, expected) in ends {
      let server = try client.open()
      client.receive()
      end(server)
      client.manual.settle()
      #expect(client.journal.take() == [.failed("receive", expected)])
      #expect(server.clientHasClosed)
    }
  }
}

/// A way in which an attempt to connect ends.
struct FatalCause: Sendable, CustomTestStringConvertible {
  var testDescription: String
  var expected: Failure
  /// What is so before the attempt.
  var prepare: @Sendable (ManualEnvironment) -> Void = { _ in }
  /// What happens during the attempt.
  var act: @Sendable (ManualEnvironment) throws -> Void = { _ in }

  static let all = [
    FatalCause(
      testDescription: "the name is unknown", expected: .resolutionFailed(host: "chat.example", reason: "gone"),
      prepare: { $0.script(name: "chat.example", .failure("gone")) }),
    FatalCause(
      testDescription: "refused",
      expected: .unreachable(address: "192.0.2.1:80", errorNumber: ECONNREFUSED, reason: "Connection refused"),
      prepare: { $0.script(address: "192.0.2.1", .refused()) }),
    FatalCause(
      testDescription: "the dial hangs", expected: .timedOut(.connect),
      prepare: { $0.script(address: "192.0.2.1", .never) }),
    FatalCause(
      testDescription: "reset during the handshake", expected: .handshakeFailed(.connectionEnded),
      act: { try $0.nextConnection().reset() }),
    FatalCause(
      testDescription: "ended during the handshake", expected: .handshakeFailed(.connectionEnded),
      act: { try $0.nextConnection().finish() }),
    FatalCause(
      testDescription: "not HTTP", expected: .handshakeFailed(.notHTTP),
      act: { try $0.nextConnection().send(text: "SSH-2.0-OpenSSH\r\n\r\n") }),
    FatalCause(
      testDescription: "refused with a status",
      expected: .handshakeRefused(
        HandshakeRefusal(status: 503, headers: [HTTPField(name: "Content-Length", value: "0")], body: [])),
      act: { try $0.nextConnection().send(text: "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n") }),
  ]
}
