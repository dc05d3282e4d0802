import Foundation
import SupervisedChannels
import Testing
import WebSocketTesting
import WebSocketTransport

/// A supervisor whose program and channels do things by chance, from one seed.
private final class SupervisorWalk {
  /// What an instance has been through.
  private struct Life: Sendable {
    var id: String
    var values: [String] = []
    var cancels = 0
    var context: ChannelContext<String>
  }

  /// What the program wants of a channel.
  private struct Want {
    var id: String
    var key: Int?
    var settle: Duration?
    var value: String?
    var delivery: ChannelDelivery
    var restart: Restart
  }

  private final class Instances: Sendable {
    let list = Lock<(lives: [Life], faults: [String])>(([], []))
  }

  private let manual: ManualEnvironment
  private var supervisor: ChannelSupervisor<String>?
  private let instances = Instances()
  private var generator: SeededGenerator
  private var wants: [Want] = []
  /// Channels of the set that were cancelled, or may have ended, and the key they had then.
  private var closed: Set<String> = []
  private var lastValue = 0

  init(seed: UInt64) {
    generator = SeededGenerator(seed: seed)
    manual = ManualEnvironment(seed: seed)
    let instances = instances
    supervisor = ChannelSupervisor(environment: manual.environment) { action in
      let index = Int(action) ?? 0
      instances.list.withLock { state in
        if state.lives[index].cancels > 0 { state.faults.append("instance \(index) dispatched after its cancel") }
      }
    }
  }

  private func chance(_ count: Int) -> Int { Int.random(in: 0..<count, using: &generator) }

  private func makeValue() -> String {
    lastValue += 1
    return chance(3) == 0 ? "same" : "\(lastValue)"
  }

  /// Takes that many steps and an end; returns everything that must not be.
  func faults(afterSteps count: Int) -> [String] {
    for _ in 0..<count {
      switch chance(12) {
      case 0...3: changeWants()
      case 4: supervisor?.broadcast("broadcast", channel: "\(chance(4))")
      case 5: cancel()
      case 6: endOne()
      case 7: dispatchFromAll()
      case 8: manual.settle()
      default: manual.advance(by: .milliseconds([1, 300, 1_000, 40_000][chance(4)]))
      }
      checkAtMostOneEach()
    }
    // The program comes to rest: what it wants last is what is open, with its value.
    reconcile()
    manual.advance(by: .seconds(1_000))
    checkRest()
    if chance(2) == 0 {
      wants = []
      reconcile()
      manual.settle()
    }
    supervisor = nil
    manual.settle()
    let (lives, faults) = instances.list.withLock { $0 }
    let wrong = lives.indices.filter { lives[$0].cancels != 1 }
    return faults + wrong.map { "instance \($0) was cancelled \(lives[$0].cancels) times" }
      + (manual.hasTimers ? ["a timer is left"] : [])
  }

  private func note(_ fault: String) { instances.list.withLock { $0.faults.append(fault) } }

  // MARK: The program

  private func changeWants() {
    for index in wants.indices {
      if chance(3) == 0 { wants[index].value = wants[index].value.map { _ in makeValue() } }
      if chance(6) == 0, let key = wants[index].key, key != lastValue {
        wants[index].key = lastValue
        closed.remove(wants[index].id)
      }
      if chance(20) == 0 { wants[index].delivery = makeDelivery() }
    }
    if chance(3) == 0 {
      let id = "\(chance(4))"
      if wants.contains(where: { $0.id == id }) {
        wants.removeAll { $0.id == id }
      } else {
        let settles = chance(3) == 0
        wants.insert(
          Want(
            id: id, key: settles || chance(2) == 0 ? lastValue : nil, settle: settles ? .milliseconds(400) : nil,
            value: chance(3) == 0 ? nil : makeValue(), delivery: makeDelivery(),
            restart: chance(2) == 0 ? .never : .backoff()),
          at: chance(wants.count + 1))
      }
      // It left the set, or it comes anew.
      closed.remove(id)
    }
    reconcile()
  }

  private func makeDelivery() -> ChannelDelivery {
    [
      .immediate, .throttle(.milliseconds(500)), .throttle(.milliseconds(500), trailing: false),
      .debounce(.milliseconds(500)), .debounce(.milliseconds(500), maxWait: .milliseconds(800)),
    ][chance(5)]
  }

  private func reconcile() { supervisor?.reconcile(wants.map(makeChannel)) }

  private func makeChannel(_ want: Want) -> Channel<String> {
    let instances = instances
    let id = want.id
    return Channel(
      id: id, lifetime: want.key.map { .ephemeral(resetKey: $0, settle: want.settle) } ?? .permanent,
      broadcasting: want.value.map { .onChange($0) } ?? .nothing, delivery: want.delivery, restart: want.restart
    ) { context in
      let index = instances.list.withLock { state in
        state.lives.append(Life(id: id, context: context))
        return state.lives.count - 1
      }
      @Sendable func take(_ value: String, isState: Bool) {
        instances.list.withLock { state in
          if state.lives[index].cancels > 0 {
            state.faults.append("instance \(index) was given a value after its cancel")
          }
          if isState, state.lives[index].values.last == value {
            state.faults.append("instance \(index) was given \(value) twice")
          }
          if isState { state.lives[index].values.append(value) }
        }
      }
      return ChannelHandler(
        receive: { take($0, isState: true) }, broadcast: { take($0, isState: false) },
        cancel: { instances.list.withLock { $0.lives[index].cancels += 1 } })
    }
  }

  private func cancel() {
    if chance(8) == 0 {
      supervisor?.cancelAll()
      closed = Set(wants.map(\.id))
    } else {
      let id = "\(chance(4))"
      supervisor?.cancel(id: id)
      if wants.contains(where: { $0.id == id }) { closed.insert(id) }
    }
  }

  // MARK: The channels

  private var open: [(index: Int, life: Life)] {
    instances.list.withLock { state in
      state.lives.indices.filter { state.lives[$0].cancels == 0 }.map { ($0, state.lives[$0]) }
    }
  }

  private func endOne() {
    manual.settle()
    guard let one = open.randomElement(using: &generator) else { return }
    one.life.context.ended()
    if wants.first(where: { $0.id == one.life.id })?.restart == .never { closed.insert(one.life.id) }
  }

  /// Also from instances that are cancelled, or are about to be.
  private func dispatchFromAll() {
    let lives = instances.list.withLock { $0.lives }
    for (index, life) in lives.enumerated() { life.context("\(index)") }
  }

  // MARK: The verdict

  private func checkAtMostOneEach() {
    manual.settle()
    let ids = open.map(\.life.id)
    if Set(ids).count != ids.count { note("two instances of one channel: \(ids)") }
  }

  private func checkRest() {
    let open = open.map(\.life)
    let expected = wants.map(\.id).filter { !closed.contains($0) }
    if open.map(\.id).sorted() != expected.sorted() {
      note("open are \(open.map(\.id).sorted()), desired \(expected.sorted())")
    }
    for life in open {
      guard let want = wants.first(where: { $0.id == life.id }), let value = want.value else { continue }
      if life.values.last != value { note("\(life.id) has \(life.values.last ?? "no value"), desired is \(value)") }
    }
  }
}

@Suite("The supervisor on random walks")
struct SupervisorWalkTests {
  private static let walks = ProcessInfo.processInfo.environment["SUPERVISOR_WALKS"].flatMap(UInt64.init) ?? 2_000

  @Test func `what is open is what is desired, each instance is cancelled once, and the last value arrives`() {
    for seed in 0..<Self.walks {
      let faults = SupervisorWalk(seed: seed).faults(afterSteps: 60)
      guard faults.isEmpty else {
        Issue.record("seed \(seed): \(faults)")
        return
      }
    }
  }
}
