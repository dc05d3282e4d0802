import ActionCable
import Testing
import WebSocketHandling
import WebSocketTransport

/// A machine, its clock, and the server's words.
struct MachineBench {
  var machine: CableMachine
  private(set) var now = Instant(nanoseconds: 0)

  init(timing: CableTiming = CableTiming(), buffer: PerformBuffer = PerformBuffer(), canRefresh: Bool = false) {
    machine = CableMachine(timing: timing, buffer: buffer, canRefresh: canRefresh)
    machine.start()
  }

  /// A machine whose server said `welcome`.
  static func connected(
    timing: CableTiming = CableTiming(), buffer: PerformBuffer = PerformBuffer(), canRefresh: Bool = false
  ) -> MachineBench {
    var bench = MachineBench(timing: timing, buffer: buffer, canRefresh: canRefresh)
    _ = bench.connect()
    return bench
  }

  /// A machine with a confirmed subscription, the subscriber 1 of ``room``.
  static func confirmed(timing: CableTiming = CableTiming(), canRefresh: Bool = false) throws -> MachineBench {
    var bench = MachineBench.connected(timing: timing, canRefresh: canRefresh)
    #expect(try bench.subscribe(1) == [subscribeRoom])
    #expect(bench.confirm() == [.event(subscriber: 1, .confirmed(reconnected: false))])
    return bench
  }

  mutating func connect() -> [CableOutput] {
    machine.attemptBegan()
    machine.opened(subprotocol: .unknown, at: now)
    return take() + say(#"{"type":"welcome"}"#)
  }

  /// Whether what is told of messages, beside their subscribers' events, is kept.
  var keepsMessages = false

  mutating func take() -> [CableOutput] {
    machine.takeOutputs().filter { output in
      if case .message = output { keepsMessages } else { true }
    }
  }

  /// The server sends a frame.
  mutating func say(_ text: String) -> [CableOutput] {
    machine.received(try? ServerMessage(parsing: text), text: text, at: now)
    return take()
  }

  mutating func confirm(_ identifier: String = roomText) -> [CableOutput] {
    say("{\"identifier\":\(CanonicalJSON.quoted(identifier)),\"type\":\"confirm_subscription\"}")
  }

  mutating func reject(_ identifier: String = roomText) -> [CableOutput] {
    say("{\"identifier\":\(CanonicalJSON.quoted(identifier)),\"type\":\"reject_subscription\"}")
  }

  mutating func message(_ body: String, _ identifier: String = roomText) -> [CableOutput] {
    say("{\"identifier\":\(CanonicalJSON.quoted(identifier)),\"message\":\(body)}")
  }

  mutating func subscribe(_ id: UInt64, to identifier: ChannelIdentifier? = nil) throws -> [CableOutput] {
    machine.subscribe(id, to: try identifier ?? room(), at: now)
    return take()
  }

  mutating func unsubscribe(_ id: UInt64) -> [CableOutput] {
    machine.unsubscribe(id, at: now)
    return take()
  }

  mutating func perform(_ id: UInt64, by subscriber: UInt64 = 1, mayWait: Bool = false) -> [CableOutput] {
    machine.perform(id, by: subscriber, data: #"{"action":"speak"}"#, mayWait: mayWait, at: now)
    return take()
  }

  /// Lets time go by; what is due happens at its exact time.
  mutating func advance(by duration: Duration) -> [CableOutput] {
    let end = now + duration
    var outputs: [CableOutput] = []
    while let deadline = machine.nextDeadline, deadline <= end {
      now = max(now, deadline)
      machine.advance(to: now)
      outputs += take()
    }
    now = end
    return outputs
  }

  /// The connection breaks, and there will be another attempt.
  mutating func lose() -> [CableOutput] {
    machine.lost(.lost(.cancelled))
    machine.willReconnect()
    return take()
  }
}

let roomText = #"{"channel":"ChatChannel","room_id":42}"#
func room(_ number: Int = 42) throws -> ChannelIdentifier {
  try ChannelIdentifier("ChatChannel", ["room_id": .integer(number)])
}

let subscribeRoom = CableOutput.send(
  #"{"command":"subscribe","identifier":"{\"channel\":\"ChatChannel\",\"room_id\":42}"}"#, perform: nil)
let unsubscribeRoom = CableOutput.send(
  #"{"command":"unsubscribe","identifier":"{\"channel\":\"ChatChannel\",\"room_id\":42}"}"#, perform: nil)
func speak(_ id: UInt64) -> CableOutput {
  .send(
    #"{"command":"message","data":"{\"action\":\"speak\"}","identifier":"{\"channel\":\"ChatChannel\",\"room_id\":42}"}"#,
    perform: id)
}

/// What is told of a lost connection where there is the subscriber 1.
func disconnected(_ cause: DisconnectCause, willReconnect: Bool) -> [CableOutput] {
  [
    .disconnected(cause, willReconnect: willReconnect),
    .event(subscriber: 1, .disconnected(cause, willReconnect: willReconnect)),
  ]
}

/// The texts of the messages that a subscriber got.
func bodies(_ outputs: [CableOutput], of subscriber: UInt64 = 1) -> [String] {
  outputs.compactMap { output in
    guard case .event(subscriber, .message(let message)) = output else { return nil }
    return message.bodyText
  }
}
