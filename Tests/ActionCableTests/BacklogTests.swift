import ActionCable
import Foundation
import Testing
import WebSocketHandling
import WebSocketTesting
import TestSupport

@Suite("A slow receiver")
struct BacklogTests {
  /// What a sequence has that was not read while eight messages came, with a backlog of four.
  private func kept(_ overflow: Backlog.Overflow) async throws -> (events: [SubscriptionEvent], dropped: UInt64?) {
    try await kept(Backlog(messages: 4, overflow: overflow), bodies: (1...8).map(String.init))
  }

  private func kept(
    _ backlog: Backlog, bodies: [String]
  ) async throws -> (events: [SubscriptionEvent], dropped: UInt64?) {
    let bench = try ClientBench(staleAfter: nil)
    bench.connect()
    let events = try #require(bench.client).events(of: try room(), backlog: backlog)
    let server = try bench.welcome()
    server.confirm()
    for body in bodies { server.message(body) }
    bench.manual.settle()
    events.subscription.unsubscribe()
    bench.manual.settle()
    var list: [SubscriptionEvent] = []
    for await event in events { list.append(event) }
    return (list, bench.client?.counters.dropped)
  }

  /// Of small messages and large ones, with a backlog of 4 KiB, the indices of those that are kept.
  private func keptOfLarge(_ overflow: Backlog.Overflow) async throws -> (indices: [Int], dropped: UInt64?) {
    let bodies = [1, 1, 3_000, 3_000, 9_000, 1, 1].enumerated().map { index, length in
      String(repeating: "1", count: length - 1) + "\(index)"
    }
    let (events, dropped) = try await kept(Backlog(bytes: 4 << 10, overflow: overflow), bodies: bodies)
    let indices = events.compactMap { event in
      if case .message(let message) = event { bodies.firstIndex(of: message.bodyText) } else { nil }
    }
    return (indices, dropped)
  }

  private func message(_ number: Int) throws -> SubscriptionEvent {
    .message(CableMessage(identifier: try room(), body: "\(number)"))
  }

  @Test func `drop newest: the first are kept, and a gap stands for the rest`() async throws {
    let (events, dropped) = try await kept(.dropNewest)
    #expect(
      try events
        == [
          .confirmed(reconnected: false), message(1), message(2), message(3), message(4), .gap(.overflow(dropped: 4)),
        ]
        + [.ended(.unsubscribed)])
    #expect(dropped == 4)
  }

  @Test func `drop oldest: a gap stands for the first, and the last are kept`() async throws {
    let (events, dropped) = try await kept(.dropOldest)
    #expect(
      try events
        == [
          .confirmed(reconnected: false), .gap(.overflow(dropped: 4)), message(5), message(6), message(7), message(8),
        ]
        + [.ended(.unsubscribed)])
    #expect(dropped == 4)
  }

  @Test func `a backlog has a limit in bytes too, which the message that reaches it may pass`() async throws {
    let newest = try await keptOfLarge(.dropNewest)
    #expect(newest.indices == [0, 1, 2, 3])
    #expect(newest.dropped == 3)
    // The one of 9,000 bytes fills it alone, and goes for the first after it.
    let oldest = try await keptOfLarge(.dropOldest)
    #expect(oldest.indices == [5, 6])
    #expect(oldest.dropped == 5)
    let held = try await keptOfLarge(.holdBack)
    #expect(held.indices == [0, 1, 2, 3])
    #expect(held.dropped == 0)
  }

  @Test func `hold back: the socket is not read, nothing is lost, and silence is no sign of death`() async throws {
    let bench = try ClientBench()
    bench.connect()
    let events = try #require(bench.client).events(of: try room(), backlog: Backlog(messages: 4))
    let server = try bench.welcome()
    server.confirm()
    let body = "\"" + String(repeating: "x", count: 100_000) + "\""
    for _ in 0..<40 { server.message(body) }
    bench.manual.settle()
    #expect(server.unreadByClient > 0)
    bench.manual.advance(by: .seconds(60))
    #expect(bench.client?.state == .connected)
    var iterator = events.makeAsyncIterator()
    #expect(await iterator.next() == .confirmed(reconnected: false))
    for _ in 0..<40 {
      // A task asks; time must go on for the rest to arrive.
      bench.manual.settle()
      let event = await iterator.next()
      guard case .message(let message) = event else {
        Issue.record("\(String(describing: event))")
        return
      }
      #expect(message.bodyText == body)
    }
    #expect(server.unreadByClient == 0)
    #expect(bench.client?.counters.dropped == 0)
  }

  @Test func `a sequence that is released ends its subscription, and holds nobody back`() async throws {
    let bench = try ClientBench(staleAfter: nil)
    bench.connect()
    var events: SubscriptionEvents? = try #require(bench.client).events(of: try room(), backlog: Backlog(messages: 1))
    let server = try bench.welcome()
    _ = try server.readText()
    server.confirm()
    for number in 1...8 { server.message("\(number)") }
    bench.manual.settle()
    #expect(events != nil)
    events = nil
    #expect(try server.readText() == unsubscribeRoomText)
    #expect(server.unreadByClient == 0)
  }

  @Test func `messages of a sequence are decoded; a rejection is thrown`() async throws {
    let bench = try ClientBench()
    bench.connect()
    let events = try #require(bench.client).events(of: try room())
    let server = try bench.welcome()
    for text in ["1", "\"x\"", "2"] { server.message(text) }
    server.reject()
    bench.manual.settle()
    var iterator = events.messages(as: Int.self).makeAsyncIterator()
    #expect(try await iterator.next() == 1)
    await #expect(throws: DecodingError.self) { try await iterator.next() }
    #expect(try await iterator.next() == 2)
    await #expect(throws: SubscriptionEnd.rejected) { try await iterator.next() }
    #expect(try await iterator.next() == nil)
  }

  @Test func `a cancelled task loses no event`() async throws {
    let bench = try ClientBench()
    bench.connect()
    let events = try #require(bench.client).events(of: try room())
    let server = try bench.welcome()
    let task = Task { () -> SubscriptionEvent? in
      var iterator = events.makeAsyncIterator()
      return await iterator.next()
    }
    task.cancel()
    #expect(await task.value == nil)
    server.confirm()
    bench.manual.settle()
    var iterator = events.makeAsyncIterator()
    #expect(await iterator.next() == .confirmed(reconnected: false))
  }
}

@Suite("Channels with a callback for each kind of event")
struct CableChannelTests {
  @Test func `callbacks hear of their channel alone, in order`() throws {
    let bench = try ClientBench()
    let client = try #require(bench.client)
    let heard = SharedList<String>()
    func listen(_ channel: CableChannel, _ name: String) {
      channel.addOnSubscribe { heard.append("\(name) subscribed") }
      channel.addOnMessage { heard.append("\(name) message \($0)") }
      channel.addOnUnsubscribe { heard.append("\(name) unsubscribed") }
      channel.addOnRejectSubscription { heard.append("\(name) rejected") }
      channel.addOnPing { heard.append("\(name) ping") }
    }
    let first = try client.makeChannel(
      name: "ChatChannel", identifier: ["room_id": 1],
      options: ChannelOptions(buffering: true, autoSubscribe: true))
    let second = try client.makeChannel(name: "ChatChannel", identifier: ["room_id": 2])
    listen(first, "1")
    listen(second, "2")
    first.sendMessage(actionName: "speak", data: ["text": "hi"])
    bench.connect()
    let server = try bench.welcome()
    _ = try server.readText()
    second.subscribe()
    second.subscribe()
    server.confirm(try room(1).text)
    server.message("7", try room(1).text)
    server.reject(try room(2).text)
    server.say(#"{"type":"ping"}"#)
    bench.manual.settle()
    #expect(first.isSubscribed)
    #expect(!second.isSubscribed)
    #expect(heard.take() == ["1 subscribed", "1 message 7", "2 rejected", "1 ping", "2 ping"])
    _ = try server.readText()
    #expect(try server.readText().contains(#"\"text\":\"hi\""#))
    // A rejected channel can be subscribed to anew.
    second.subscribe()
    #expect(try server.readText().hasPrefix(#"{"command":"subscribe""#))
    first.unsubscribe()
    bench.manual.settle()
    #expect(heard.take() == ["1 unsubscribed"])
    server.reset()
    _ = try bench.welcome()
    bench.manual.settle()
    #expect(heard.take() == [])
  }

  @Test func `unsubscribe and subscribe in one breath end subscribed`() throws {
    let bench = try ClientBench()
    let channel = try #require(bench.client).makeChannel(name: "ChatChannel", identifier: ["room_id": 42])
    let heard = SharedList<String>()
    channel.addOnSubscribe { heard.append("subscribed") }
    channel.addOnMessage { heard.append("message \($0)") }
    channel.addOnUnsubscribe { heard.append("unsubscribed") }
    bench.connect()
    let server = try bench.welcome()
    channel.subscribe()
    #expect(try server.readText() == subscribeRoomText)
    server.confirm()
    bench.manual.settle()
    channel.unsubscribe()
    channel.subscribe()
    channel.subscribe()
    bench.manual.settle()
    #expect(heard.take() == ["subscribed", "unsubscribed"])
    #expect(try server.readText() == unsubscribeRoomText)
    bench.manual.advance(by: .milliseconds(250))
    #expect(try server.readText() == subscribeRoomText)
    server.confirm()
    server.message("7")
    bench.manual.settle()
    #expect(heard.take() == ["subscribed", "message 7"])
    #expect(channel.isSubscribed)
    channel.unsubscribe()
    channel.unsubscribe()
    bench.manual.settle()
    #expect(heard.take() == ["unsubscribed"])
    #expect(!channel.isSubscribed)
  }

  @Test func `a channel that outlives its client hears the end at once, and is let go`() throws {
    let bench = try ClientBench()
    weak var weakly: CableChannel?
    do {
      let channel = try #require(bench.client).makeChannel(
        name: "ChatChannel", options: ChannelOptions(autoSubscribe: true))
      weakly = channel
      channel.addOnUnsubscribe { [weak channel] in channel?.subscribe() }
      bench.connect()
      let server = try bench.welcome()
      server.confirm(channel.identifier.text)
      bench.manual.settle()
      #expect(channel.isSubscribed)
      bench.release()
      bench.manual.settle()
      channel.subscribe()
      bench.manual.settle()
      channel.subscribe()
      bench.manual.settle()
    }
    #expect(weakly == nil)
  }
}
