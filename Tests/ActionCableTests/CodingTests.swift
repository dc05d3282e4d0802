import ActionCable
import Foundation
import Testing
import WebSocketHandling
import WebSocketTesting
import TestSupport

private struct MyObject: Codable, Sendable, Equatable {
  let senderId: Int
  let text: String
  let sentAt: Date

  /// The line that the README of the client before this one shows.
  var line: String { "\(text.debugDescription) from Sender \(senderId) at \(sentAt)" }
}

private struct MessageType: Codable, Sendable {
  let myObject: MyObject
}

private struct Spoken: Encodable {
  let action: String
  let senderId: Int
  let text: String
  let sentAt: Date
}

@Suite("Sending to a channel")
struct SendingTests {
  private static let sentAt = Date(timeIntervalSince1970: 1_600_545_466.294104)

  /// What is written by `send`, and its outcome.
  private func written(
    change: (inout CableConfiguration) -> Void = { _ in },
    _ send: (Subscription, @escaping @Sendable (PerformOutcome) -> Void) -> Void
  ) throws -> (text: String?, outcomes: [PerformOutcome]) {
    let bench = try ClientBench(change: change)
    let (server, subscription) = try bench.confirmed()
    let outcomes = SharedList<PerformOutcome>()
    send(subscription) { outcomes.append($0) }
    bench.manual.settle()
    return (try? server.readText(), outcomes.take())
  }

  @Test func `send(object) takes the action out and puts the rest under the type's name, byte for byte`() throws {
    struct MyObject: Encodable {
      let action: String
      let senderId: Int
      let text: String
      let sentAt: Date
    }
    let (text, outcomes) = try written { subscription, completion in
      subscription.send(
        object: MyObject(action: "speak", senderId: 99, text: "my message", sentAt: Self.sentAt), completion: completion
      )
    }
    #expect(
      text
        == #"{"command":"message","data":"{\"action\":\"speak\",\"my_object\":{\"sender_id\":99,\"sent_at\":1600545466.294104,\"text\":\"my message\"}}","identifier":"{\"channel\":\"ChatChannel\",\"room_id\":42}"}"#
    )
    #expect(outcomes == [.written])
  }

  @Test func `as fields an object is flattened, as named it has the name that is given`() throws {
    let object = Spoken(action: "speak", senderId: 99, text: "a/b", sentAt: Self.sentAt)
    let (flat, _) = try written { $0.send(object: object, as: .fields, completion: $1) }
    #expect(
      flat
        == #"{"command":"message","data":"{\"action\":\"speak\",\"sender_id\":99,\"sent_at\":1600545466.294104,\"text\":\"a/b\"}","identifier":"{\"channel\":\"ChatChannel\",\"room_id\":42}"}"#
    )
    let (named, _) = try written { $0.send(object: ["b": 1, "a": 2], as: .named("an_object"), completion: $1) }
    #expect(
      named
        == #"{"command":"message","data":"{\"an_object\":{\"a\":2,\"b\":1}}","identifier":"{\"channel\":\"ChatChannel\",\"room_id\":42}"}"#
    )
  }

  @Test func `perform flattens its data beside the action, keys sorted by their scalars`() throws {
    let (text, _) = try written {
      $0.perform("speak", JSONValue.object(["a10": 1, "a2": 2, "Z": [1.5, nil], "text": "x"]), completion: $1)
    }
    #expect(
      text
        == #"{"command":"message","data":"{\"Z\":[1.5,null],\"a10\":1,\"a2\":2,\"action\":\"speak\",\"text\":\"x\"}","identifier":"{\"channel\":\"ChatChannel\",\"room_id\":42}"}"#
    )
    let (plain, _) = try written { $0.perform("whoami", completion: $1) }
    #expect(
      plain
        == #"{"command":"message","data":"{\"action\":\"whoami\"}","identifier":"{\"channel\":\"ChatChannel\",\"room_id\":42}"}"#
    )
  }

  @Test func `the coding is the client's own`() throws {
    let (text, _) = try written(change: { configuration in
      configuration.coding = CableCoding(encoder: {
        $0.keyEncodingStrategy = .useDefaultKeys
        $0.dateEncodingStrategy = .iso8601
      })
    }) {
      $0.perform("speak", ["sentAt": Date(timeIntervalSince1970: 0)], completion: $1)
    }
    #expect(
      text
        == #"{"command":"message","data":"{\"action\":\"speak\",\"sentAt\":\"1970-01-01T00:00:00Z\"}","identifier":"{\"channel\":\"ChatChannel\",\"room_id\":42}"}"#
    )
  }

  @Test func `what cannot be sent has an outcome, and nothing is written`() throws {
    let (taken, reserved) = try written { $0.perform("speak", ["action": "x"], completion: $1) }
    #expect(taken == nil)
    #expect(reserved == [.invalid(.actionIsReserved)])
    #expect(try written { $0.perform("speak", [1], completion: $1) }.outcomes == [.invalid(.notAnObject)])
    #expect(try written { $0.perform("speak", "x", completion: $1) }.outcomes == [.invalid(.notAnObject)])
    let nan = try written { $0.perform("speak", ["x": Double.nan], completion: $1) }.outcomes
    guard case .invalid(.unencodable) = nan.first else {
      Issue.record("\(nan)")
      return
    }
  }

  @Test func `each message has one outcome: not connected, not subscribed, maybe delivered`() throws {
    let bench = try ClientBench()
    let outcomes = SharedList<PerformOutcome>()
    bench.connect()
    let subscription = try bench.subscribe()
    subscription.perform("speak") { outcomes.append($0) }
    let server = try bench.welcome()
    subscription.perform("speak") { outcomes.append($0) }
    server.confirm()
    bench.manual.settle()
    #expect(outcomes.take() == [.notConnected, .notSubscribed])
    server.setWriteRoom(10)
    subscription.perform("speak") { outcomes.append($0) }
    bench.manual.settle()
    server.reset()
    bench.manual.settle()
    guard case .maybeDelivered = outcomes.take().first else {
      Issue.record("no doubt")
      return
    }
    subscription.unsubscribe()
    subscription.perform("speak") { outcomes.append($0) }
    bench.manual.settle()
    #expect(outcomes.take() == [.notSubscribed])
  }

  @Test func `with buffering messages wait for the confirmation, also in events`() throws {
    let bench = try ClientBench()
    let outcomes = SharedList<PerformOutcome>()
    let subscription = try bench.subscribe(buffering: true)
    subscription.perform("speak") { outcomes.append($0) }
    bench.connect()
    let server = try bench.welcome()
    _ = try server.readText()
    #expect(outcomes.take() == [])
    server.confirm()
    #expect(
      try server.readText()
        == #"{"command":"message","data":"{\"action\":\"speak\"}","identifier":"{\"channel\":\"ChatChannel\",\"room_id\":42}"}"#
    )
    #expect(outcomes.take() == [.written])
  }
}

@Suite("Messages of a channel")
struct CableMessageTests {
  private let body =
    #"{"my_object": {"sender_id": 311, "text": "Hello, room 42!", "sent_at": 1600545466.294104}}"#

  /// The message that a client makes of a body.
  private func received(_ body: String, change: (ActionCableClient) throws -> Void) throws -> CableMessage {
    let bench = try ClientBench()
    try change(try #require(bench.client))
    let (server, _) = try bench.confirmed()
    server.message(body)
    guard case .message(let message) = bench.take().first else { throw ScriptFailure.missing }
    return message
  }

  @Test func `an object of one member is decoded by its name`() throws {
    let message = try received(body) { $0.register(MyObject.self) }
    let object = try #require(message.object as? MyObject)
    #expect(object.line == #""Hello, room 42!" from Sender 311 at 2020-09-19 19:57:46 +0000"#)
    let named = try received(#"{"an_object":{"sender_id":1,"text":"","sent_at":0}}"#) {
      $0.register(MyObject.self, forKey: "an_object")
    }
    #expect(named.object as? MyObject == MyObject(senderId: 1, text: "", sentAt: Date(timeIntervalSince1970: 0)))
  }

  @Test func `a whole message is decoded by its identifier`() throws {
    let message = try received(body) { $0.register(MessageType.self, for: try room()) }
    let object = try #require(message.object as? MessageType)
    #expect(object.myObject.line == #""Hello, room 42!" from Sender 311 at 2020-09-19 19:57:46 +0000"#)
  }

  @Test func `a registration is the client's own, and can be taken back`() throws {
    let other = try ClientBench()
    other.client?.register(MyObject.self)
    #expect(try received(body) { _ in }.object == nil)
    #expect(
      try received(body) {
        $0.register(MyObject.self)
        $0.unregister(MyObject.self)
      }.object == nil)
    #expect(
      try received(body) {
        $0.register(MessageType.self, for: try room())
        $0.unregisterType(for: try room())
      }.object == nil)
    #expect(
      try received(body) {
        $0.register(MessageType.self, for: try room())
        $0.register(MyObject.self)
        $0.unregisterAllTypes()
      }.object == nil)
  }

  @Test("a message that does not decode arrives all the same", arguments: [#"{"my_object":{"sender_id":"x"}}"#])
  func undecodable(body: String) throws {
    let message = try received(body) { $0.register(MyObject.self) }
    #expect(message.object == nil)
    #expect(message.decodingFailure?.type == "MyObject")
    #expect(message.bodyText == body)
  }

  @Test(
    "an object of another number of members, and what is none, are left alone",
    arguments: [#"{"my_object":1,"b":2}"#, "{}", "7", "null", #"["my_object"]"#])
  func notSingle(body: String) throws {
    let message = try received(body) { $0.register(MyObject.self) }
    #expect(message.object == nil)
    #expect(message.decodingFailure == nil)
  }

  @Test func `the body's bytes and those of its members are as they were sent`() throws {
    let body = #"{"type" : "new_chat" , "data": {"b":1.10,"a":1e3,"c":"\/é"},"data":{ "z":[] }}"#
    let message = try received(body) { _ in }
    #expect(message.bodyData == Data(body.utf8))
    #expect(message.typeData == Data(#""new_chat""#.utf8))
    #expect(message.textData == Data(#"{ "z":[] }"#.utf8))
    #expect(message.data(forKey: "none") == nil)
    #expect(message.type == nil)
    #expect(try received("7") { _ in }.typeData == nil)
  }

  @Test func `a message decodes by the client's coding`() throws {
    struct Quote: Decodable, Equatable {
      let lastPrice: Double
    }
    #expect(try received(#"{"last_price":1.5}"#) { _ in }.decode(Quote.self) == Quote(lastPrice: 1.5))
    #expect(try received("null") { _ in }.decode(Int?.self) == nil)
  }
}
