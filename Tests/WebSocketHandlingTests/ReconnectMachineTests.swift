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
    var machine = started()
    for (attempt, bound) in [(1, 5), (2, 2), (3, 4), (4, 8), (5, 16), (6, 30), (7, 30)] {
      #expect(fail(&machine, randomBits: .max) == .wait(.seconds(bound), attempt: attempt))
      #expect(machine.timerFired() == .connect)
    }
  }

  @Test("uptime decides whether the schedule begins anew", arguments: [(4, 2), (5, 1), (600, 1)] as [(Int64, Int)])
  func uptime(seconds: Int64, attempt: Int) {
    var machine = started()
    _ = fail(&machine)
    _ = machine.timerFired()
    machine.connected(at: second(10))
    #expect(machine.isConnected)
    #expect(machine.lost(broken, at: second(10 + seconds))?.phase == .connection(uptime: .seconds(seconds)))
    #expect(machine.judged(.retry(), at: second(10 + seconds), randomBits: 0) == .wait(.zero, attempt: attempt))
  }

  @Test func `a wait that is ended by hand keeps the count`() {
    var machine = started()
    _ = fail(&machine)
    #expect(machine.start() == .none)
    #expect(machine.reconnectNow() == .connect)
    #expect(machine.timerFired() == .none)
    #expect(machine.reconnectNow() == .none)
    #expect(fail(&machine, randomBits: .max) == .wait(.seconds(2), attempt: 2))
  }

  @Test func `starting over forgets the count`() {
    var machine = started()
    _ = fail(&machine)
    #expect(machine.startOver() == .connect)
    #expect(fail(&machine, randomBits: .max) == .wait(.seconds(5), attempt: 1))
  }

  @Test func `a closed gate holds attempts, ends nothing, and lets them go when it opens`() {
    var machine = started()
    machine.connected(at: second(0))
    #expect(machine.setGate(isOpen: false) == .none)
    #expect(machine.isConnected)
    _ = machine.lost(broken, at: second(1))
    #expect(machine.judged(.retry(), at: second(1), randomBits: 0) == .wait(.zero, attempt: 1))
    #expect(machine.timerFired() == .hold)
    #expect(machine.reconnectNow() == .none)
    #expect(machine.setGate(isOpen: true) == .connect)
    #expect(machine.setGate(isOpen: true) == .none)
  }

  @Test func `a stop ends what goes on, once, and a start begins anew`() {
    var machine = started()
    #expect(machine.stop() == .stop(.requested))
    #expect(machine.stop() == .none)
    _ = machine.start()
    machine.connected(at: second(0))
    #expect(machine.stop() == .stop(.requested))
    _ = machine.start()
    _ = fail(&machine)
    #expect(machine.stop() == .stop(.requested))
    #expect(machine.timerFired() == .none)
    #expect(machine.start() == .connect)
    #expect(fail(&machine, randomBits: .max) == .wait(.seconds(5), attempt: 1))
  }

  @Test func `a decision that comes after a stop counts no more`() {
    var machine = started()
    #expect(machine.attemptFailed(broken, at: second(0)) != nil)
    _ = machine.stop()
    #expect(machine.judged(.retry(), at: second(0), randomBits: 0) == .none)
    #expect(machine.isStopped)
  }

  @Test func `a stopped machine ignores everything but a start`() {
    var machine = ReconnectMachine(policy: ReconnectPolicy(), hasProvider: false)
    machine.connected(at: second(0))
    #expect(machine.attemptFailed(broken, at: second(0)) == nil)
    #expect(machine.lost(broken, at: second(0)) == nil)
    let actions = [
      machine.judged(.retry(), at: second(0), randomBits: 0), machine.timerFired(), machine.reconnectNow(),
      machine.startOver(), machine.setGate(isOpen: false), machine.setGate(isOpen: true), machine.stop(),
    ]
    #expect(actions.allSatisfy { $0 == .none })
    #expect(machine.isStopped)
  }

  private let broken = Failure.timedOut(.connect)

  private func started() -> ReconnectMachine {
    var machine = ReconnectMachine(policy: ReconnectPolicy(), hasProvider: false)
    #expect(machine.start() == .connect)
    return machine
  }

  /// The attempt fails, and is to be tried again.
  private func fail(_ machine: inout ReconnectMachine, randomBits: UInt64 = 0) -> ReconnectMachine.Action {
    guard machine.attemptFailed(broken, at: second(0)) != nil else { return .none }
    return machine.judged(.retry(), at: second(0), randomBits: randomBits)
  }
}
