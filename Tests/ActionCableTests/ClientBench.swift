import ActionCable
import Foundation
import Testing
import WebSocketCore
import WebSocketHandling
import WebSocketTesting
import WebSocketTransport
import TestSupport

/// A client over a handler in a manual environment, and the server's end of its connections.
final class ClientBench {
  let manual: ManualEnvironment
  private(set) var client: ActionCableClient?
  let events = SharedList<SubscriptionEvent>()
  let connects = SharedList<Result<Void, DisconnectCause>>()

  init(
    url: String = "ws://192.0.2.1/cable", headers: HTTPFields = [], staleAfter: Duration? = .seconds(6),
    handler: (any WebSocketHandler)? = nil, change: (inout CableConfiguration) -> Void = { _ in }
  ) throws {
    manual = ManualEnvironment()
    var configuration = CableConfiguration()
    configuration.policy.backoff = Backoff(first: .zero, base: .zero, maximum: .zero)
    change(&configuration)
    client = ActionCableClient(
      url: try #require(URL(string: url)), headers: headers, staleAfter: staleAfter, configuration: configuration,
      handler: handler, logger: SilentLogger(), environment: manual.environment)
  }

  func release() { client = nil }

  func connect() { client?.connect { [connects] in connects.append($0) } }

  @discardableResult
  func subscribe(
    _ identifier: ChannelIdentifier? = nil, buffering: Bool = false, backlog: Backlog? = nil
  ) throws -> Subscription {
    let client = try #require(client)
    return client.subscribe(to: try identifier ?? room(), buffering: buffering, backlog: backlog) { [events] in
      events.append($0)
    }
  }

  /// Answers the next opening handshake and says `welcome`.
  func welcome() throws -> MemoryConnection {
    let server = try open()
    server.say(#"{"type":"welcome"}"#)
    manual.settle()
    return server
  }

  /// Answers the next opening handshake.
  func open() throws -> MemoryConnection {
    let server = try manual.nextConnection()
    server.send(
      try server.answer(to: server.readRequest(), adding: "Sec-WebSocket-Protocol: actioncable-v1-json\r\n"))
    manual.settle()
    return server
  }

  /// Connects, subscribes and is confirmed; forgets what was told.
  func confirmed(buffering: Bool = false, backlog: Backlog? = nil) throws -> (MemoryConnection, Subscription) {
    connect()
    let subscription = try subscribe(buffering: buffering, backlog: backlog)
    let server = try welcome()
    #expect(try server.readText() == subscribeRoomText)
    server.confirm()
    #expect(take() == [.confirmed(reconnected: false)])
    return (server, subscription)
  }

  func take() -> [SubscriptionEvent] {
    manual.settle()
    return events.take()
  }

  /// The bodies of the messages among the events since the last call.
  func takeBodies() -> [String] {
    take().compactMap { event in
      if case .message(let message) = event { message.bodyText } else { nil }
    }
  }
}

let subscribeRoomText = #"{"command":"subscribe","identifier":"{\"channel\":\"ChatChannel\",\"room_id\":42}"}"#
let unsubscribeRoomText = #"{"command":"unsubscribe","identifier":"{\"channel\":\"ChatChannel\",\"room_id\":42}"}"#

extension MemoryConnection {
  func say(_ text: String) { send(.text(text)) }

  func confirm(_ identifier: String = roomText) {
    say("{\"identifier\":\(CanonicalJSON.quoted(identifier)),\"type\":\"confirm_subscription\"}")
  }

  func reject(_ identifier: String = roomText) {
    say("{\"identifier\":\(CanonicalJSON.quoted(identifier)),\"type\":\"reject_subscription\"}")
  }

  func message(_ body: String, _ identifier: String = roomText) {
    say("{\"identifier\":\(CanonicalJSON.quoted(identifier)),\"message\":\(body)}")
  }

  func readText() throws -> String {
    guard case .text(let text) = try readMessage() else { throw ScriptFailure.missing }
    return text
  }

  /// Reads the client's Close, answers it and ends the stream.
  func answerClose() throws {
    let frame = try readFrame()
    try #require(frame.opcode == .close)
    send(frame: frame)
    finish()
  }
}
