import WebSocketTransport

/// Decides which items make a batch; time comes in.
struct Batcher<Item: Sendable>: Sendable {
  typealias Batch = (items: [Item], cost: Int)

  private let batching: Batching
  /// What waits is a batch when it costs that much, however it is batched.
  private let limit: Int
  private var items: [Item] = []
  private var cost = 0
  /// When the first item came, and the last.
  private var first = Instant(nanoseconds: 0)
  private var last = Instant(nanoseconds: 0)

  init(_ batching: Batching, limit: Int) {
    self.batching = batching
    self.limit = limit
  }

  /// When what waits is a batch; nil where nothing waits.
  var deadline: Instant? {
    guard !items.isEmpty else { return nil }
    switch batching {
    case .immediate: return first
    case .window(let time, _): return first + time
    case .debounce(let quiet, let maxWait, _): return min(last + quiet, first + maxWait)
    }
  }

  private var isFull: Bool {
    switch batching {
    case .immediate: true
    case .window(_, let max), .debounce(_, _, let max): items.count >= max || cost >= limit
    }
  }

  /// Takes an item in; the batch that it completes.
  mutating func add(_ item: Item, cost: Int, at now: Instant) -> Batch? {
    if items.isEmpty { first = now }
    last = now
    items.append(item)
    self.cost += cost
    return isFull ? take() : nil
  }

  /// What waits, as a batch; nil where nothing does.
  mutating func take() -> Batch? {
    guard !items.isEmpty else { return nil }
    defer { (items, cost) = ([], 0) }
    return (items, cost)
  }

  /// What waits, where its time has come.
  mutating func takeDue(at now: Instant) -> Batch? {
    guard let deadline, deadline <= now else { return nil }
    return take()
  }
}
