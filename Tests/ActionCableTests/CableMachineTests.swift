import ActionCable
import Testing
import WebSocketHandling
import WebSocketTransport

@Suite("The rules of Action Cable: the connection")
struct CableConnectionTests {
  @Test func `connected means welcome: an open WebSocket is not enough, and no command goes before it`() throws {
    var bench = MachineBench()
    #expect(try bench.subscribe(1) == [])
    bench.machine.opened(subprotocol: .unknown, at: bench.now)
    #expect(bench.take() == [])
    #expect(try bench.subscribe(2, to: room(7)) == [])
    #expect(!bench.machine.isConnected)
    #expect(bench.say(#"{"type":"ping","message":1}"#) == [.ping])
    #expect(bench.confirm() == [.ignored(.unexpected)])
    #expect(
      bench.say(#"{"type":"welcome"}"#) == [
        .connected, subscribeRoom,
        .send(#"{"command":"subscribe","identifier":"{\"channel\":\"ChatChannel\",\"room_id\":7}"}"#, perform: nil),
      ])
    #expect(bench.say(#"{"type":"welcome"}"#) == [.ignored(.unexpected)])
  }

  @Test func `a server that does not say welcome is left, and tried again`() {
    var bench = MachineBench()
    bench.machine.opened(subprotocol: .agreed("actioncable-v1-json"), at: bench.now)
    #expect(bench.advance(by: .milliseconds(9_999)) == [])
    #expect(bench.advance(by: .milliseconds(1)) == [.end(.noWelcome, willRetry: true)])
  }

  @Test(
    "a server that agrees to another subprotocol, or to none, is left for good",
    arguments: [nil, "actioncable-unsupported", "token.1"])
  func unsupported(subprotocol: String?) {
    var bench = MachineBench()
    bench.machine.opened(subprotocol: .agreed(subprotocol), at: bench.now)
    #expect(bench.take() == [.end(.unsupportedSubprotocol(subprotocol), willRetry: false)])
    bench.machine.stopped(bench.machine.lastCause)
    #expect(bench.take() == [.disconnected(.unsupportedSubprotocol(subprotocol), willReconnect: false)])
    #expect(bench.say(#"{"type":"welcome"}"#) == [])
  }

  @Test(
    "any frame is a sign of life; six seconds of silence are the end",
    arguments: [#"{"type":"ping","message":1}"#, "nonsense", #"{"type":"later"}"#, "[]"])
  func stale(frame: String) {
    var bench = MachineBench.connected()
    #expect(bench.advance(by: .milliseconds(5_999)) == [])
    _ = bench.say(frame)
    #expect(bench.advance(by: .milliseconds(5_999)) == [])
    #expect(bench.advance(by: .milliseconds(1)) == [.end(.stale, willRetry: true)])
    #expect(bench.machine.nextDeadline == nil)
  }

  @Test func `without monitoring silence means nothing, and neither does it while nothing is read`() {
    var bench = MachineBench.connected(timing: CableTiming(staleAfter: nil))
    #expect(bench.advance(by: .seconds(3_600)) == [])
    bench = .connected()
    bench.machine.setPaused(true, at: bench.now)
    #expect(bench.advance(by: .seconds(3_600)) == [])
    bench.machine.setPaused(false, at: bench.now)
    #expect(bench.advance(by: .milliseconds(5_999)) == [])
    #expect(bench.advance(by: .milliseconds(1)) == [.end(.stale, willRetry: true)])
  }

  @Test(
    "a disconnect frame ends the connection; whether it comes back is the server's word",
    arguments: [
      (#""reason":"unauthorized","reconnect":false"#, .unauthorized, false),
      (#""reason":"server_restart","reconnect":true"#, .serverRestart, true),
      (#""reason":"remote","reconnect":true"#, .remote, true),
      (#""reason":"remote","reconnect":false"#, .remote, false),
      (#""reason":"invalid_request","reconnect":false"#, .invalidRequest, false),
      (#""reason":"idle_timeout","reconnect":false"#, .idleTimeout, false),
      (#""reason":"no_pong","reconnect":true"#, .noPong, true),
      (#""reason":"too_slow","reconnect":true"#, .tooSlow, true),
      (#""reason":"token_expired","reconnect":false"#, .tokenExpired, false),
      (#""reason":null,"reconnect":true"#, nil, true),
      (#""reason":"tea_time","reconnect":true"#, .other("tea_time"), true),
      (#""reason":{},"reconnect":"yes""#, nil, false),
      (#""reason":"remote""#, .remote, false),
    ] as [(String, DisconnectReason?, Bool)])
  func disconnect(fields: String, reason: DisconnectReason?, willRetry: Bool) throws {
    var bench = try MachineBench.confirmed()
    #expect(bench.say("{\"type\":\"disconnect\",\(fields)}") == [.end(.server(reason), willRetry: willRetry)])
    if willRetry { bench.machine.willReconnect() } else { bench.machine.stopped(bench.machine.lastCause) }
    #expect(bench.take() == disconnected(.server(reason), willReconnect: willRetry))
    // The subscription is still registered: a new connection revives it.
    bench.machine.start()
    #expect(bench.connect() == [.connected, subscribeRoom])
  }

  @Test func `with new credentials to be had, unauthorized is tried again once per outage`() throws {
    let frame = #"{"type":"disconnect","reason":"unauthorized","reconnect":false}"#
    var bench = try MachineBench.confirmed(canRefresh: true)
    for _ in 0..<2 {
      #expect(bench.say(frame) == [.end(.server(.unauthorized), willRetry: true)])
      bench.machine.willReconnect()
      bench.machine.opened(subprotocol: .unknown, at: bench.now)
      #expect(bench.take() == disconnected(.server(.unauthorized), willReconnect: true))
      #expect(bench.say(#"{"type":"welcome"}"#) == [.connected, subscribeRoom])
    }
    _ = bench.say(frame)
    bench.machine.opened(subprotocol: .unknown, at: bench.now)
    #expect(bench.say(frame) == [.end(.server(.unauthorized), willRetry: false)])
  }

  @Test func `a close without a disconnect frame is tried again`() throws {
    var bench = try MachineBench.confirmed()
    bench.machine.lost(.lost(.closing))
    bench.machine.willReconnect()
    #expect(bench.take() == disconnected(.lost(.closing), willReconnect: true))
    // Attempts that fail in between tell nothing new.
    bench.machine.attemptBegan()
    bench.machine.attemptFailed(.lost(.timedOut(.connect)))
    bench.machine.willReconnect()
    #expect(bench.take() == [])
    bench.machine.stopped(.gaveUp(failures: 2, .timedOut(.connect)))
    #expect(
      bench.take() == disconnected(.gaveUp(failures: 2, .timedOut(.connect)), willReconnect: false))
  }

  @Test func `the caller's disconnect keeps the registrations, and connect revives them`() throws {
    var bench = try MachineBench.confirmed()
    bench.machine.stopped(.requested)
    #expect(bench.take() == disconnected(.requested, willReconnect: false))
    bench.machine.start()
    #expect(bench.connect() == [.connected, subscribeRoom])
    #expect(
      bench.confirm() == [
        .event(subscriber: 1, .confirmed(reconnected: true)), .event(subscriber: 1, .gap(.reconnected)),
      ])
  }

  @Test func `shutdown ends every subscription, and what waits for one`() throws {
    var bench = try MachineBench.confirmed()
    _ = try bench.subscribe(2, to: room(7))
    _ = bench.perform(9, by: 2, mayWait: true)
    bench.machine.shutdown()
    #expect(
      bench.take() == [
        .event(subscriber: 1, .ended(.shutdown)), .event(subscriber: 2, .ended(.shutdown)),
        .outcome(perform: 9, .notSubscribed),
      ])
    bench.machine.start()
    #expect(bench.connect() == [.connected])
  }

  @Test func `subscriptions are sent again in the order of their creation`() throws {
    var bench = MachineBench.connected()
    for number in 1...20 { _ = try bench.subscribe(UInt64(number), to: room(number)) }
    _ = bench.lose()
    let sent = bench.connect().dropFirst()
    #expect(
      try Array(sent)
        == (1...20).map {
          .send("{\"command\":\"subscribe\",\"identifier\":\(CanonicalJSON.quoted(try room($0).text))}", perform: nil)
        })
  }
}
