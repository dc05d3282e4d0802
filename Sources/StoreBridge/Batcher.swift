import WebSocketTransport

/// Decides which items make a batch; time comes in.
struct Batcher<Item: Sendable>: Sendable {
  private let batching: Batching
  private var items: [Item] = []
  /// When the first item came, and the last.
  private var first = Instant(nanoseconds: 0)
  private var last = Instant(nanoseconds: 0)

  init(_ batching: Batching) { self.batching = batching }

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
    case .window(_, let max), .debounce(_, _, let max): items.count >= max
    }
  }

  /// Takes an item in; the batch that it completes.
  mutating func add(_ item: Item, at now: Instant) -> [Item]? {
    if items.isEmpty { first = now }
    last = now
    items.append(item)
    return isFull ? take() : nil
  }

  /// What waits, as a batch; nil where nothing does.
  mutating func take() -> [Item]? {
    guard !items.isEmpty else { return nil }
    defer { items = [] }
    return items
  }

  /// What waits, where its time has come.
  mutating func takeDue(at now: Instant) -> [Item]? {
    guard let deadline, deadline <= now else { return nil }
    return take()
  }
}
