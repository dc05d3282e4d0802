import Dispatch
import Foundation
import Testing
import WebSocketCore
import WebSocketHandling
import WebSocketTesting
import WebSocketTransport

import TestSupport
@testable import ActionCable

@Suite("The Action Cable client")
struct ActionCableClientTests {
  @Test func `connect completes with welcome, and not with the WebSocket's opening`() throws {
    let bench = try ClientBench()
    #expect(bench.client?.state == .idle)
    bench.connect()
    bench.connect()
    #expect(bench.client?.state == .connecting)
    let server = try bench.open()
    #expect(bench.connects.take().isEmpty)
    server.say(#"{"type":"welcome"}"#)
    bench.manual.settle()
    bench.connect()
    bench.manual.settle()
    #expect(bench.connects.take().map { $0.isSuccess } == [true, true, true])
    #expect(bench.client?.state == .connected)
  }

  @Test func `the request has the URL's Origin, the headers of the moment, and the subprotocols`() throws {
    let other = try ClientBench(headers: [HTTPField(name: "Auth", value: "1")]) { $0.subprotocols = ["token.1"] }
    other.connect()
    let first = try other.manual.nextConnection()
    let request = try first.readRequest()
    #expect(request.contains("\r\nOrigin: http://192.0.2.1\r\n"))
    #expect(request.contains("\r\nAuth: 1\r\n"))
    #expect(
      request.contains("\r\nSec-WebSocket-Protocol: actioncable-v1-json, token.1, actioncable-unsupported\r\n"))
    other.client?.headers = [
      HTTPField(name: "Auth", value: "2"), HTTPField(name: "Origin", value: "https://a.example"),
    ]
    first.reset()
    let second = try other.manual.nextConnection().readRequest()
    #expect(second.contains("\r\nAuth: 2\r\n"))
    #expect(second.contains("\r\nOrigin: https://a.example\r\n"))
    #expect(!second.contains("Origin: http://192.0.2.1"))
  }

  @Test func `a request provider sees the finished request and has the last word`() throws {
    let bench = try ClientBench { configuration in
      configuration.requestProvider = RequestProvider { request, completion in
        var request = request
        request.headers["Origin"] = (request.headers["Origin"] ?? "") + ".example"
        completion(.success(request))
      }
    }
    bench.connect()
    #expect(try bench.manual.nextConnection().readRequest().contains("\r\nOrigin: http://192.0.2.1.example\r\n"))
  }

  @Test func `a connect that succeeds after it was given up leaves no connection open, and the next one connects`()
    throws
  {
    let handler = LateHandler()
    let manual = ManualEnvironment()
    let client = ActionCableClient(
      url: try #require(URL(string: "ws://192.0.2.1/")), handler: handler, logger: SilentLogger(),
      environment: manual.environment)
    let ends = SharedList<String>()
    client.connect { ends.append("\($0)") }
    manual.settle()
    client.disconnect { ends.append("disconnected") }
    manual.settle()
    #expect(ends.take().count == 2)
    client.connect()
    manual.settle()
    handler.succeed()
    manual.settle()
    #expect(!handler.isConnected)
    #expect(handler.isConnecting)
    handler.succeed()
    manual.settle()
    #expect(handler.isConnected)
    #expect(client.counters.connections == 0)
  }

  @Test func `a provider that fails is the policy's affair, whatever the last disconnect frame said`() throws {
    for mayReconnect in [false, true] {
      let isBroken = Lock(false)
      let bench = try ClientBench { configuration in
        configuration.requestProvider = RequestProvider { request, completion in
          let isBroken = isBroken.withLock { isBroken in
            defer { isBroken = false }
            return isBroken
          }
          completion(isBroken ? .failure(Failure.timedOut(.connect)) : .success(request))
        }
        // The opposite of what the frame says.
        configuration.policy.rule = { _ in mayReconnect ? .stop : .retry() }
      }
      let (server, _) = try bench.confirmed()
      _ = bench.connects.take()
      server.say(#"{"type":"disconnect","reason":"remote","reconnect":\#(mayReconnect)}"#)
      bench.manual.settle()
      isBroken.withLock { $0 = true }
      try server.answerClose()
      if !mayReconnect {
        bench.manual.settle()
        bench.connect()
        _ = try bench.welcome()
        #expect(bench.connects.take().map(\.isSuccess) == [true])
      } else {
        bench.manual.settle()
        #expect(bench.client?.state == .disconnected(.lost(.timedOut(.connect))))
      }
      #expect(isBroken.withLock { !$0 })
    }
  }

  @Test func `a server that agrees to no subprotocol is left for good`() throws {
    let bench = try ClientBench()
    bench.connect()
    try bench.subscribe()
    let server = try bench.manual.nextConnection()
    try server.open()
    bench.manual.settle()
    try server.answerClose()
    #expect(bench.take() == [.disconnected(.unsupportedSubprotocol(nil), willReconnect: false)])
    #expect(bench.connects.take() == [.failure(.unsupportedSubprotocol(nil))])
    #expect(bench.client?.state == .disconnected(.unsupportedSubprotocol(nil)))
    bench.manual.advance(by: .seconds(3_600))
    #expect(bench.manual.connections.count == 1)
  }

  @Test func `a subscription lives over losses, and its events are in order`() throws {
    let bench = try ClientBench()
    let (first, subscription) = try bench.confirmed()
    first.message("1")
    first.reset()
    let second = try bench.welcome()
    #expect(try second.readText() == subscribeRoomText)
    second.message("2")
    second.confirm()
    let lost = Failure.closed(
      CloseRecord(code: .abnormalClosure, initiator: .peer, isClean: false, transportEnd: .reset))
    #expect(
      bench.take() == [
        .message(CableMessage(identifier: try room(), body: "1")), .disconnected(.lost(lost), willReconnect: true),
        .message(CableMessage(identifier: try room(), body: "2")), .confirmed(reconnected: true), .gap(.reconnected),
      ])
    subscription.unsubscribe()
    #expect(bench.take() == [.ended(.unsubscribed)])
    #expect(try second.readText() == unsubscribeRoomText)
  }

  @Test func `Rails closes with 1000 whatever the reason: without a disconnect frame it is tried again`() throws {
    let bench = try ClientBench()
    let (server, _) = try bench.confirmed()
    server.sendClose(.normalClosure)
    server.finish()
    _ = try bench.welcome()
  }

  @Test func `unauthorized stops, and tells subscribers, taps and connect`() throws {
    let bench = try ClientBench()
    let causes = SharedList<DisconnectCause>()
    bench.client?.add(ClientTap(onDisconnected: { causes.append($0) }))
    bench.connect()
    try bench.subscribe()
    let server = try bench.open()
    server.say(#"{"type":"disconnect","reason":"unauthorized","reconnect":false}"#)
    server.sendClose(.normalClosure)
    server.finish()
    #expect(bench.take() == [.disconnected(.server(.unauthorized), willReconnect: false)])
    #expect(causes.take() == [.server(.unauthorized)])
    #expect(bench.connects.take() == [.failure(.server(.unauthorized))])
    bench.manual.advance(by: .seconds(3_600))
    #expect(bench.manual.connections.count == 1)
    // The registration is kept.
    bench.connect()
    #expect(try bench.welcome().readText() == subscribeRoomText)
  }

  @Test func `a restarting server is come back to, and the attempt that follows is a new one`() throws {
    let bench = try ClientBench()
    let (server, _) = try bench.confirmed()
    server.say(#"{"type":"disconnect","reason":"server_restart","reconnect":true}"#)
    try server.answerClose()
    #expect(bench.take() == [.disconnected(.server(.serverRestart), willReconnect: true)])
    #expect(try bench.welcome().readText() == subscribeRoomText)
  }

  @Test func `silence is the end of a connection, and the next one is made`() throws {
    let bench = try ClientBench()
    let (server, _) = try bench.confirmed()
    bench.manual.advance(by: .seconds(3))
    server.say(#"{"type":"ping","message":1}"#)
    bench.manual.advance(by: .milliseconds(5_999))
    #expect(bench.take() == [])
    bench.manual.advance(by: .milliseconds(1))
    #expect(bench.take() == [.disconnected(.stale, willReconnect: true)])
    // The dead server does not answer the Close.
    bench.manual.advance(by: .seconds(2))
    #expect(try bench.welcome().readText() == subscribeRoomText)
  }

  @Test func `a server that never says welcome does not look like a success to the schedule`() throws {
    let bench = try ClientBench { $0.policy.maximumFailures = 2 }
    bench.connect()
    for _ in 0..<3 {
      let server = try bench.open()
      bench.manual.advance(by: .seconds(10))
      try server.answerClose()
      bench.manual.settle()
    }
    guard case .failure(.gaveUp(failures: 3, _)) = bench.connects.take().first else {
      Issue.record("did not give up: \(bench.client.map { "\($0.state)" } ?? "")")
      return
    }
  }

  @Test func `disconnect keeps registrations, shutdown ends them, release too`() async throws {
    let bench = try ClientBench()
    let (server, _) = try bench.confirmed()
    let done = SharedList<String>()
    bench.client?.disconnect { done.append("disconnected") }
    bench.manual.settle()
    try server.answerClose()
    #expect(bench.take() == [.disconnected(.requested, willReconnect: false)])
    #expect(done.take() == ["disconnected"])
    #expect(bench.client?.state == .disconnected(.requested))
    bench.connect()
    let second = try bench.welcome()
    #expect(try second.readText() == subscribeRoomText)
    bench.client?.shutdown { done.append("shut down") }
    #expect(bench.take() == [.ended(.shutdown)])
    try second.answerClose()
    bench.manual.settle()
    #expect(done.take() == ["shut down"])
    try bench.subscribe()
    bench.release()
    #expect(bench.take() == [.ended(.shutdown)])
    #expect(!bench.manual.hasTimers)
  }

  @Test func `disconnect and connect in one breath end connected`() throws {
    let bench = try ClientBench()
    let (server, _) = try bench.confirmed()
    bench.client?.disconnect()
    bench.connect()
    bench.manual.settle()
    try server.answerClose()
    #expect(try bench.welcome().readText() == subscribeRoomText)
    #expect(bench.client?.state == .connected)
    #expect(bench.connects.take().last?.isSuccess == true)
  }

  @Test func `a changed credential key connects anew at once`() throws {
    let bench = try ClientBench()
    let (server, _) = try bench.confirmed()
    bench.client?.setCredentialKey("user 2")
    bench.manual.settle()
    try server.answerClose()
    #expect(try bench.welcome().readText() == subscribeRoomText)
    #expect(bench.take() == [.disconnected(.requested, willReconnect: true)])
  }

  @Test func `a closed gate lets no attempt begin`() throws {
    let bench = try ClientBench()
    bench.client?.setGate(isOpen: false)
    bench.connect()
    bench.manual.settle()
    #expect(bench.client?.state == .held)
    #expect(bench.manual.connections.isEmpty)
    bench.client?.setGate(isOpen: true)
    _ = try bench.welcome()
  }

  @Test func `taps hear what happens, in order, until they are removed`() throws {
    let bench = try ClientBench(headers: [HTTPField(name: "Auth", value: "1")])
    let heard = SharedList<String>()
    let tap = ClientTap(
      onConnected: { heard.append("connected with \($0["Auth"] ?? "")") },
      onDisconnected: { heard.append("disconnected: \($0)") }, onText: { heard.append("text \($0)") },
      onMessage: { heard.append("message \($0)") }, onPing: { heard.append("ping") })
    bench.client?.add(tap)
    bench.client?.add(tap)
    let (server, _) = try bench.confirmed()
    _ = heard.take()
    server.message("7")
    server.say(#"{"type":"ping"}"#)
    _ = bench.take()
    bench.client?.disconnect()
    _ = bench.take()
    #expect(
      heard.take() == [
        #"text {"identifier":"{\"channel\":\"ChatChannel\",\"room_id\":42}","message":7}"#, "message 7",
        #"text {"type":"ping"}"#, "ping", "disconnected: requested",
      ])
    bench.client?.remove(tap)
    try server.answerClose()
    bench.connect()
    _ = try bench.welcome()
    #expect(heard.take() == [])
  }

  @Test func `a frame that is no text is no text to taps either`() throws {
    let bench = try ClientBench()
    let heard = SharedList<String>()
    let (server, _) = try bench.confirmed()
    bench.client?.add(ClientTap(onText: { heard.append($0) }))
    server.send(.binary(Data("{}".utf8)))
    server.say("{}")
    _ = bench.take()
    #expect(heard.take() == ["{}"])
    #expect(bench.client?.counters.malformed == 1)
  }

  @Test func `starts and stops from several threads leave client and session of one mind`() throws {
    let url = try #require(URL(string: "ws://192.0.2.1/cable"))
    for _ in 0..<1_000 {
      let client = ActionCableClient(url: url, handler: MockWebSocketHandler(), logger: SilentLogger())
      DispatchQueue.concurrentPerform(iterations: 4) { number in
        if number.isMultiple(of: 2) { client.connect() } else { client.disconnect() }
      }
      let isStopped =
        switch client.core.session?.currentState {
        case .idle, .stopped, nil: true
        case .held, .connecting, .connected, .waiting: false
        }
      #expect(client.core.read { $0.isStarted } == !isStopped)
    }
  }

  @Test(.timeLimit(.minutes(5)))
  func `what is asked of one connection is not asked of the next, however late the client's queue is`() async throws {
    let mock = MockWebSocketHandler()
    var configuration = CableConfiguration()
    configuration.timing.welcomeTimeout = .seconds(240)
    configuration.timing.subscribeTimeout = nil
    configuration.timing.subscribeRetry = .seconds(240)
    let client = ActionCableClient(
      url: try #require(URL(string: "ws://192.0.2.1/cable")), staleAfter: nil, configuration: configuration,
      handler: mock, logger: SilentLogger())
    let (isBusy, goOn) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
    client.subscribe(to: try room(1)) { event in
      guard case .message = event else { return }
      isBusy.signal()
      goOn.wait()
    }
    var events = client.events(of: try room(2), backlog: Backlog(messages: 1)).makeAsyncIterator()
    client.connect(completion: nil)
    try await Self.wait { mock.pendingReceives == 1 }
    func say(_ number: Int, _ rest: String) throws {
      mock.inject(.text("{\"identifier\":\(CanonicalJSON.quoted(try room(number).text)),\(rest)}"))
    }
    mock.inject(.text(#"{"type":"welcome"}"#))
    for number in 1...2 { try say(number, #""type":"confirm_subscription""#) }
    #expect(await events.next() == .confirmed(reconnected: false))
    // The client's queue is held up, and the socket is not read.
    try say(1, #""message":1"#)
    Self.wait(for: isBusy)
    try say(2, #""message":2"#)
    try await Self.wait { client.core.read { $0.holding == 1 } }
    // Now it may be read again, which the queue does not come to.
    #expect(await events.next() == .message(CableMessage(identifier: try room(2), body: "2")))
    client.setCredentialKey("another")
    try await Self.wait { mock.requests.count == 2 && mock.pendingReceives == 1 }
    goOn.signal()
    let isDone = DispatchSemaphore(value: 0)
    client.core.update { state, _ in state.call { isDone.signal() } }
    Self.wait(for: isDone)
    try #require(mock.pendingReceives == 1)
    mock.inject(.text(#"{"type":"welcome"}"#))
    try say(2, #""type":"confirm_subscription""#)
    #expect(await events.next() == .disconnected(.requested, willReconnect: true))
    #expect(await events.next() == .confirmed(reconnected: true))
    #expect(mock.misuses == [])
  }

  private static func wait(_ isReached: () -> Bool) async throws {
    while !isReached() { try await Task.sleep(for: .milliseconds(1)) }
  }

  private static func wait(for semaphore: DispatchSemaphore) { semaphore.wait() }

  @Test func `counters tell what came`() throws {
    let bench = try ClientBench()
    let (server, _) = try bench.confirmed()
    for text in ["nonsense", "{}", #"{"type":"ping"}"#] { server.say(text) }
    server.message("1")
    server.message("1", "other")
    server.send(.binary(Data([1])))
    bench.manual.settle()
    var expected = CableCounters()
    expected.frames = 8
    expected.messages = 1
    expected.unclaimed = 1
    expected.malformed = 2
    expected.unexpected = 1
    expected.pings = 1
    expected.connections = 1
    expected.commands = 1
    #expect(bench.client?.counters == expected)
  }
}

typealias Failure = EngineError.WebSocketError

extension Result {
  var isSuccess: Bool {
    if case .success = self { true } else { false }
  }
}

extension Result where Success == Void, Failure == DisconnectCause {
  static func == (left: Self, right: Self) -> Bool {
    switch (left, right) {
    case (.success, .success): true
    case (.failure(let left), .failure(let right)): left == right
    case (.success, .failure), (.failure, .success): false
    }
  }
}

func == (left: [Result<Void, DisconnectCause>], right: [Result<Void, DisconnectCause>]) -> Bool {
  left.count == right.count && zip(left, right).allSatisfy { $0 == $1 }
}
