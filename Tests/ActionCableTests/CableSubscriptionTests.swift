import ActionCable
import Testing
import WebSocketHandling
import WebSocketTransport

@Suite("The rules of Action Cable: subscriptions")
struct CableSubscriptionTests {
  private let confirmedOnce = CableOutput.event(subscriber: 1, .confirmed(reconnected: false))

  @Test func `one server subscription per identifier: a second subscriber joins a pending one and shares its verdict`()
    throws
  {
    var bench = MachineBench.connected()
    #expect(try bench.subscribe(1) == [subscribeRoom])
    #expect(try bench.subscribe(2) == [])
    #expect(bench.confirm() == [confirmedOnce, .event(subscriber: 2, .confirmed(reconnected: false))])
  }

  @Test func `a second subscriber of a confirmed identifier is confirmed at once, and nothing is sent`() throws {
    var bench = try MachineBench.confirmed()
    #expect(try bench.subscribe(2) == [.event(subscriber: 2, .confirmed(reconnected: false))])
  }

  @Test func `unsubscribe goes out with the last subscriber`() throws {
    var bench = try MachineBench.confirmed()
    _ = try bench.subscribe(2)
    #expect(bench.unsubscribe(1) == [.event(subscriber: 1, .ended(.unsubscribed))])
    #expect(bench.unsubscribe(1) == [])
    #expect(bench.unsubscribe(2) == [.event(subscriber: 2, .ended(.unsubscribed)), unsubscribeRoom])
  }

  @Test("unsubscribing while pending waits for the verdict", arguments: [true, false])
  func unsubscribePending(isConfirmed: Bool) throws {
    var bench = MachineBench.connected()
    _ = try bench.subscribe(1)
    #expect(bench.unsubscribe(1) == [.event(subscriber: 1, .ended(.unsubscribed))])
    #expect(bench.message("1") == [.ignored(.unclaimed(identifier: roomText))])
    if isConfirmed {
      #expect(bench.confirm() == [unsubscribeRoom])
    } else {
      #expect(bench.reject() == [])
    }
    #expect(bench.advance(by: .seconds(5)) == [])
  }

  @Test("unsubscribing while pending waits no longer than the time-out", arguments: [Duration.seconds(10), nil])
  func unsubscribeUnanswered(timeout: Duration?) throws {
    var bench = MachineBench.connected(timing: CableTiming(staleAfter: nil, subscribeTimeout: timeout))
    _ = try bench.subscribe(1)
    _ = bench.unsubscribe(1)
    #expect(bench.advance(by: .milliseconds(9_999)) == [])
    #expect(bench.advance(by: .milliseconds(1)) == [unsubscribeRoom])
    #expect(bench.advance(by: .seconds(60)) == [])
  }

  @Test func `subscribe, unsubscribe, subscribe while pending is one subscribe`() throws {
    var bench = MachineBench.connected()
    #expect(try bench.subscribe(1) == [subscribeRoom])
    _ = bench.unsubscribe(1)
    #expect(try bench.subscribe(2) == [])
    #expect(bench.confirm() == [.event(subscriber: 2, .confirmed(reconnected: false))])
  }

  @Test func `subscribe, unsubscribe, subscribe before the connection is one subscribe`() throws {
    var bench = MachineBench()
    _ = try bench.subscribe(1)
    _ = bench.unsubscribe(1)
    _ = try bench.subscribe(2)
    #expect(bench.connect() == [.connected, subscribeRoom])
  }

  @Test func `a subscribe after an unsubscribe waits for the cool-down`() throws {
    var bench = try MachineBench.confirmed()
    _ = bench.unsubscribe(1)
    #expect(try bench.subscribe(2) == [])
    #expect(bench.message("1") == [.ignored(.unclaimed(identifier: roomText))])
    #expect(bench.advance(by: .milliseconds(249)) == [])
    #expect(bench.advance(by: .milliseconds(1)) == [subscribeRoom])
    #expect(bench.confirm() == [.event(subscriber: 2, .confirmed(reconnected: false))])
  }

  @Test func `the cool-down is one identifier's own, and ends with the connection`() throws {
    var bench = try MachineBench.confirmed()
    _ = bench.unsubscribe(1)
    _ = try bench.subscribe(2)
    #expect(try bench.subscribe(3, to: room(7)).count == 1)
    _ = bench.lose()
    #expect(bench.connect().contains(subscribeRoom))
  }

  @Test func `unsubscribing during the cool-down sends nothing`() throws {
    var bench = try MachineBench.confirmed()
    _ = bench.unsubscribe(1)
    _ = try bench.subscribe(2)
    _ = bench.unsubscribe(2)
    #expect(bench.advance(by: .seconds(5)) == [])
  }

  @Test func `a confirmation that nobody waits for is a ghost: it is unsubscribed`() throws {
    var bench = MachineBench.connected()
    #expect(bench.confirm() == [.ignored(.unclaimed(identifier: roomText)), unsubscribeRoom])
    // A subscribe for it waits as after any unsubscribe.
    #expect(try bench.subscribe(1) == [])
    #expect(bench.advance(by: .milliseconds(250)) == [subscribeRoom])
  }

  @Test func `a confirmation of an earlier subscribe during the cool-down is a ghost`() throws {
    var bench = try MachineBench.confirmed()
    _ = bench.unsubscribe(1)
    _ = try bench.subscribe(2)
    _ = bench.advance(by: .milliseconds(200))
    #expect(bench.confirm() == [unsubscribeRoom])
    #expect(bench.advance(by: .milliseconds(249)) == [])
    #expect(bench.advance(by: .milliseconds(1)) == [subscribeRoom])
  }

  @Test func `a repeated confirmation says nothing new`() throws {
    var bench = try MachineBench.confirmed()
    #expect(bench.confirm() == [.ignored(.unexpected)])
  }

  @Test func `data before the confirmation is delivered, in order`() throws {
    var bench = MachineBench.connected()
    _ = try bench.subscribe(1)
    #expect(bodies(bench.message("1") + bench.message("2")) == ["1", "2"])
    #expect(bench.confirm() == [confirmedOnce])
    #expect(bodies(bench.message("3")) == ["3"])
  }

  @Test func `a message is told once, and given to each subscriber in the order of their subscriptions`() throws {
    var bench = try MachineBench.confirmed()
    _ = try bench.subscribe(2)
    bench.keepsMessages = true
    let message = CableMessage(identifier: try room(), type: nil, body: "7")
    #expect(
      bench.message("7") == [
        .message(message), .event(subscriber: 1, .message(message)), .event(subscriber: 2, .message(message)),
      ])
  }

  @Test func `data for an identifier that nobody has is dropped and told`() {
    var bench = MachineBench.connected()
    #expect(bench.message("1") == [.ignored(.unclaimed(identifier: roomText))])
  }

  @Test func `a rejection ends all subscribers, and the reason that came before is delivered`() throws {
    var bench = MachineBench.connected()
    _ = try bench.subscribe(1)
    _ = try bench.subscribe(2)
    #expect(bodies(bench.message(#""full""#), of: 2) == [#""full""#])
    #expect(bench.reject() == [.event(subscriber: 1, .ended(.rejected)), .event(subscriber: 2, .ended(.rejected))])
    // It is forgotten before it is told: subscribing again works at once.
    #expect(try bench.subscribe(3) == [subscribeRoom])
    _ = bench.reject()
    _ = bench.lose()
    #expect(bench.connect() == [.connected])
  }

  @Test func `a rejection after a reconnect ends the subscription too`() throws {
    var bench = try MachineBench.confirmed()
    _ = bench.lose()
    _ = bench.connect()
    #expect(bench.reject() == [.event(subscriber: 1, .ended(.rejected))])
  }

  @Test func `a subscribe without an answer is repeated after 0.5, 1, 2, 4 s, and times out after 10`() throws {
    var bench = MachineBench.connected(timing: CableTiming(staleAfter: nil))
    _ = try bench.subscribe(1)
    var times: [Duration] = []
    for tenth in 1...100 {
      let outputs = bench.advance(by: .milliseconds(100))
      if outputs == [subscribeRoom] {
        times.append(.milliseconds(100 * tenth))
      } else if tenth < 100 {
        #expect(outputs == [])
      }
      if tenth == 100 { #expect(outputs == [unsubscribeRoom, .event(subscriber: 1, .ended(.timedOut))]) }
    }
    #expect(times == [.milliseconds(500), .milliseconds(1_500), .milliseconds(3_500), .milliseconds(7_500)])
    #expect(bench.advance(by: .seconds(60)) == [])
  }

  @Test func `a retry after nothing counts as one after 1 ms`() throws {
    var bench = MachineBench.connected(timing: CableTiming(subscribeRetry: .zero))
    #expect(try bench.subscribe(1) == [subscribeRoom])
    var times: [Int] = []
    for millisecond in 1...10 where bench.advance(by: .milliseconds(1)) == [subscribeRoom] { times.append(millisecond) }
    #expect(times == [1, 3, 7])
  }

  @Test func `without a time-out a subscribe is repeated for ever`() throws {
    var bench = MachineBench.connected(timing: CableTiming(staleAfter: nil, subscribeTimeout: nil))
    _ = try bench.subscribe(1)
    #expect(bench.advance(by: .seconds(3_600)) == Array(repeating: subscribeRoom, count: 12))
  }

  @Test("the repetition stops with any answer", arguments: 0..<4)
  func repetitionStops(answer: Int) throws {
    var bench = MachineBench.connected(timing: CableTiming(staleAfter: nil))
    _ = try bench.subscribe(1)
    switch answer {
    case 0: _ = bench.confirm()
    case 1: _ = bench.reject()
    case 2: _ = bench.unsubscribe(1) + bench.reject()
    default: _ = bench.lose()
    }
    #expect(bench.advance(by: .seconds(60)) == [])
  }

  @Test func `a connection that ends during a subscribe leaves it wanted`() throws {
    var bench = MachineBench.connected()
    _ = try bench.subscribe(1)
    #expect(
      bench.say(#"{"type":"disconnect","reason":"remote","reconnect":true}"#) == [
        .end(.server(.remote), willRetry: true)
      ])
    bench.machine.willReconnect()
    #expect(bench.take() == disconnected(.server(.remote), willReconnect: true))
    #expect(bench.connect() == [.connected, subscribeRoom])
    #expect(bench.confirm() == [confirmedOnce])
  }

  @Test(
    "a message is any JSON value, and its bytes are kept",
    arguments: ["null", "0", "false", #""""#, "1.10", "1e3", #"{"b" : 1,"a":"\/"}"#, "[ ]"])
  func anyJSON(body: String) throws {
    var bench = try MachineBench.confirmed()
    #expect(bodies(bench.message(body)) == [body])
  }

  @Test func `an unknown type with an identifier and a message is a message; without them it is ignored`() throws {
    var bench = try MachineBench.confirmed()
    let outputs = bench.say(
      #"{"type":"presence","identifier":"{\"channel\":\"ChatChannel\",\"room_id\":42}","message":1}"#)
    guard case .event(1, .message(let message)) = outputs.first else {
      Issue.record("no message: \(outputs)")
      return
    }
    #expect(message.type == "presence")
    #expect(bench.say(#"{"type":"presence"}"#) == [.ignored(.unexpected)])
    #expect(bench.say("{}") == [.ignored(.unexpected)])
  }

  @Test("a frame that cannot be read is counted and ignored", arguments: ["", "nonsense", "[1]", "{", "\u{0}", "null"])
  func malformed(text: String) throws {
    var bench = try MachineBench.confirmed()
    #expect(bench.say(text) == [.ignored(.malformed)])
    #expect(bodies(bench.message("1")) == ["1"])
  }

  @Test func `an identifier that the server writes anew is recognised`() throws {
    var bench = MachineBench.connected()
    _ = try bench.subscribe(1)
    #expect(bench.confirm(#"{ "room_id": 42, "channel": "ChatChannel" }"#) == [confirmedOnce])
    #expect(bodies(bench.message("1", #"{"room_id":42,"channel":"Chat\u0043hannel"}"#)) == ["1"])
  }
}

@Suite("The rules of Action Cable: performing")
struct CablePerformTests {
  @Test func `a message is written when the channel is confirmed, else it is said why not`() throws {
    var bench = MachineBench()
    _ = try bench.subscribe(1)
    #expect(bench.perform(1) == [.outcome(perform: 1, .notConnected)])
    _ = bench.connect()
    #expect(bench.perform(2) == [.outcome(perform: 2, .notSubscribed)])
    _ = bench.confirm()
    #expect(bench.perform(3) == [speak(3)])
    _ = bench.unsubscribe(1)
    #expect(bench.perform(4) == [.outcome(perform: 4, .notSubscribed)])
  }

  @Test func `what may wait is written after the confirmation, in order, and never again`() throws {
    var bench = MachineBench()
    _ = try bench.subscribe(1)
    #expect(bench.perform(1, mayWait: true) + bench.perform(2, mayWait: true) == [])
    _ = bench.connect()
    #expect(bench.perform(3, mayWait: true) == [])
    #expect(bench.confirm() == [.event(subscriber: 1, .confirmed(reconnected: false)), speak(1), speak(2), speak(3)])
    _ = bench.lose()
    _ = bench.connect()
    #expect(!bench.confirm().contains(speak(1)))
  }

  @Test func `what waits is bounded in number and age, and ends with its subscriber`() throws {
    var bench = MachineBench(buffer: PerformBuffer(messages: 2, age: .seconds(60)))
    _ = try bench.subscribe(1)
    _ = bench.perform(1, mayWait: true)
    _ = bench.advance(by: .seconds(1))
    _ = bench.perform(2, mayWait: true)
    #expect(bench.perform(3, mayWait: true) == [.outcome(perform: 3, .bufferFull)])
    #expect(bench.advance(by: .milliseconds(58_999)) == [])
    #expect(bench.advance(by: .milliseconds(1)) == [.outcome(perform: 1, .expired)])
    #expect(
      bench.unsubscribe(1) == [.outcome(perform: 2, .notSubscribed), .event(subscriber: 1, .ended(.unsubscribed))])
    #expect(bench.advance(by: .seconds(60)) == [])
  }
}
