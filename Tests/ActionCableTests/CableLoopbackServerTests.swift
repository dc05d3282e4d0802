import ActionCable
import Foundation
import Testing
import WebSocketHandling
import WebSocketTesting
import WebSocketTransport
import TestSupport

@Suite("The Action Cable server in the process", .timeLimit(.minutes(5)))
struct CableLoopbackServerTests {
  private static let chat: CableLoopbackServer.Channel = { channel in
    guard let room = channel.parameters["room_id"], room != 0 else {
      channel.transmit("full")
      return channel.reject()
    }
    channel.stream(from: "chat_\(room)")
    channel.on("speak") { data in channel.broadcast(to: "chat_\(room)", data) }
    channel.on("burst") { data in
      guard case .integer(let count)? = data["count"] else { return }
      for number in 0..<count { channel.transmit(.integer(number)) }
    }
  }

  private func client(
    _ server: CableLoopbackServer, staleAfter: Duration? = .seconds(240),
    change: (inout CableConfiguration) -> Void = { _ in }
  ) -> ActionCableClient {
    var configuration = CableConfiguration()
    configuration.policy.backoff = Backoff(first: .zero, base: .zero, maximum: .zero)
    configuration.connectTimeout = .seconds(240)
    configuration.closeTimeout = .seconds(240)
    configuration.timing.welcomeTimeout = .seconds(240)
    configuration.timing.subscribeTimeout = .seconds(240)
    change(&configuration)
    return ActionCableClient(
      url: server.url, staleAfter: staleAfter, configuration: configuration, logger: SilentLogger())
  }

  @Test func `subscribe, speak, ten thousand messages in order, unsubscribe`() async throws {
    let server = try CableLoopbackServer(channels: ["ChatChannel": Self.chat])
    let client = client(server)
    try await client.connect()
    let events = client.events(of: try room())
    var iterator = events.makeAsyncIterator()
    #expect(await iterator.next() == .confirmed(reconnected: false))
    #expect(server.subscriptions == [roomText])
    #expect(await events.subscription.perform("speak", ["text": "hi"]) == .written)
    #expect(
      await iterator.next()
        == .message(CableMessage(identifier: try room(), body: #"{"action":"speak","text":"hi"}"#)))
    #expect(await events.subscription.perform("burst", ["count": 10_000]) == .written)
    for number in 0..<10_000 {
      let event = await iterator.next()
      guard case .message(let message) = event, message.bodyText == "\(number)" else {
        Issue.record("\(String(describing: event)) in the place of \(number)")
        return
      }
    }
    events.subscription.unsubscribe()
    #expect(await iterator.next() == .ended(.unsubscribed))
    await client.shutdown()
    server.shutDown()
  }

  @Test func `a rejection comes with its reason, an unknown channel with silence`() async throws {
    let server = try CableLoopbackServer(channels: ["ChatChannel": Self.chat])
    defer { server.shutDown() }
    let client = client(server) { $0.timing.subscribeTimeout = .milliseconds(100) }
    try await client.connect()
    var unknown = client.events(of: try ChannelIdentifier("OtherChannel")).makeAsyncIterator()
    #expect(await unknown.next() == .ended(.timedOut))
    let patient = self.client(server)
    try await patient.connect()
    var rejected = patient.events(of: try room(0)).makeAsyncIterator()
    #expect(await rejected.next() == .message(CableMessage(identifier: try room(0), body: #""full""#)))
    #expect(await rejected.next() == .ended(.rejected))
  }

  @Test(
    "a remote disconnect is told with its reason, and the client comes back where it may", arguments: [true, false])
  func remoteDisconnect(reconnect: Bool) async throws {
    let server = try CableLoopbackServer(channels: ["ChatChannel": Self.chat])
    defer { server.shutDown() }
    let client = client(server)
    try await client.connect()
    var iterator = client.events(of: try room()).makeAsyncIterator()
    #expect(await iterator.next() == .confirmed(reconnected: false))
    server.disconnectAll(reason: .remote, reconnect: reconnect)
    #expect(await iterator.next() == .disconnected(.server(.remote), willReconnect: reconnect))
    if reconnect {
      #expect(await iterator.next() == .confirmed(reconnected: true))
      #expect(await iterator.next() == .gap(.reconnected))
    } else {
      #expect(client.state == .disconnected(.server(.remote)))
    }
  }

  @Test func `a task that is cancelled at the moment an event comes neither hangs nor loses it`() async throws {
    let server = try CableLoopbackServer(channels: ["ChatChannel": Self.chat])
    defer { server.shutDown() }
    let client = client(server)
    try await client.connect()
    let events = client.events(of: try room())
    var iterator = events.makeAsyncIterator()
    #expect(await iterator.next() == .confirmed(reconnected: false))
    var heard: [String?] = []
    for round in 0..<300 {
      async let written = events.subscription.perform("burst", ["count": 1])
      var event: SubscriptionEvent?
      while event == nil {
        let task = Task { () -> SubscriptionEvent? in
          var iterator = events.makeAsyncIterator()
          return await iterator.next()
        }
        for _ in 0..<round % 7 { await Task.yield() }
        task.cancel()
        event = await task.value
      }
      if case .message(let message)? = event { heard.append(message.bodyText) }
      #expect(await written == .written)
    }
    #expect(heard == [String?](repeating: "0", count: 300))
  }

  @Test func `confirmations that are delayed or missing are waited for`() async throws {
    let server = try CableLoopbackServer(channels: ["ChatChannel": Self.chat])
    defer { server.shutDown() }
    let client = client(server) { $0.timing.subscribeRetry = .milliseconds(10) }
    try await client.connect()
    server.setConfirmations(.delayed(.milliseconds(50)))
    var first = client.events(of: try room(1)).makeAsyncIterator()
    #expect(await first.next() == .confirmed(reconnected: false))
    server.setConfirmations(.missing)
    let events = client.events(of: try room(2))
    var second = events.makeAsyncIterator()
    while server.subscribeCount < 4 { await Task.yield() }
    server.setConfirmations(.atOnce)
    #expect(await second.next() == .confirmed(reconnected: false))
    _ = first
  }

  @Test func `a client that is gone before its delayed confirmation is subscribed to nothing`() async throws {
    // Whether each channel that was subscribed to was still a subscription.
    let subscribed = SharedList<Bool>()
    let running = Lock<CableLoopbackServer?>(nil)
    defer { running.withLock { $0 = nil } }
    let server = try CableLoopbackServer(channels: [
      "ChatChannel": { channel in
        let server = running.withLock { $0 }
        subscribed.append(server?.subscriptions.contains(channel.identifier) == true)
      }
    ])
    running.withLock { $0 = server }
    server.setConfirmations(.delayed(.milliseconds(100)))
    let first = client(server)
    try await first.connect()
    first.subscribe(to: try room(1)) { _ in }
    while server.subscribeCount < 1 { try await Task.sleep(for: .milliseconds(1)) }
    server.dropAll()
    await first.shutdown()
    while !server.subscriptions.isEmpty { try await Task.sleep(for: .milliseconds(1)) }
    // Answered behind the other, had that been.
    let second = client(server)
    try await second.connect()
    var events = second.events(of: try room(2)).makeAsyncIterator()
    #expect(await events.next() == .confirmed(reconnected: false))
    #expect(subscribed.take().allSatisfy { $0 })
  }

  @Test func `without pings a client takes the server for dead; a wrong Origin and a stranger are refused`()
    async throws
  {
    let server = try CableLoopbackServer(channels: ["ChatChannel": Self.chat], pingInterval: .milliseconds(20)) {
      !$0.target.contains("denied")
    }
    defer { server.shutDown() }
    let client = client(server, staleAfter: .seconds(2))
    try await client.connect()
    var iterator = client.events(of: try room()).makeAsyncIterator()
    server.setPinging(false)
    // A starved machine may be silent for so long before.
    while let event = await iterator.next(), event != .disconnected(.stale, willReconnect: true) {}
    let stranger = ActionCableClient(url: server.url.appending(queryItems: [URLQueryItem(name: "t", value: "denied")]))
    await #expect(throws: DisconnectCause.server(.unauthorized)) { try await stranger.connect() }
    let choosy = try CableLoopbackServer(origin: "https://a.example")
    defer { choosy.shutDown() }
    do {
      try await self.client(choosy).connect()
      Issue.record("let in")
    } catch {
      guard case .lost(.handshakeRefused(let refusal)) = error else {
        Issue.record("\(error)")
        return
      }
      #expect(refusal.status == 404)
    }
    try await self.client(choosy) { $0.origin = "https://a.example" }.connect()
  }

  @Test func `a ghost is unsubscribed, and unsubscribe-subscribe storms end subscribed, once`() async throws {
    let server = try CableLoopbackServer(channels: ["ChatChannel": Self.chat])
    defer { server.shutDown() }
    let client = client(server) { $0.timing.resubscribeCooldown = .milliseconds(1) }
    try await client.connect()
    server.sendGhost(try room(9))
    for _ in 0..<100 { client.subscribe(to: try room()) { _ in }.unsubscribe() }
    let events = client.events(of: try room())
    var iterator = events.makeAsyncIterator()
    #expect(await iterator.next() == .confirmed(reconnected: false))
    #expect(await events.subscription.perform("speak") == .written)
    #expect(await events.subscription.perform("burst", ["count": 1]) == .written)
    #expect(await iterator.next() == .message(CableMessage(identifier: try room(), body: #"{"action":"speak"}"#)))
    #expect(await iterator.next() == .message(CableMessage(identifier: try room(), body: "0")))
    #expect(server.subscriptions == [roomText])
  }
}
