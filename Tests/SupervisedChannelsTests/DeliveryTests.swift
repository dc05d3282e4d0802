import SupervisedChannels
import Testing
import WebSocketTesting

@Suite("When values are delivered")
struct DeliveryTests {
  private func opened(value: String? = nil, _ delivery: ChannelDelivery) -> Bench {
    let bench = Bench()
    bench.reconcile(bench.channel("a", value: value, delivery: delivery))
    _ = bench.take()
    return bench
  }

  @Test func `a broadcast is not compared with the last: the same text twice arrives twice`() {
    let bench = opened(.immediate)
    #expect([bench.broadcast("hi", to: "a"), bench.broadcast("hi", to: "a")] == [.delivered, .delivered])
    #expect(bench.take() == [.broadcast("a", "hi"), .broadcast("a", "hi")])
  }

  @Test func `a broadcast says why it goes nowhere`() {
    let bench = opened(.immediate)
    bench.reconcile(bench.channel("a"), bench.channel("settling", key: "1", settle: .seconds(1)))
    #expect(bench.broadcast("x", to: "absent") == .noSuchChannel)
    #expect(bench.broadcast("x", to: "settling") == .noSuchChannel)
    #expect(bench.with { $0.broadcast(1, channel: "settling") } == .noSuchChannel)
    #expect(bench.with { $0.broadcast(1, channel: "a") } == .typeMismatch)
    #expect(bench.take() == [])
    #expect(bench.take(after: .seconds(1)) == [.opened("settling1")])
    #expect(bench.broadcast("x", to: "settling") == .delivered)
  }

  @Test func `a channel that takes nothing takes no broadcast`() {
    let bench = Bench()
    bench.with { supervisor in
      supervisor.reconcile([Channel(id: "a") { _ in .cancelOnly {} }])
      #expect(supervisor.broadcast("x", channel: "a") == .typeMismatch)
    }
  }

  @Test func `a broadcast does not touch what is remembered of the state`() {
    let bench = opened(value: "x", .immediate)
    bench.broadcast("y", to: "a")
    bench.reconcile(bench.channel("a", value: "x"))
    #expect(bench.take() == [.broadcast("a", "y")])
  }

  @Test func `throttle delivers at once, then the newest at the end of each window`() {
    let bench = opened(.throttle(.seconds(1)))
    #expect(
      ["1", "2", "3"].map { bench.broadcast($0, to: "a") } == [.delivered, .paced, .paced])
    #expect(bench.take() == [.broadcast("a", "1")])
    #expect(bench.take(after: .milliseconds(999)) == [])
    #expect(bench.take(after: .milliseconds(1)) == [.broadcast("a", "3")])
    #expect(bench.broadcast("4", to: "a") == .paced)
    #expect(bench.take(after: .seconds(1)) == [.broadcast("a", "4")])
    // The window of the last delivery passes without one.
    #expect(bench.take(after: .seconds(1)) == [])
    #expect(bench.broadcast("5", to: "a") == .delivered)
    #expect(bench.take() == [.broadcast("a", "5")])
  }

  @Test func `throttle without a trailing value drops what is broadcast in the window, but nothing of the state`() {
    let bench = opened(value: "1", .throttle(.seconds(1), trailing: false))
    #expect(bench.broadcast("x", to: "a") == .dropped)
    bench.reconcile(bench.channel("a", value: "2", delivery: .throttle(.seconds(1), trailing: false)))
    #expect(bench.take() == [])
    #expect(bench.take(after: .seconds(1)) == [.received("a", "2")])
    #expect(bench.broadcast("y", to: "a") == .dropped)
    #expect(bench.take(after: .seconds(1)) == [])
    #expect(bench.broadcast("z", to: "a") == .delivered)
  }

  @Test func `an open with a value begins a window, one without does not, and a new instance begins anew`() {
    let bench = Bench()
    func channel(_ key: String, _ value: String?) -> Channel<String> {
      bench.channel("a", key: key, value: value, delivery: .throttle(.seconds(1)))
    }
    bench.reconcile(channel("1", "x"))
    #expect(bench.broadcast("held", to: "a") == .paced)
    bench.reconcile(channel("2", "y"))
    #expect(bench.take() == [.opened("a2"), .received("a2", "y")])
    bench.reconcile(channel("3", nil))
    #expect(bench.broadcast("free", to: "a") == .delivered)
    #expect(bench.take() == [.cancelled("a2"), .opened("a3"), .broadcast("a3", "free")])
    #expect(bench.take(after: .seconds(5)) == [])
  }

  @Test func `the newest value of the state arrives at the window's end, and none where it is the delivered one again`()
  {
    let bench = opened(value: "1", .throttle(.seconds(1)))
    func set(_ value: String) { bench.reconcile(bench.channel("a", value: value, delivery: .throttle(.seconds(1)))) }
    set("2")
    set("3")
    #expect(bench.take(after: .seconds(1)) == [.received("a", "3")])
    set("4")
    set("3")
    #expect(bench.take(after: .seconds(5)) == [])
    set("5")
    #expect(bench.take() == [.received("a", "5")])
  }

  @Test func `the state and what is broadcast wait side by side`() {
    let bench = opened(value: "1", .throttle(.seconds(1)))
    bench.reconcile(bench.channel("a", value: "2", delivery: .throttle(.seconds(1))))
    #expect(bench.broadcast("x", to: "a") == .paced)
    #expect(bench.take(after: .seconds(1)) == [.received("a", "2"), .broadcast("a", "x")])
  }

  @Test func `debounce delivers the newest once none came for that long, but the opening value at once`() {
    let bench = Bench()
    func set(_ value: String) { bench.reconcile(bench.channel("a", value: value, delivery: .debounce(.seconds(1)))) }
    set("1")
    #expect(bench.take() == [.opened("a"), .received("a", "1")])
    for value in ["2", "3", "4"] {
      set(value)
      #expect(bench.take(after: .milliseconds(900)) == [])
    }
    // The same set again is not a value.
    set("4")
    #expect(bench.take(after: .milliseconds(100)) == [.received("a", "4")])
  }

  @Test func `debounce waits no longer than it may`() {
    let bench = opened(.debounce(.seconds(1), maxWait: .seconds(2)))
    for number in 1...4 {
      bench.broadcast("\(number)", to: "a")
      #expect(bench.take(after: .milliseconds(499)) == [])
    }
    bench.broadcast("5", to: "a")
    #expect(bench.take(after: .milliseconds(3)) == [])
    #expect(bench.take(after: .milliseconds(1)) == [.broadcast("a", "5")])
    // The next wait is measured from its own beginning.
    #expect(bench.take(after: .seconds(10)) == [])
    bench.broadcast("6", to: "a")
    #expect(bench.take(after: .milliseconds(999)) == [])
    #expect(bench.take(after: .milliseconds(1)) == [.broadcast("a", "6")])
  }

  @Test func `another pace applies to what waits`() {
    let bench = opened(value: "1", .debounce(.seconds(60)))
    bench.reconcile(bench.channel("a", value: "2", delivery: .debounce(.seconds(60))))
    #expect(bench.broadcast("x", to: "a") == .paced)
    #expect(bench.take() == [])
    bench.reconcile(bench.channel("a", value: "2", delivery: .immediate))
    #expect(bench.take() == [.received("a", "2"), .broadcast("a", "x")])
    #expect(!bench.manual.hasTimers)
  }

  @Test func `what waits for its pace dies with its instance`() {
    let bench = opened(value: "1", .throttle(.seconds(1)))
    bench.reconcile(bench.channel("a", value: "2", delivery: .throttle(.seconds(1))))
    bench.reconcile()
    #expect(bench.take(after: .seconds(5)) == [.cancelled("a")])
    #expect(!bench.manual.hasTimers)
  }
}
