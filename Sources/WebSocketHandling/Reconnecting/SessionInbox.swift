/// Receives that wait for a message, and messages that wait for a receive.
struct SessionInbox: ~Copyable, Sendable {
  typealias Arrival = Result<WebSocketMessage, EngineError.WebSocketError>

  /// As many receives as a handler lets wait.
  static let maximumReceives = 16_384
  /// The most bytes of messages that nobody has asked for; the handler keeps more.
  private static let limit = 1 << 20

  private var receives = Queue<any PendingReceive>()
  private var arrivals = Queue<Arrival>()
  private var cost = 0

  /// Whether no message is kept.
  var isEmpty: Bool { arrivals.isEmpty }
  /// Whether another message is welcome.
  var hasRoom: Bool { cost < Self.limit }
  /// How many receives wait.
  var receiveCount: Int { receives.count }

  mutating func add(_ pending: any PendingReceive) { receives.append(pending) }

  mutating func add(_ arrival: Arrival) {
    arrivals.append(arrival)
    cost += Self.cost(of: arrival)
  }

  /// The first receive, and the first message for it.
  mutating func next() -> (any PendingReceive, Arrival)? {
    guard !arrivals.isEmpty, let pending = receives.popFirst(), let arrival = arrivals.popFirst() else { return nil }
    cost -= Self.cost(of: arrival)
    return (pending, arrival)
  }

  mutating func takeReceives() -> [any PendingReceive] { receives.removeAll() }

  /// Forgets the messages that are kept.
  mutating func clear() {
    arrivals = Queue()
    cost = 0
  }

  private static func cost(of arrival: Arrival) -> Int {
    switch arrival {
    case .success(let message): message.cost
    case .failure: messageOverhead
    }
  }
}
