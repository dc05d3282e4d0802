import ActionCable
import Foundation
import Testing
import WebSocketHandling
import WebSocketTesting
import WebSocketTransport

/// A machine, its caller and a server that do things by chance, from one seed.
///
/// The server works as Rails does: commands wait on a thread pool, so that those of one identifier may overtake each
/// other while both wait; a second `subscribe` is ignored, an `unsubscribe` is never answered.
private struct CableWalk {
  private struct Waiting {
    let isSubscribe: Bool
    let identifier: String
    let due: Instant
  }

  private struct Caller {
    let identifier: Int
    /// Whether the current connection's verdict was told.
    var isConfirmed = false
    var hasEnded = false
  }

  /// Commands are done within this time, which is shorter than the cool-down.
  private static let poolDelay = 200

  private var bench: MachineBench
  private var generator: SeededGenerator
  private var callers: [UInt64: Caller] = [:]
  private var lastCaller: UInt64 = 0
  private var performs: [UInt64: Int] = [:]
  private var lastPerform: UInt64 = 0

  private var isOpen = false
  private var isWelcomed = false
  private var isStarted = true
  private var pool: [Waiting] = []
  /// What the server has subscribed on this connection.
  private var live: Set<String> = []
  /// The identifiers that the machine knows as confirmed on this connection.
  private var confirmed: Set<String> = []
  private var frames: [String] = []
  private var faults: [String] = []
  private(set) var events: Set<Kind> = []

  /// What the walks must bring about to be worth something.
  enum Kind: CaseIterable {
    case confirmed
    case reconfirmed
    case rejected
    case timedOut
    case ghost
    case delivered
    case written
    case waited
    case stale
  }

  init(seed: UInt64) {
    generator = SeededGenerator(seed: seed)
    bench = MachineBench(
      timing: CableTiming(subscribeTimeout: seed.isMultiple(of: 3) ? nil : .seconds(10)),
      buffer: PerformBuffer(messages: 3, age: .seconds(5)), canRefresh: seed.isMultiple(of: 2))
  }

  private mutating func chance(_ count: Int) -> Int { Int.random(in: 0..<count, using: &generator) }

  mutating func faults(afterSteps count: Int) throws -> [String] {
    for _ in 0..<count {
      switch chance(10) {
      case 0...3: try call()
      case 4...6: try serve()
      default: try pass(.milliseconds([1, 50, 100, 300, 1_000, 7_000][chance(6)]))
      }
      guard faults.isEmpty else { return faults }
    }
    try end()
    return faults
  }

  // MARK: The caller

  private mutating func call() throws {
    switch chance(12) {
    case 0...3:
      lastCaller += 1
      let identifier = chance(4)
      callers[lastCaller] = Caller(identifier: identifier)
      read(try bench.subscribe(lastCaller, to: room(identifier)))
    case 4...6:
      guard lastCaller > 0 else { return }
      read(bench.unsubscribe(UInt64(1 + chance(Int(lastCaller)))))
    case 7...9:
      guard lastCaller > 0 else { return }
      lastPerform += 1
      performs[lastPerform] = 0
      read(bench.perform(lastPerform, by: UInt64(1 + chance(Int(lastCaller))), mayWait: chance(2) == 0))
    case 10:
      bench.machine.setPaused(chance(2) == 0, at: bench.now)
      read(bench.take())
    default:
      guard chance(3) == 0 else { return }
      if isStarted { bench.machine.stopped(.requested) } else { bench.machine.start() }
      isStarted.toggle()
      connectionEnded()
      read(bench.take())
    }
  }

  // MARK: The server

  private mutating func serve() throws {
    guard isOpen else {
      guard isStarted, chance(2) == 0 else { return }
      bench.machine.attemptBegan()
      bench.machine.opened(subprotocol: .unknown, at: bench.now)
      isOpen = true
      return read(bench.take())
    }
    guard isWelcomed else {
      guard chance(3) > 0 else { return say(#"{"type":"disconnect","reason":"unauthorized","reconnect":false}"#) }
      isWelcomed = true
      return say(#"{"type":"welcome"}"#)
    }
    switch chance(16) {
    case 0...3: if let identifier = live.sorted().randomElement(using: &generator) { sayMessage(identifier) }
    case 4: say(#"{"type":"ping","message":1}"#)
    case 5: say(["", "{}", "[", #"{"type":"presence"}"#, #"{"identifier":1}"#, "\u{FFFD}"][chance(6)])
    case 6: sayMessage(try room(chance(4)).text)
    case 7 where chance(3) == 0:
      say(#"{"type":"disconnect","reason":"server_restart","reconnect":true}"#)
    case 8 where chance(3) == 0:
      bench.machine.lost(.lost(.cancelled))
      bench.machine.willReconnect()
      connectionEnded()
      read(bench.take())
    case 9:
      // A confirmation out of nowhere: the server has what nobody asked for.
      let text = try room(chance(4)).text
      if !live.contains(text), !pool.contains(where: { $0.identifier == text }) {
        live.insert(text)
        say("{\"identifier\":\(CanonicalJSON.quoted(text)),\"type\":\"confirm_subscription\"}")
      }
    default: break
    }
  }

  private mutating func sayMessage(_ identifier: String) {
    say("{\"identifier\":\(CanonicalJSON.quoted(identifier)),\"message\":1}")
  }

  private mutating func say(_ text: String) {
    if isOpen { read(bench.say(text)) }
  }

  /// Does a command that has waited in the pool.
  private mutating func work(_ command: Waiting) throws {
    let quoted = CanonicalJSON.quoted(command.identifier)
    guard command.isSubscribe else {
      live.remove(command.identifier)
      return
    }
    guard !live.contains(command.identifier) else { return }
    // Room 3 is unknown to the server; the others sometimes say no.
    if command.identifier == (try room(3).text) { return }
    if chance(6) == 0 { return say("{\"identifier\":\(quoted),\"type\":\"reject_subscription\"}") }
    live.insert(command.identifier)
    if chance(4) == 0 { sayMessage(command.identifier) }
    say("{\"identifier\":\(quoted),\"type\":\"confirm_subscription\"}")
  }

  /// Lets time go by, and the pool work.
  private mutating func pass(_ duration: Duration) throws {
    let end = bench.now + duration
    while bench.now < end {
      let next = pool.map(\.due).min().map { min($0, end) } ?? end
      let step = min(bench.machine.nextDeadline.map { max($0, bench.now) } ?? next, next)
      read(bench.advance(by: step - bench.now))
      let ready = pool.filter { $0.due <= bench.now }
      pool.removeAll { $0.due <= bench.now }
      for command in ready where isOpen { try work(command) }
      if !isOpen { pool = [] }
    }
  }

  // MARK: What the machine says

  private mutating func connectionEnded() {
    isOpen = false
    isWelcomed = false
    pool = []
    live = []
    confirmed = []
    for id in callers.keys { callers[id]?.isConfirmed = false }
  }

  private mutating func read(_ outputs: [CableOutput]) {
    for output in outputs {
      switch output {
      case .connected, .disconnected, .ping, .message: break
      case .ignored(.unclaimed): events.insert(.ghost)
      case .ignored: break
      case .end(let cause, let willRetry):
        if cause == .stale { events.insert(.stale) }
        connectionEnded()
        if willRetry { bench.machine.willReconnect() } else { bench.machine.stopped(bench.machine.lastCause) }
        if !willRetry { isStarted = false }
        read(bench.take())
      case .send(let text, let perform): sent(text, perform)
      case .event(let id, let event): heard(id, event)
      case .outcome(let id, let outcome):
        performs[id, default: 0] += 1
        if outcome == .expired || outcome == .bufferFull { events.insert(.waited) }
      }
    }
  }

  private mutating func sent(_ text: String, _ perform: UInt64?) {
    guard isWelcomed else { return faults.append("\(text) before welcome") }
    guard let command = try? JSONValue(parsing: text), case .string(let identifier) = command["identifier"] else {
      return faults.append("\(text) is no command")
    }
    switch command["command"] {
    case "subscribe":
      if confirmed.contains(identifier) { faults.append("a second subscribe for \(identifier)") }
      let due = bench.now + .milliseconds(chance(Self.poolDelay))
      pool.append(Waiting(isSubscribe: true, identifier: identifier, due: due))
    case "unsubscribe":
      confirmed.remove(identifier)
      let due = bench.now + .milliseconds(chance(Self.poolDelay))
      pool.append(Waiting(isSubscribe: false, identifier: identifier, due: due))
    case "message":
      if !confirmed.contains(identifier) { faults.append("\(text) to a channel that is not confirmed") }
      if let perform {
        events.insert(.written)
        performs[perform, default: 0] += 1
      }
    default: faults.append("\(text) is no command")
    }
  }

  private mutating func heard(_ id: UInt64, _ event: SubscriptionEvent) {
    guard let caller = callers[id], !caller.hasEnded else { return faults.append("\(event) after the end of \(id)") }
    let text = (try? room(caller.identifier).text) ?? ""
    switch event {
    case .confirmed(let reconnected):
      if caller.isConfirmed { faults.append("a second confirmation for \(id)") }
      if !isWelcomed { faults.append("a confirmation without a connection") }
      callers[id]?.isConfirmed = true
      confirmed.insert(text)
      events.insert(reconnected ? .reconfirmed : .confirmed)
    case .message: events.insert(.delivered)
    case .gap, .disconnected: break
    case .ended(let end):
      callers[id]?.hasEnded = true
      if end == .rejected { events.insert(.rejected) }
      if end == .timedOut { events.insert(.timedOut) }
    }
  }

  // MARK: The verdict

  /// After everything has come to rest the server has exactly what the callers want.
  private mutating func end() throws {
    if !isStarted {
      bench.machine.start()
      isStarted = true
    }
    bench.machine.setPaused(true, at: bench.now)
    for _ in 0..<60 {
      if !isOpen {
        bench.machine.attemptBegan()
        bench.machine.opened(subprotocol: .unknown, at: bench.now)
        isOpen = true
        read(bench.take())
      }
      if !isWelcomed {
        isWelcomed = true
        say(#"{"type":"welcome"}"#)
      }
      bench.machine.setPaused(true, at: bench.now)
      try pass(.seconds(1))
    }
    let wanted = Set(
      callers.values.filter { !$0.hasEnded && $0.isConfirmed }.compactMap { try? room($0.identifier).text })
    if live != wanted { faults.append("the server has \(live.sorted()), wanted are \(wanted.sorted())") }
    for (id, caller) in callers where !caller.hasEnded && !caller.isConfirmed && caller.identifier != 3 {
      faults.append("\(id) waits for ever")
    }
    bench.machine.shutdown()
    read(bench.take())
    for (id, caller) in callers where !caller.hasEnded { faults.append("\(id) has no end") }
    for (id, count) in performs where count != 1 { faults.append("\(count) outcomes of \(id)") }
  }
}

@Suite("The rules of Action Cable on random walks")
struct CableWalkTests {
  /// Fewer where each costs more: under a sanitizer.
  private static let walks = ProcessInfo.processInfo.environment["CABLE_WALKS"].flatMap(UInt64.init) ?? 2_000

  @Test func `no command before welcome, one server subscription each, one verdict, no event after the end`() throws {
    var events: Set<CableWalk.Kind> = []
    for seed in 0..<Self.walks {
      var walk = CableWalk(seed: seed)
      let faults = try walk.faults(afterSteps: 120)
      guard faults.isEmpty else {
        Issue.record("seed \(seed): \(faults)")
        return
      }
      events.formUnion(walk.events)
    }
    #expect(events == Set(CableWalk.Kind.allCases))
  }
}
