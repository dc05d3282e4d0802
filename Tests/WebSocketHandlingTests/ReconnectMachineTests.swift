import Testing
import WebSocketHandling
import WebSocketTransport

private func second(_ seconds: Int64) -> Instant { Instant(nanoseconds: seconds * 1_000_000_000) }

@Suite("Reconnecting (RFC 6455 §7.2.3)")
struct ReconnectMachineTests {
  @Test func `the bounds are 5, 2, 4, 8, 16 and then 30 seconds`() {
    let bounds = (1...8).map { Backoff().bound(attempt: $0) }
    #expect(bounds == [5, 2, 4, 8, 16, 30, 30, 30].map { Duration.seconds($0) })
    #expect(Backoff().bound(attempt: .max) == .seconds(30))
  }

  @Test func `a delay lies between zero and its bound`() {
    let backoff = Backoff()
    #expect(backoff.delay(attempt: 1, randomBits: 0) == .zero)
    #expect(backoff.delay(attempt: 1, randomBits: .max) == .seconds(5))
    var generator = SystemRandomNumberGenerator()
    for attempt in 1...200 {
      let delay = backoff.delay(attempt: attempt, randomBits: generator.next())
      #expect(delay >= .zero && delay <= backoff.bound(attempt: attempt))
    }
  }

  @Test func `durations of zero or less mean no delay`() {
    let backoff = Backoff(first: .seconds(-1), base: .zero, maximum: .seconds(-1))
    #expect([1, 2, 1_000_000].map { backoff.delay(attempt: $0, randomBits: .max) } == [.zero, .zero, .zero])
  }

  @Test func `failed attempts climb the schedule`() {
    var machine = ReconnectMachine(backoff: Backoff())
    #expect(machine.start() == .connect)
    for (attempt, bound) in [(1, 5), (2, 2), (3, 4), (4, 8), (5, 16), (6, 30), (7, 30)] {
      let action = machine.attemptFailed(at: second(0), randomBits: .max)
      #expect(action == .wait(.seconds(bound), attempt: attempt))
      #expect(machine.timerFired() == .connect)
    }
  }

  @Test("uptime decides whether the schedule begins anew", arguments: [(4, 2), (5, 1), (600, 1)] as [(Int64, Int)])
  func uptime(seconds: Int64, attempt: Int) {
    var machine = ReconnectMachine(backoff: Backoff())
    _ = machine.start()
    _ = machine.attemptFailed(at: second(0), randomBits: 0)
    _ = machine.timerFired()
    #expect(machine.connected(at: second(10)) == .none)
    #expect(machine.isConnected)
    #expect(machine.lost(at: second(10 + seconds), randomBits: 0) == .wait(.zero, attempt: attempt))
  }

  @Test func `a start while waiting ends the wait and keeps the count`() {
    var machine = ReconnectMachine(backoff: Backoff())
    _ = machine.start()
    _ = machine.attemptFailed(at: second(0), randomBits: 0)
    #expect(machine.start() == .connect)
    #expect(machine.timerFired() == .none)
    #expect(machine.attemptFailed(at: second(0), randomBits: .max) == .wait(.seconds(2), attempt: 2))
  }

  @Test func `a start while connecting or connected changes nothing`() {
    var machine = ReconnectMachine(backoff: Backoff())
    _ = machine.start()
    #expect(machine.start() == .none)
    _ = machine.connected(at: second(0))
    #expect(machine.start() == .none)
    #expect(machine.isConnected)
  }

  @Test func `a stop undoes what goes on`() {
    let fresh = ReconnectMachine(backoff: Backoff())
    var machine = fresh
    #expect(machine.stop() == .none)
    _ = machine.start()
    #expect(machine.stop() == .disconnect)
    _ = machine.start()
    _ = machine.connected(at: second(0))
    #expect(machine.stop() == .disconnect)
    _ = machine.start()
    _ = machine.attemptFailed(at: second(0), randomBits: 0)
    #expect(machine.stop() == .cancelTimer)
    #expect(machine == fresh)
  }

  @Test func `a stopped machine ignores everything but a start`() {
    let fresh = ReconnectMachine(backoff: Backoff())
    var machine = fresh
    #expect(machine.connected(at: second(0)) == .none)
    #expect(machine.attemptFailed(at: second(0), randomBits: 0) == .none)
    #expect(machine.lost(at: second(0), randomBits: 0) == .none)
    #expect(machine.timerFired() == .none)
    #expect(machine == fresh)
    #expect(machine.isStopped)
  }
}
