import WebSocketHandling
package import WebSocketTransport

/// Decides what to open, keep, feed and close: what is desired and the time go in, operations come out.
///
/// A value: it does nothing itself and calls nobody. Operations are to be performed in their order.
package struct SupervisorMachine: Sendable {
  /// The number of one opening of a channel, never used twice.
  package typealias Instance = UInt64

  package enum Operation: Sendable {
    case open(Key, Instance)
    case deliver(Instance, any Sendable, ValueOrigin)
    case cancel(Instance)
  }

  /// How a channel stands.
  private enum Phase: Sendable {
    /// Its key must be quiet until then.
    case settling(until: Instant)
    case open(Instance, since: Instant, Pacer)
    /// Its instance ended by itself; the next one opens then.
    case restarting(at: Instant)
    /// Cancelled by the caller, or ended for good.
    case closed
  }

  private struct Entry: Sendable {
    var wish: Wish
    /// Whether it was in the last set; else it was opened by itself.
    var isDesired: Bool
    var phase: Phase
    /// Instances in a row that ended soon.
    var failures = 0

    /// When something is to be done about it.
    var deadline: Instant? {
      switch phase {
      case .settling(let time), .restarting(let time): time
      case .open(_, _, let pacer): pacer.deadline
      case .closed: nil
      }
    }

    var instance: Instance? {
      if case .open(let instance, _, _) = phase { instance } else { nil }
    }
  }

  private var entries: [Key: Entry] = [:]
  /// The keys of the last set, in its order.
  private var desired: [Key] = []
  private var keys: [Instance: Key] = [:]
  /// The channels that have a deadline.
  private var waiting: Set<Key> = []
  private var lastInstance: Instance = 0

  package init() {}

  /// When ``advance(to:)`` has something to do.
  package var nextDeadline: Instant? { waiting.lazy.compactMap { entries[$0]?.deadline }.min() }

  /// Whether the instance is open.
  package func isOpen(_ instance: Instance) -> Bool { keys[instance] != nil }

  /// Whether the channel has an open instance.
  package func isOpen(_ key: Key) -> Bool { entries[key]?.instance != nil }

  /// The channel of an open instance.
  package func key(of instance: Instance) -> Key? { keys[instance] }

  /// Whether the channel is desired or was opened.
  package func knows(_ key: Key) -> Bool { entries[key] != nil }

  /// How many channels are desired or were opened.
  package var count: Int { entries.count }

  /// The keys of the channels that have an open instance.
  package var openKeys: Set<Key> { Set(keys.values) }

  // MARK: What the caller wants

  /// These channels are desired now, and those of the last set that are missing no more.
  ///
  /// Of several with one key the last counts, at the place of the first. What must be cancelled is cancelled before
  /// anything opens, so that a channel that moves from one key to another has never two instances.
  package mutating func reconcile(_ wishes: [Wish], at now: Instant) -> [Operation] {
    var newest: [Key: Wish] = [:]
    var order: [Key] = []
    for wish in wishes where newest.updateValue(wish, forKey: wish.key) == nil { order.append(wish.key) }
    var operations: [Operation] = []
    for key in desired where newest[key] == nil {
      close(key, into: &operations)
      entries[key] = nil
    }
    desired = order
    for key in order {
      if let wish = newest[key], let entry = entries[key], !wish.isServedLike(entry.wish) {
        close(key, into: &operations)
      }
    }
    for key in order {
      if let wish = newest[key] { apply(wish, isDesired: true, at: now, into: &operations) }
    }
    return operations
  }

  /// This channel is wanted beside the set; one that is open stays where it serves.
  package mutating func open(_ wish: Wish, at now: Instant) -> [Operation] {
    var operations: [Operation] = []
    let entry = entries[wish.key]
    if let entry, !wish.isServedLike(entry.wish) { close(wish.key, into: &operations) }
    if let entry, case .closed = entry.phase { entries[wish.key] = nil }
    apply(wish, isDesired: entry?.isDesired ?? false, at: now, into: &operations)
    return operations
  }

  /// A value for the channel's instance, whether or not it is the same as the last.
  package mutating func broadcast(
    _ value: any Sendable, to key: Key, at now: Instant
  ) -> (BroadcastOutcome, [Operation]) {
    guard var entry = entries[key], case .open(let instance, let since, var pacer) = entry.phase else {
      return (.noSuchChannel, [])
    }
    let (outcome, given) = pacer.take(broadcast: value, entry.wish.delivery, at: now)
    entry.phase = .open(instance, since: since, pacer)
    store(entry, key)
    return (outcome, operations(given, instance))
  }

  /// The channel is not wanted, whatever the set says, until its reset key changes or it is desired or opened anew.
  package mutating func cancel(_ key: Key) -> [Operation] {
    guard let entry = entries[key] else { return [] }
    var operations: [Operation] = []
    close(key, into: &operations)
    if !entry.isDesired { entries[key] = nil }
    return operations
  }

  /// The same for every channel, the instance that opened first before the others.
  package mutating func cancelAll() -> [Operation] {
    let order = entries.keys.sorted { entries[$0]?.instance ?? .max < entries[$1]?.instance ?? .max }
    return order.flatMap { cancel($0) }
  }

  // MARK: What happens

  /// An instance ended by itself: it is cancelled, and may be followed by another.
  ///
  /// - Returns: what to do, and after how long the channel opens again; nil where it does not.
  package mutating func ended(
    _ instance: Instance, at now: Instant, randomBits: UInt64
  ) -> (operations: [Operation], restartAfter: Duration?) {
    guard let key = keys[instance], var entry = entries[key], case .open(_, let since, _) = entry.phase else {
      return ([], nil)
    }
    var operations: [Operation] = []
    close(key, into: &operations)
    guard let schedule = entry.wish.restart.schedule else {
      if !entry.isDesired { entries[key] = nil }
      return (operations, nil)
    }
    entry.failures = now - since < schedule.resetAfter ? entry.failures + 1 : 1
    let delay = schedule.delay(attempt: entry.failures, randomBits: randomBits)
    entry.phase = .restarting(at: now + delay)
    store(entry, key)
    return (operations, delay)
  }

  /// Time has come this far.
  package mutating func advance(to now: Instant) -> [Operation] {
    let due = waiting.compactMap { key in entries[key]?.deadline.map { (key: key, time: $0) } }
      .filter { $0.time <= now }
    // Keys have no order of their own: channels that are due together go by their place in the set.
    let places = due.count < 2 ? [:] : Dictionary(uniqueKeysWithValues: desired.enumerated().map { ($1, $0) })
    let order = due.sorted { ($0.time, places[$0.key] ?? .max) < ($1.time, places[$1.key] ?? .max) }
    var operations: [Operation] = []
    for (key, _) in order {
      guard var entry = entries[key] else { continue }
      switch entry.phase {
      case .settling, .restarting: openInstance(&entry, at: now, into: &operations)
      case .open(let instance, let since, var pacer):
        operations += self.operations(pacer.flush(entry.wish.delivery, at: now), instance)
        entry.phase = .open(instance, since: since, pacer)
      case .closed: break
      }
      store(entry, key)
    }
    return operations
  }

  // MARK: One channel

  /// Brings a channel to what is wanted of it now; an instance that does not serve is cancelled already.
  private mutating func apply(_ wish: Wish, isDesired: Bool, at now: Instant, into operations: inout [Operation]) {
    let key = wish.key
    guard var entry = entries[key], wish.isServedLike(entry.wish) else {
      var entry = Entry(wish: wish, isDesired: isDesired, phase: .closed)
      if let settle = wish.lifetime.settle {
        entry.phase = .settling(until: now + settle)
      } else {
        openInstance(&entry, at: now, into: &operations)
      }
      return store(entry, key)
    }
    let old = entry.wish
    entry.wish = wish
    entry.isDesired = isDesired
    if case .open(let instance, let since, var pacer) = entry.phase {
      let paceChanged = old.delivery != wish.delivery
      if paceChanged || old.value != wish.value {
        let given = pacer.take(state: wish.value, wish.delivery, paceChanged: paceChanged, at: now)
        operations += self.operations(given, instance)
      }
      entry.phase = .open(instance, since: since, pacer)
    }
    store(entry, key)
  }

  private mutating func openInstance(_ entry: inout Entry, at now: Instant, into operations: inout [Operation]) {
    lastInstance += 1
    let (key, value) = (entry.wish.key, entry.wish.value)
    keys[lastInstance] = key
    entry.phase = .open(lastInstance, since: now, Pacer(opening: value, entry.wish.delivery, at: now))
    operations.append(.open(key, lastInstance))
    if let value { operations.append(.deliver(lastInstance, value.value, .state)) }
  }

  /// Cancels the channel's instance where it has one, and gives up what it waits for.
  private mutating func close(_ key: Key, into operations: inout [Operation]) {
    guard var entry = entries[key] else { return }
    if let instance = entry.instance {
      keys[instance] = nil
      operations.append(.cancel(instance))
    }
    entry.phase = .closed
    store(entry, key)
  }

  private mutating func store(_ entry: Entry, _ key: Key) {
    entries[key] = entry
    if entry.deadline == nil { waiting.remove(key) } else { waiting.insert(key) }
  }

  private func operations(_ given: [Pacer.Given], _ instance: Instance) -> [Operation] {
    given.map { .deliver(instance, $0.value, $0.origin) }
  }
}
