import SupervisedChannels
import Testing
import WebSocketHandling
import WebSocketTesting

@Suite("When instances open again, and when they stay closed")
struct LifetimeTests {
  // MARK: Settling

  @Test func `a channel that settles opens when its key was quiet, the first time too, and closes at once`() {
    let bench = Bench()
    func set(_ key: String, _ value: String) {
      bench.reconcile(bench.channel("a", key: key, settle: .seconds(1), value: value))
    }
    set("1", "x")
    #expect(bench.take(after: .milliseconds(999)) == [])
    #expect(bench.take(after: .milliseconds(1)) == [.opened("a1"), .received("a1", "x")])
    set("2", "x")
    #expect(bench.take(after: .milliseconds(900)) == [.cancelled("a1")])
    set("3", "x")
    #expect(bench.take(after: .milliseconds(900)) == [])
    // A value is not a change of the key: it only changes what will be opened.
    set("3", "y")
    #expect(bench.take(after: .milliseconds(100)) == [.opened("a3"), .received("a3", "y")])
  }

  @Test func `leaving the set ends the settling`() {
    let bench = Bench()
    bench.reconcile(bench.channel("a", key: "1", settle: .seconds(1)))
    #expect(bench.manual.hasTimers == true)
    bench.reconcile()
    #expect(bench.manual.hasTimers == false)
    #expect(bench.take(after: .seconds(5)) == [])
  }

  // MARK: Cancelling

  @Test func `a channel that was cancelled stays closed, whatever its value`() {
    let bench = Bench()
    bench.reconcile(bench.channel("a", key: "1", value: "x"))
    bench.cancel("a")
    bench.cancel("a")
    #expect(bench.take() == [])
    bench.reconcile(bench.channel("a", key: "1", value: "x"))
    bench.reconcile(bench.channel("a", key: "1", value: "y"))
    #expect(bench.broadcast("z", to: "a") == .noSuchChannel)
    #expect(bench.take() == [])
    bench.reconcile(bench.channel("a", key: "2", value: "y"))
    #expect(bench.take() == [.opened("a2"), .received("a2", "y")])
    bench.cancel("a")
    #expect(bench.take() == [.cancelled("a2")])
    bench.reconcile()
    bench.reconcile(bench.channel("a", key: "2", value: "y"))
    #expect(bench.take() == [.opened("a2"), .received("a2", "y")])
  }

  @Test func `cancelAll closes every channel, in the order of their opening, and each stays closed`() {
    let bench = Bench()
    bench.with { $0.open(bench.channel("own")) }
    bench.reconcile(
      bench.channel("a"), bench.channel("b"), bench.channel("settling", key: "1", settle: .seconds(1)))
    _ = bench.take()
    bench.with { $0.cancelAll() }
    #expect(bench.take(after: .seconds(5)) == [.cancelled("own"), .cancelled("a"), .cancelled("b")])
    bench.reconcile(
      bench.channel("a"), bench.channel("b"), bench.channel("settling", key: "1", settle: .seconds(1)))
    #expect(bench.take(after: .seconds(5)) == [])
    #expect(!bench.manual.hasTimers)
  }

  // MARK: Opening by hand

  @Test func `a channel opened by itself is not the set's, until it was in one`() {
    let bench = Bench()
    bench.with { $0.open(bench.channel("own", value: "x")) }
    bench.reconcile(bench.channel("a"))
    bench.reconcile()
    #expect(bench.take() == [.opened("own"), .received("own", "x")])
    bench.with { $0.open(bench.channel("own", value: "x")) }
    #expect(bench.take() == [])
    bench.reconcile(bench.channel("own", value: "y"))
    #expect(bench.take() == [.received("own", "y")])
    bench.reconcile()
    #expect(bench.take() == [.cancelled("own")])
  }

  @Test func `opening by hand revives a channel that was cancelled, and replaces one with another key`() {
    let bench = Bench()
    bench.reconcile(bench.channel("a", key: "1"))
    bench.cancel("a")
    bench.with { $0.open(bench.channel("a", key: "1")) }
    #expect(bench.take() == [.opened("a1")])
    bench.with { $0.open(bench.channel("a", key: "2")) }
    #expect(bench.take() == [.cancelled("a1"), .opened("a2")])
    bench.reconcile()
    #expect(bench.take() == [.cancelled("a2")])
  }

  @Test func `a channel opened by itself and cancelled is forgotten`() {
    let bench = Bench()
    bench.with { $0.open(bench.channel("own")) }
    _ = bench.take()
    bench.cancel("own")
    bench.reconcile(bench.channel("own"))
    #expect(bench.take() == [.cancelled("own"), .opened("own")])
  }

  // MARK: Ending by itself

  @Test func `an instance that ends by itself is cancelled once, and stays closed without a restart`() {
    let bench = Bench()
    bench.reconcile(bench.channel("a", key: "1", value: "x"))
    _ = bench.take()
    let context = bench.context("a1")
    context.ended()
    context.ended()
    context("nobody hears")
    #expect(bench.take() == [.cancelled("a1"), .ended("a", restartAfter: nil)])
    bench.reconcile(bench.channel("a", key: "1", value: "y"))
    #expect(bench.take(after: .seconds(600)) == [])
    bench.reconcile(bench.channel("a", key: "2", value: "y"))
    #expect(bench.take() == [.opened("a2"), .received("a2", "y")])
  }

  @Test func `an instance that ends inside its body is cancelled after it`() {
    let bench = Bench()
    bench.reconcile(bench.channel("a") { $1.ended(Failure.cancelled) })
    #expect(bench.take() == [.opened("a"), .cancelled("a"), .ended("a", restartAfter: nil)])
  }

  @Test func `with a restart it opens again, later each time, with what is desired by then`() {
    let bench = Bench()
    func set(_ value: String) {
      bench.reconcile(
        bench.channel("a", value: value, name: value, restart: .backoff(initial: .seconds(1), max: .seconds(8))))
    }
    set("0")
    #expect(bench.take() == [.opened("0"), .received("0", "0")])
    var longest = Duration.zero
    for number in 1...20 {
      bench.context("\(number - 1)").ended(Failure.cancelled)
      let said = bench.take()
      guard said.count == 2, case .ended("a", let delay?) = said[1] else {
        Issue.record("\(said)")
        return
      }
      #expect(said[0] == .cancelled("\(number - 1)"))
      #expect(delay <= min(.seconds(8), .seconds(1 << min(number - 1, 3))))
      longest = max(longest, delay)
      #expect(bench.broadcast("nobody", to: "a") == .noSuchChannel)
      set("\(number)")
      #expect(bench.take(after: delay - .nanoseconds(1)) == [])
      #expect(bench.take(after: .nanoseconds(1)) == [.opened("\(number)"), .received("\(number)", "\(number)")])
    }
    // The bound grew: by chance alone twenty waits are not all below a quarter of it.
    #expect(longest > .seconds(2))
  }

  @Test func `the waits begin anew after an instance that lasted`() {
    let bench = Bench()
    bench.reconcile(bench.channel("a", restart: .backoff(initial: .milliseconds(1), max: .seconds(1_000))))
    _ = bench.take()
    for _ in 0..<30 {
      _ = bench.take(after: .seconds(5))
      bench.context("a").ended()
      let said = bench.take()
      guard case .ended("a", let delay?)? = said.last else {
        Issue.record("\(said)")
        return
      }
      #expect(delay <= .milliseconds(1))
      _ = bench.take(after: .milliseconds(1))
    }
  }

  @Test func `a change of the key ends the wait for a restart, and so does leaving the set`() {
    let bench = Bench()
    func channel(_ key: String) -> Channel<String> {
      bench.channel("a", key: key, restart: .backoff(initial: .seconds(10), max: .seconds(10)))
    }
    bench.reconcile(channel("1"))
    _ = bench.take()
    bench.context("a1").ended()
    bench.reconcile(channel("2"))
    #expect(bench.take().filter { $0 != .ended("a", restartAfter: nil) }.last == .opened("a2"))
    bench.context("a2").ended()
    bench.reconcile()
    _ = bench.take()
    #expect(bench.take(after: .seconds(60)) == [])
    #expect(!bench.manual.hasTimers)
  }
}
