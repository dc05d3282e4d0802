import Testing
import WebSocketCore
import WebSocketHandling
import WebSocketTesting
import WebSocketTransport

@Suite("Keepalive and the idle time-out (RFC 6455 §5.5.2)")
struct KeepaliveTests {
  private static let watched = Client.request {
    $0.keepalive = Keepalive(interval: .seconds(20), deadline: .seconds(10))
  }

  @Test("R100: a silent connection is given up, without a closing handshake", arguments: Place.allCases)
  func dead(place: Place) throws {
    let client = Client(place)
    let server = try client.open(Self.watched)
    client.receive()
    client.manual.advance(by: .milliseconds(19_999))
    #expect(server.unread == [])
    client.manual.advance(by: .milliseconds(1))
    #expect(try server.readFrame().opcode == .ping)
    client.manual.advance(by: .milliseconds(9_999))
    #expect(client.journal.take() == [])
    client.manual.advance(by: .milliseconds(1))
    #expect(client.journal.timeline == [Timed(30_000, .failed("receive", lost(.timedOut, by: .local)))])
    #expect(server.unread == [])
    #expect(server.clientHasClosed)
    #expect(!client.manual.hasTimers)
  }

  @Test("an interval of nothing counts as 1 ms", arguments: Place.allCases)
  func noInterval(place: Place) throws {
    let client = Client(place)
    let server = try client.open(Client.request { $0.keepalive = Keepalive(interval: .zero) })
    client.manual.advance(by: .milliseconds(10))
    for _ in 1...10 { #expect(try server.readFrame().opcode == .ping) }
    #expect(server.unread == [])
  }

  @Test("a deadline of nothing counts as 1 ms, also while this endpoint does not read", arguments: Place.allCases)
  func noDeadline(place: Place) throws {
    let client = Client(place) { $0.receiveBufferLimit = 0 }
    let server = try client.open(
      Client.request { $0.keepalive = Keepalive(interval: .milliseconds(5), deadline: .zero) })
    server.send(.text("fills the buffer"))
    client.manual.advance(by: .milliseconds(50))
    #expect(client.journal.take() == [])
    client.receive()
    client.receive()
    client.manual.advance(by: .milliseconds(50))
    #expect(
      client.journal.take() == [.message(.text("fills the buffer")), .failed("receive", lost(.timedOut, by: .local))])
  }

  @Test(
    "a ping waits for the one before it to be written: a peer that reads nothing is owed one", arguments: Place.allCases
  )
  func unreadPings(place: Place) throws {
    let client = Client(place)
    let server = try client.open(Client.request { $0.keepalive = Keepalive(interval: .milliseconds(1)) })
    server.setWriteRoom(0)
    for _ in 0..<100 {
      client.manual.advance(by: .milliseconds(1))
      server.send(frame: Frame(.pong))
    }
    client.manual.settle()
    #expect(client.handler?.buffered.messages == 1)
    server.setWriteRoom(nil)
    #expect(try server.readFrame().opcode == .ping)
    #expect(server.unread == [])
    client.manual.advance(by: .milliseconds(1))
    #expect(try server.readFrame().opcode == .ping)
  }

  @Test("R100: any byte is a sign of life", arguments: Place.allCases)
  func anyByte(place: Place) throws {
    let client = Client(place)
    let server = try client.open(Self.watched)
    client.receive()
    client.manual.advance(by: .seconds(29))
    server.send([0x81])
    client.manual.advance(by: .seconds(20))
    #expect(client.journal.take() == [])
    client.manual.advance(by: .seconds(1))
    #expect(client.journal.timeline == [Timed(50_000, .failed("receive", lost(.timedOut, by: .local)))])
  }

  @Test("pongs keep a connection alive, and their times are kept", arguments: Place.allCases)
  func answered(place: Place) throws {
    let client = Client(place)
    let server = try client.open(Self.watched)
    for round in 1...10 {
      client.manual.advance(by: .seconds(20) - .milliseconds(round == 1 ? 0 : round - 1))
      let ping = try server.readFrame()
      client.manual.advance(by: .milliseconds(round))
      server.send(frame: Frame(.pong, ping.payload))
      client.manual.settle()
    }
    let times = try #require(client.handler).roundTripTimes
    #expect(times.count == 10)
    #expect(times.last == .milliseconds(10))
    #expect(times.mean == .microseconds(5_500))
    #expect(times.percentile(0.5) == .milliseconds(5))
    #expect(client.journal.take() == [])
  }

  @Test("R118: while this endpoint does not read, nothing is concluded", arguments: Place.allCases)
  func paused(place: Place) throws {
    let client = Client(place) { $0.receiveBufferLimit = 100 }
    let server = try client.open(Self.watched)
    let message = String(repeating: "x", count: 100)
    for _ in 0..<3 { server.send(.text(message)) }
    client.manual.advance(by: .seconds(300))
    #expect(client.journal.take() == [])
    #expect(server.unreadByClient > 0)
    for _ in 0..<4 {
      client.receive()
      client.manual.settle()
    }
    #expect(client.journal.take() == Array(repeating: .message(.text(message)), count: 3))
    client.manual.advance(by: .seconds(30))
    #expect(client.journal.take() == [.failed("receive", lost(.timedOut, by: .local))])
  }

  @Test("a peer that takes nothing is dead, one that takes something is alive", arguments: Place.allCases)
  func fullSocket(place: Place) throws {
    let client = Client(place)
    let server = try client.open(Self.watched)
    server.setWriteRoom(0)
    client.receive()
    client.send("waits")
    client.manual.advance(by: .seconds(29))
    server.setWriteRoom(1)
    client.manual.advance(by: .seconds(20))
    #expect(client.journal.take() == [])
    client.manual.advance(by: .seconds(1))
    #expect(
      Set(client.journal.take()) == [
        .failed("send waits", lost(.timedOut, by: .local)), .failed("receive", lost(.timedOut, by: .local)),
      ])
  }

  @Test("no ping is sent once the connection is closing", arguments: Place.allCases)
  func closing(place: Place) throws {
    let client = Client(place)
    let server = try client.open(
      Client.request { $0.keepalive = Keepalive(interval: .seconds(1), deadline: .seconds(1)) })
    client.disconnect()
    client.manual.advance(by: .seconds(5))
    #expect(client.journal.timeline == [Timed(5_000, .failed("disconnect", .timedOut(.close)))])
    #expect(try server.readClose() == .normalClosure)
    #expect(server.unread == [])
  }

  @Test("a keepalive of the configuration's holds where the request has none", arguments: Place.allCases)
  func configured(place: Place) throws {
    let client = Client(place) { $0.keepalive = Keepalive(interval: .seconds(2), deadline: .seconds(3)) }
    let server = try client.open()
    client.manual.advance(by: .seconds(2))
    #expect(try server.readFrame().opcode == .ping)
  }

  @Test("a peer that lives and never answers pings makes no list grow", arguments: Place.allCases)
  func unanswered(place: Place) throws {
    let client = Client(place)
    let server = try client.open(
      Client.request { $0.keepalive = Keepalive(interval: .seconds(1), deadline: .seconds(9)) })
    for _ in 0..<100 {
      client.manual.advance(by: .seconds(1))
      #expect(try server.readFrame().opcode == .ping)
      server.send(frame: Frame(.pong, "other".utf8))
    }
    // The caller's own pings have room all the same.
    for _ in 0..<17 { client.ping() }
    client.manual.settle()
    #expect(client.journal.take() == [.failed("ping", .limitExceeded(.pings, size: 17, limit: 16))])
    let pings = try (0..<16).map { _ in try server.readFrame() }
    server.send(frame: Frame(.pong, pings[15].payload))
    client.manual.settle()
    #expect(client.journal.take() == Array(repeating: .pong(after: .zero), count: 16))
  }

  @Test("without a message for the idle time-out the connection is closed with 1001", arguments: Place.allCases)
  func idle(place: Place) throws {
    let client = Client(place)
    let server = try client.open(Client.request { $0.idleTimeout = .seconds(10) })
    client.receive()
    client.receive()
    client.manual.advance(by: .seconds(3))
    server.send(.text("hello"))
    client.manual.advance(by: .seconds(9))
    server.send(frame: Frame(.ping, "does not count".utf8))
    client.manual.advance(by: .milliseconds(999))
    #expect(try server.readFrame() == Frame(.pong, "does not count".utf8))
    #expect(server.unread == [])
    client.manual.advance(by: .milliseconds(1))
    #expect(try server.readFrame() == .close(1001, "idle"))
    server.sendClose(.goingAway)
    server.finish()
    client.manual.settle()
    #expect(client.journal.take() == [.message(.text("hello")), .failed("receive", closed(.goingAway, by: .local))])
  }

  @Test("a connection is not idle while this endpoint does not read", arguments: Place.allCases)
  func idlePaused(place: Place) throws {
    let client = Client(place) { $0.receiveBufferLimit = 100 }
    let server = try client.open(Client.request { $0.idleTimeout = .seconds(10) })
    let message = String(repeating: "x", count: 100)
    for _ in 0..<3 { server.send(.text(message)) }
    client.manual.advance(by: .seconds(60))
    #expect(server.unread == [])
    for _ in 0..<3 {
      client.receive()
      client.manual.settle()
    }
    #expect(client.journal.take() == Array(repeating: .message(.text(message)), count: 3))
    client.manual.advance(by: .milliseconds(9_999))
    #expect(server.unread == [])
    client.manual.advance(by: .milliseconds(1))
    #expect(try server.readFrame() == .close(1001, "idle"))
  }

  @Test("a sent message counts against idleness", arguments: Place.allCases)
  func idleSending(place: Place) throws {
    let client = Client(place)
    let server = try client.open(Client.request { $0.idleTimeout = .seconds(10) })
    client.manual.advance(by: .seconds(9))
    client.send("still here")
    client.manual.advance(by: .milliseconds(9_999))
    #expect(try server.readFrame() == .text("still here"))
    #expect(server.unread == [])
    client.manual.advance(by: .milliseconds(1))
    #expect(try server.readClose() == .goingAway)
  }
}
