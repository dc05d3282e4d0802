import Foundation
import Testing
import WebSocketCore
import WebSocketHandling
import WebSocketTesting

/// How far an attempt to connect has come.
enum ConnectPhase: CaseIterable {
  case resolving
  case dialling
  case waitingForAnswer
  case halfAnswered

  /// Starts an attempt that stays in this phase.
  func begin(_ client: Client, _ request: NetworkRequest = Client.request()) throws {
    switch self {
    case .resolving: client.manual.script(name: "chat.example", .never)
    case .dialling: client.manual.script(address: "192.0.2.1", .never)
    case .waitingForAnswer, .halfAnswered: break
    }
    client.connect(request)
    client.manual.settle()
    if self == .halfAnswered {
      let server = try client.manual.nextConnection()
      server.send(Array(try server.answer(to: server.readRequest()).dropLast(10)))
      client.manual.settle()
    }
  }

  /// Lets later attempts succeed.
  static func heal(_ manual: ManualEnvironment) {
    manual.script(name: "chat.example", .addresses(["192.0.2.1"]))
    manual.script(address: "192.0.2.1", .accepted())
  }
}

@Suite("Time")
struct TimeTests {
  @Test(
    "R32: the connect time-out is exact in each phase and leaves nothing behind", arguments: ConnectPhase.allCases,
    Place.allCases)
  func connectTimeout(phase: ConnectPhase, place: Place) throws {
    let client = Client(place)
    try phase.begin(client)
    client.send("early")
    client.receive()
    client.ping()
    client.manual.advance(by: .milliseconds(9_999))
    #expect(client.journal.all == [])
    client.manual.advance(by: .milliseconds(1))
    let failure = Failure.timedOut(.connect)
    #expect(
      client.journal.take() == [
        .failed("connect", failure), .failed("send early", failure), .failed("receive", failure),
        .failed("ping", failure),
      ])
    #expect(client.manual.everythingIsClosed)
    #expect(!client.manual.hasTimers)
    // The state is as if nothing had been tried.
    ConnectPhase.heal(client.manual)
    client.connect()
    client.manual.settle()
    try #require(client.manual.connections.last).open()
    client.manual.settle()
    #expect(client.journal.all == [.ok("connect")])
  }

  @Test("R32: bytes that drip in do not extend the deadline", arguments: Place.allCases)
  func drip(place: Place) throws {
    let client = Client(place)
    client.connect()
    let server = try client.manual.nextConnection()
    let answer = try server.answer(to: server.readRequest())
    for octet in answer.prefix(60) {
      server.send([octet])
      client.manual.advance(by: .milliseconds(200))
    }
    #expect(client.journal.timeline == [Timed(10_000, .failed("connect", .timedOut(.connect)))])
    #expect(server.clientHasClosed)
  }

  @Test("name, TCP and answer share one deadline", arguments: Place.allCases)
  func oneDeadline(place: Place) throws {
    let client = Client(place)
    client.manual.script(name: "chat.example", .addresses(["192.0.2.1"], after: .seconds(4)))
    client.manual.script(address: "192.0.2.1", .accepted(after: .seconds(4)))
    client.connect()
    client.manual.advance(by: .seconds(20))
    #expect(client.journal.timeline == [Timed(10_000, .failed("connect", .timedOut(.connect)))])
  }

  @Test("an answer in the last moment is in time, and the connect timer is forgotten", arguments: Place.allCases)
  func lastMoment(place: Place) throws {
    let client = Client(place)
    client.connect()
    let server = try client.manual.nextConnection()
    client.manual.advance(by: .milliseconds(9_999))
    try server.open()
    client.manual.settle()
    #expect(!client.manual.hasTimers)
    client.manual.advance(by: .seconds(60))
    client.receive()
    server.send(.text("still here"))
    client.manual.settle()
    #expect(
      client.journal.timeline == [Timed(9_999, .ok("connect")), Timed(69_999, .message(.text("still here")))])
  }

  @Test(
    "R08: a refusal's body that drips in is cut after two seconds, or at the connect deadline if that is sooner",
    arguments: [(0, 2_000, 20), (9_000, 10_000, 10)])
  func refusalBody(headAt: Int, end: Int, bytes: Int) throws {
    let client = Client(.queue)
    client.connect()
    let server = try client.manual.nextConnection()
    try server.readRequest()
    client.manual.advance(by: .milliseconds(headAt))
    server.send(text: "HTTP/1.1 401 Unauthorized\r\nContent-Length: 10000000\r\n\r\n")
    for _ in 0..<40 {
      server.send(text: "x")
      client.manual.advance(by: .milliseconds(100))
    }
    let refusal = HandshakeRefusal(
      status: 401, headers: [HTTPField(name: "Content-Length", value: "10000000")],
      body: Array(repeating: 0x78, count: bytes))
    #expect(client.journal.timeline == [Timed(end, .failed("connect", .handshakeRefused(refusal)))])
    #expect(server.clientHasClosed)
  }

  @Test("R65: a peer that never answers Close ends at the close time-out exactly", arguments: Place.allCases)
  func closeTimeout(place: Place) throws {
    let client = Client(place)
    let server = try client.open()
    client.receive()
    client.disconnect()
    client.disconnect("second")
    #expect(try server.readClose() == .normalClosure)
    client.manual.advance(by: .milliseconds(4_999))
    #expect(client.journal.all == [])
    #expect(!server.clientHasClosed)
    client.manual.advance(by: .milliseconds(1))
    #expect(
      client.journal.timeline == [
        Timed(5_000, .failed("receive", lost(.timedOut, by: .local))),
        Timed(5_000, .failed("disconnect", .timedOut(.close))), Timed(5_000, .failed("second", .timedOut(.close))),
      ])
    #expect(server.clientHasClosed)
    #expect(!client.manual.hasTimers)
  }

  @Test("R65: a peer that reads nothing cannot hold the close back", arguments: Place.allCases)
  func closeTimeoutWhileBlocked(place: Place) throws {
    let client = Client(place)
    let server = try client.open()
    server.setWriteRoom(5)
    client.send("never gets through")
    client.disconnect()
    client.manual.advance(by: .seconds(5))
    #expect(
      client.journal.timeline == [
        Timed(5_000, .failed("send never gets through", lost(.timedOut, by: .local))),
        Timed(5_000, .failed("disconnect", .timedOut(.close))),
      ])
    #expect(server.clientHasClosed)
  }

  @Test("the close time-out of the request counts", arguments: Place.allCases)
  func ownCloseTimeout(place: Place) throws {
    let client = Client(place)
    let server = try client.open(Client.request { $0.closeTimeout = .milliseconds(1_234) })
    client.disconnect()
    client.manual.advance(by: .seconds(5))
    #expect(client.journal.timeline == [Timed(1_234, .failed("disconnect", .timedOut(.close)))])
    #expect(server.clientHasClosed)
  }

  @Test("R66: the peer's Close is answered at once; its FIN is awaited, but not for ever", arguments: Place.allCases)
  func peerClose(place: Place) throws {
    let client = Client(place)
    let server = try client.open()
    client.receive()
    server.sendClose(CloseCode(3001), reason: "enough")
    #expect(try server.readClose() == CloseCode(3001))
    client.manual.advance(by: .milliseconds(4_999))
    #expect(client.journal.all == [])
    #expect(!server.clientHasClosed)
    client.manual.advance(by: .milliseconds(1))
    let record = closed(CloseCode(3001), by: .peer, reason: "enough", end: .timedOut)
    #expect(client.journal.timeline == [Timed(5_000, .failed("receive", record))])
    #expect(server.clientHasClosed)
    #expect(!client.manual.hasTimers)
  }

  @Test("R66: with the peer's FIN the connection ends at once", arguments: Place.allCases)
  func peerCloseWithFIN(place: Place) throws {
    let client = Client(place)
    let server = try client.open()
    client.receive()
    server.sendClose(.normalClosure)
    client.manual.advance(by: .seconds(1))
    server.finish()
    client.manual.settle()
    #expect(client.journal.timeline == [Timed(1_000, .failed("receive", closed(.normalClosure, by: .peer)))])
    #expect(server.clientHasClosed)
    #expect(!client.manual.hasTimers)
  }

  @Test("a ping's round trip is the time between ping and pong", arguments: Place.allCases)
  func roundTrip(place: Place) throws {
    let client = Client(place)
    let server = try client.open()
    client.ping()
    let ping = try server.readFrame()
    #expect(ping.opcode == .ping)
    client.manual.advance(by: .milliseconds(37))
    server.send(frame: Frame(.pong, ping.payload))
    client.manual.settle()
    #expect(client.journal.all == [.pong(after: .milliseconds(37))])
  }
}

@Suite("Giving up a connect")
struct CancelledConnectTests {
  @Test(
    "R67: disconnect while connecting: connect is cancelled, then disconnect succeeds",
    arguments: ConnectPhase.allCases, Place.allCases)
  func disconnect(phase: ConnectPhase, place: Place) throws {
    let client = Client(place)
    try phase.begin(client)
    client.send("early")
    client.disconnect()
    client.manual.advance(by: .seconds(60))
    #expect(
      client.journal.timeline == [
        Timed(0, .failed("connect", .cancelled)), Timed(0, .failed("send early", .cancelled)),
        Timed(0, .ok("disconnect")),
      ])
    #expect(client.manual.everythingIsClosed)
  }

  @Test("R67: disconnect at the same instant as the answer", arguments: Place.allCases)
  func disconnectWithAnswer(place: Place) throws {
    let client = Client(place)
    client.connect()
    let server = try client.manual.nextConnection()
    try server.open()
    client.disconnect()
    client.manual.settle()
    #expect(client.journal.all == [.failed("connect", .cancelled), .ok("disconnect")])
    #expect(server.clientHasClosed)
    #expect(!client.manual.hasTimers)
  }

  @Test("a name that resolves after the connect was given up is nobody's", arguments: Place.allCases)
  func lateName(place: Place) throws {
    let client = Client(place)
    client.manual.script(name: "chat.example", .addresses(["192.0.2.1"], after: .seconds(3)))
    client.connect()
    client.disconnect()
    client.connect(Client.request("ws://192.0.2.9/"))
    client.manual.advance(by: .seconds(5))
    #expect(client.manual.dialled == ["192.0.2.9:80"])
    try client.manual.nextConnection().open()
    client.manual.settle()
    #expect(client.journal.all == [.failed("connect", .cancelled), .ok("disconnect"), .ok("connect")])
  }
}
