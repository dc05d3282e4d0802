import Testing
import WebSocketCore
import WebSocketHandling
import WebSocketTesting
import WebSocketTransport
import TestSupport

@Suite("The tap and the counters of a handler")
struct ObservingTests {
  /// A client and everything that its tap heard.
  private struct Watched {
    let client: Client
    private let heard = SharedList<HandlerEvent>()

    init(_ place: Place, _ change: (inout HandlerConfiguration) -> Void = { _ in }) {
      let heard = heard
      client = Client(place) { configuration in
        configuration.onEvent = { heard.append($0) }
        change(&configuration)
      }
    }

    func take() -> [HandlerEvent] {
      client.manual.settle()
      return heard.take()
    }
  }

  @Test("the tap hears the whole life of a connection, in order", arguments: Place.allCases)
  func life(place: Place) throws {
    let watched = Watched(place)
    let client = watched.client
    client.manual.script(name: "chat.example", .addresses(["192.0.2.7"], after: .milliseconds(20)))
    client.manual.script(address: "192.0.2.7", .accepted(after: .milliseconds(30)))
    client.connect(Client.request("ws://chat.example:8080/room?token=secret"))
    client.manual.advance(by: .milliseconds(50))
    let server = try client.manual.nextConnection()
    client.manual.advance(by: .milliseconds(5))
    try server.open()
    var phases = ConnectPhases()
    (phases.resolve, phases.tcp, phases.handshake) = (.milliseconds(20), .milliseconds(30), .milliseconds(5))
    let opening = watched.take()
    let answer = try #require(client.handler?.handshake)
    #expect(
      opening == [.opening(host: "chat.example", port: 8080, isSecure: false), .opened(answer, phases)])
    #expect(phases.total == .milliseconds(55))

    client.send("four")
    client.receive()
    client.ping()
    let ping = try #require(try [server.readFrame(), server.readFrame()].last)
    #expect(watched.take() == [.messageSent(.text, bytes: 4), .pingSent(bytes: 8)])
    client.manual.advance(by: .milliseconds(7))
    server.send(frame: Frame(.pong, ping.payload))
    server.send(frame: Frame(.ping, [1, 2, 3]))
    server.send(frame: Frame(.binary, [1, 2], isFinal: false))
    server.send(frame: Frame(.continuation, [3]))
    #expect(
      watched.take() == [
        .pongReceived(bytes: 8, roundTrip: .milliseconds(7)), .pingReceived(bytes: 3), .pongSent(bytes: 3),
        .messageReceived(.binary, bytes: 3),
      ])
    #expect(try server.readFrame().opcode == .pong)

    client.disconnect()
    #expect(try server.readClose() == .normalClosure)
    server.sendClose(.normalClosure)
    server.finish()
    #expect(
      watched.take() == [
        .closing(.local),
        .closed(CloseRecord(code: .normalClosure, initiator: .local, isClean: true, transportEnd: .finished)),
      ])

    var expected = HandlerMetrics()
    expected.received.pong = frames(1, bytes: 8)
    expected.received.ping = frames(1, bytes: 3)
    expected.received.binary = frames(1, bytes: 2)
    expected.received.continuation = frames(1, bytes: 1)
    expected.received.close = frames(1, bytes: 2)
    expected.sent.text = frames(1, bytes: 4)
    expected.sent.ping = frames(1, bytes: 8)
    expected.sent.pong = frames(1, bytes: 3)
    expected.sent.close = frames(1, bytes: 2)
    expected.roundTripTimes = try #require(client.handler).roundTripTimes
    (expected.connects, expected.cleanEnds, expected.phases) = (1, 1, phases)
    #expect(client.handler?.metrics == expected)
  }

  @Test("the tap hears a connect fail, and a close that the peer began", arguments: Place.allCases)
  func failures(place: Place) throws {
    let watched = Watched(place)
    let client = watched.client
    client.manual.script(address: "192.0.2.1", .refused())
    client.connect()
    let failed = watched.take()
    #expect(failed.count == 2)
    #expect(failed.first == .opening(host: "chat.example", port: 80, isSecure: false))
    #expect(client.journal.take() == failed.dropFirst().compactMap(\.failure).map { .failed("connect", $0) })

    client.manual.script(address: "192.0.2.1", .accepted())
    let server = try client.open()
    _ = watched.take()
    server.sendClose(.goingAway, reason: "bye")
    client.manual.settle()
    server.finish()
    #expect(
      watched.take() == [
        .closing(.peer),
        .closed(
          CloseRecord(code: .goingAway, reason: "bye", initiator: .peer, isClean: true, transportEnd: .finished)),
      ])
    let metrics = try #require(client.handler?.metrics)
    #expect([metrics.connects, metrics.failedConnects, metrics.cleanEnds, metrics.uncleanEnds] == [1, 1, 1, 0])
  }

  @Test("queue depths are those of the moment", arguments: Place.allCases)
  func depths(place: Place) throws {
    let client = Client(place) { $0.countsTraffic = true }
    let server = try client.open()
    server.setWriteRoom(0)
    client.send("12345")
    client.send("678")
    server.send(.text("kept"))
    client.manual.settle()
    let metrics = try #require(client.handler?.metrics)
    #expect(metrics.sendQueueBytes == 8)
    #expect(metrics.sendQueueMessages == 2)
    #expect(metrics.receiveBufferBytes == 4 + 64)
    client.receive()
    server.setWriteRoom(nil)
    client.manual.settle()
    let later = try #require(client.handler?.metrics)
    #expect([later.sendQueueBytes, later.sendQueueMessages, later.receiveBufferBytes] == [0, 0, 0])
  }

  @Test("R116: events that wait count as kept messages do, so that a flood of pings is not read further")
  func flood() throws {
    let manual = ManualEnvironment(readBufferBytes: 1_000)
    let most = Lock(0)
    let reader = Lock<DefaultWebSocketHandler?>(nil)
    let client = Client(.queue, manual: manual) { configuration in
      configuration.receiveBufferLimit = 1_000
      configuration.onEvent = { _ in
        let waiting = reader.withLock { $0 }?.metrics?.receiveBufferBytes ?? 0
        most.withLock { $0 = max($0, waiting) }
      }
    }
    let server = try client.open()
    reader.withLock { $0 = client.handler }
    server.send(Array([[UInt8]](repeating: Frame(.ping, []).encoded(), count: 10_000).joined()))
    client.manual.settle()
    #expect(client.handler?.metrics?.received.ping.count == 10_000)
    #expect(client.handler?.metrics?.receiveBufferBytes == 0)
    // The limit, and what one read brings: 500 pings and their pongs.
    #expect(most.withLock { $0 } <= 1_000 + 1_000 * 64)
    reader.withLock { $0 = nil }
  }

  @Test("nobody looks: there are no metrics")
  func unobserved() throws {
    let client = Client(.queue)
    _ = try client.open()
    #expect(client.handler?.metrics == nil)
  }

  @Test("samples name every number that has a value, with its unit")
  func samples() {
    var metrics = HandlerMetrics()
    metrics.received.text = frames(3, bytes: 12)
    metrics.compressionRatio = 2.5
    metrics.phases = ConnectPhases()
    metrics.phases?.tls = .milliseconds(1_500)
    let samples = metrics.samples
    func value(_ name: String, _ labels: [String: String]) -> Double? {
      samples.first { $0.name == name && $0.labels == labels }?.value
    }
    #expect(value("websocket_frames_total", ["direction": "in", "opcode": "text"]) == 3)
    #expect(value("websocket_payload_bytes_total", ["direction": "in", "opcode": "text"]) == 12)
    #expect(value("websocket_frames_total", ["direction": "out", "opcode": "close"]) == 0)
    #expect(value("websocket_compression_ratio", [:]) == 2.5)
    #expect(value("websocket_connect_seconds", ["phase": "tls"]) == 1.5)
    #expect(samples.count { $0.name == "websocket_connect_seconds" } == 1)
    #expect(samples.count { $0.name == "websocket_round_trip_seconds" } == 0)
    #expect(samples.allSatisfy { $0.name.hasSuffix("_total") == ($0.kind == .counter) })
    #expect(Set(samples.map { "\($0.name)\($0.labels.sorted { $0.key < $1.key })" }).count == samples.count)
  }

  @Test func `a part of the times that is no number is the shortest of them`() {
    var times = RoundTripTimes()
    times.add(.seconds(1))
    times.add(.seconds(2))
    #expect(times.percentile(.nan) == .seconds(1))
  }

  private func frames(_ count: Int, bytes: Int) -> HandlerMetrics.Frames {
    var frames = HandlerMetrics.Frames()
    (frames.count, frames.bytes) = (count, bytes)
    return frames
  }
}

@Suite("What is logged")
struct LogTests {
  /// Says in its error what it holds, as `EncodingError` does.
  private struct Secretive: Encodable {
    func encode(to encoder: any Encoder) throws {
      throw EncodingError.invalidValue("secret", EncodingError.Context(codingPath: [], debugDescription: "no"))
    }
  }

  @Test("no line holds a payload, a header value or a token of the request's", arguments: Place.allCases)
  func secrets(place: Place) throws {
    let logger = RecordingLogger()
    let client = Client(place, logger: logger)
    client.handler?.send(message: Secretive()) { _ in }
    client.connect(Client.request { $0.subprotocols = ["bearer", "secret=="] })
    for name in ["Protocol", "Extensions"] {
      client.connect()
      let server = try client.manual.nextConnection()
      server.send(try server.answer(to: server.readRequest(), adding: "Sec-WebSocket-\(name): secret\r\n"))
      client.manual.settle()
    }
    #expect(logger.texts(.error).count == 4)
    #expect(logger.lines.filter { $0.text.contains("secret") } == [])
  }
}

extension HandlerEvent {
  fileprivate var failure: Failure? {
    if case .failed(let failure) = self { return failure }
    return nil
  }
}
