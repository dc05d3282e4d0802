import WebSocketTransport

/// Messages without an outcome, in the order of their numbers: those that wait, those given to the handler, and those
/// that a connection was given and that the application has not acknowledged.
///
/// A value: each input gives the outcomes that follow from it.
struct Outbox: Sendable {
  typealias Hearer = @Sendable (DeliveryOutcome) -> Void

  /// An outcome, and who hears of it.
  struct Settled: Sendable {
    let hearer: Hearer?
    let outcome: DeliveryOutcome
  }

  private struct Entry: Sendable {
    let id: UInt64
    let message: WebSocketMessage
    let deadline: Instant
    var delivery: Delivery
    /// What the application acknowledges it by; nil where it will not.
    var key: String?
    let hearer: Hearer?
    /// Why an earlier connection may have delivered it; nil where none was given it.
    var doubt: EngineError.WebSocketError?
    /// How the connection broke that the handler has it for; nil while that stands.
    var loss: EngineError.WebSocketError?

    var cost: Int { message.cost }

    /// The outcome without doubt, or the doubt.
    func settled(_ outcome: DeliveryOutcome) -> Settled {
      Settled(hearer: hearer, outcome: doubt.map { .maybeDelivered($0) } ?? outcome)
    }
  }

  private let limits: OutboxLimits
  private var lastID: UInt64 = 0
  /// In the order of the numbers.
  private var waiting: [Entry] = []
  private var given: [UInt64: Entry] = [:]
  /// In the order of the numbers.
  private var unacknowledged: [Entry] = []
  private var cost = 0

  init(limits: OutboxLimits) { self.limits = limits }

  /// How many messages have no outcome.
  var count: Int { waiting.count + given.count + unacknowledged.count }

  /// Their payload bytes.
  var bytes: Int { cost - count * messageOverhead }

  /// When the first expires of those that the handler does not have.
  var nextDeadline: Instant? {
    // All have the same time: the oldest come first.
    switch (waiting.first?.deadline, unacknowledged.first?.deadline) {
    case (let one?, let other?): min(one, other)
    case (let one, let other): one ?? other
    }
  }

  /// Takes a message in, behind the others; where that cannot be, gives the outcome.
  mutating func add(
    _ message: WebSocketMessage, _ delivery: Delivery, key: String?, now: Instant, hearer: Hearer?
  ) -> Settled? {
    lastID += 1
    let entry = Entry(
      id: lastID, message: message, deadline: now + limits.age, delivery: delivery, key: key, hearer: hearer)
    if count >= limits.messages {
      return entry.settled(.dropped(.limitExceeded(.sendQueue, size: count + 1, limit: limits.messages)))
    }
    if count > 0, cost + entry.cost > limits.bytes {
      return entry.settled(.dropped(.limitExceeded(.sendQueue, size: cost + entry.cost, limit: limits.bytes)))
    }
    cost += entry.cost
    waiting.append(entry)
    return nil
  }

  /// Gives all that wait to the handler, in order.
  mutating func takeWaiting() -> [(id: UInt64, message: WebSocketMessage)] {
    for entry in waiting { given[entry.id] = entry }
    defer { waiting = [] }
    return waiting.map { ($0.id, $0.message) }
  }

  /// The handler answered; nil where the message has no outcome yet.
  mutating func answered(_ id: UInt64, _ result: Result<Void, EngineError.WebSocketError>) -> Settled? {
    guard var entry = given.removeValue(forKey: id) else { return nil }
    let outcome: DeliveryOutcome
    switch result {
    case .success:
      entry.doubt = nil
      if entry.key != nil {
        entry.doubt = entry.loss
        return watch(entry)
      }
      outcome = .written
    case .failure(let failure):
      switch failure.fate {
      case .refusedForNow:
        if entry.delivery != .whenConnected { return wait(entry) }
        outcome = .dropped(failure)
      case .refused: outcome = .dropped(failure)
      case .unknown:
        entry.doubt = failure
        if entry.delivery == .again || entry.key != nil { return watch(entry) }
        outcome = .maybeDelivered(failure)
      }
    }
    cost -= entry.cost
    return entry.settled(outcome)
  }

  /// The connection broke: what it was given and is not acknowledged may be lost.
  mutating func lost(_ failure: EngineError.WebSocketError) {
    for id in given.keys { given[id]?.loss = failure }
    let entries = unacknowledged
    unacknowledged = []
    for var entry in entries {
      entry.doubt = failure
      _ = watch(entry)
    }
  }

  /// The application has learned that the messages with that key arrived; those that no connection was given did not.
  mutating func acknowledge(_ key: String) -> [Settled] {
    let known = given.values.filter { $0.key == key }.sorted { $0.id < $1.id }
    for entry in known { given[entry.id] = nil }
    cost -= known.reduce(0) { $0 + $1.cost }
    let found = known + remove(from: \.unacknowledged) { $0.key == key }
    let again = remove(from: \.waiting) { $0.key == key && $0.doubt != nil }
    return (found + again).map { Settled(hearer: $0.hearer, outcome: .acknowledged) }
  }

  /// What has waited too long by now.
  mutating func expire(at now: Instant) -> [Settled] {
    remove(from: \.unacknowledged) { $0.deadline <= now }.map { $0.settled(.written) }
      + remove(from: \.waiting) { $0.deadline <= now }.map { $0.settled(.expired) }
  }

  /// Gives up all that wait; what was given to the handler does not come back to wait.
  mutating func close(_ failure: EngineError.WebSocketError) -> [Settled] {
    for id in given.keys {
      given[id]?.delivery = .whenConnected
      given[id]?.key = nil
    }
    return remove(from: \.unacknowledged) { _ in true }.map { $0.settled(.written) }
      + remove(from: \.waiting) { _ in true }.map { $0.settled(.dropped(failure)) }
  }

  /// Gives up everything: nobody will hear what the handler says.
  mutating func abandon(_ failure: EngineError.WebSocketError) -> [Settled] {
    let inDoubt = given.values.sorted { $0.id < $1.id }.map { $0.settled(.maybeDelivered(failure)) }
    given = [:]
    return inDoubt + close(failure)
  }

  /// The message waits again, in its place; never an outcome.
  private mutating func wait(_ entry: Entry) -> Settled? {
    var entry = entry
    entry.loss = nil
    waiting.insert(entry, at: waiting.firstIndex { $0.id > entry.id } ?? waiting.endIndex)
    return nil
  }

  /// The message waits for its acknowledgement, or to be written again; never an outcome.
  private mutating func watch(_ entry: Entry) -> Settled? {
    if entry.doubt != nil, entry.delivery == .again { return wait(entry) }
    unacknowledged.insert(entry, at: unacknowledged.firstIndex { $0.id > entry.id } ?? unacknowledged.endIndex)
    return nil
  }

  private mutating func remove(
    from list: WritableKeyPath<Outbox, [Entry]>, where condition: (Entry) -> Bool
  ) -> [Entry] {
    let removed = self[keyPath: list].filter(condition)
    self[keyPath: list].removeAll(where: condition)
    cost -= removed.reduce(0) { $0 + $1.cost }
    return removed
  }
}

extension EngineError.WebSocketError {
  /// What a handler's error says about a message that it was given.
  fileprivate enum Fate {
    /// Not a byte was written, and another connection may take it.
    case refusedForNow
    /// Not a byte was written, and none ever will be.
    case refused
    /// It may be written, in part or as a whole.
    case unknown
  }

  fileprivate var fate: Fate {
    switch self {
    case .messageSendFailed, .closing: .refusedForNow
    case .limitExceeded, .unencodable, .misuse, .unsupported, .invalidRequest: .refused
    case .connectionFailed, .messageReceiveFailed, .resolutionFailed, .unreachable, .handshakeRefused,
      .handshakeFailed, .closed, .timedOut, .cancelled, .tls, .undecodable, .proxy:
      .unknown
    }
  }
}
