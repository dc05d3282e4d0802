/// First in, first out, in a ring: nothing is moved, and what was taken out is not held any longer.
///
/// Safety: the memory belongs to this value alone, from the first ``append(_:)`` to `deinit`, and no pointer into it
/// leaves a call. Initialised are `count` places from `head` on, around the ring's end, and no others. That is why it
/// may move between threads where its elements may (`@unchecked Sendable`).
struct Queue<Element>: ~Copyable {
  private var ring: UnsafeMutablePointer<Element>?
  /// Zero or a power of two.
  private var capacity = 0
  private var head = 0
  private(set) var count = 0

  init() {}

  deinit {
    for position in 0..<count { ring?.advanced(by: index(position)).deinitialize(count: 1) }
    ring?.deallocate()
  }

  var isEmpty: Bool { count == 0 }
  var first: Element? { isEmpty ? nil : ring?[head] }

  /// How many fulfil a condition.
  func count(where condition: (Element) -> Bool) -> Int {
    guard let ring else { return 0 }
    return (0..<count).count { condition(ring[index($0)]) }
  }

  private func index(_ position: Int) -> Int { (head &+ position) & (capacity &- 1) }

  mutating func append(_ element: consuming Element) {
    if count == capacity { grow() }
    ring?.advanced(by: index(count)).initialize(to: element)
    count &+= 1
  }

  private mutating func grow() {
    let larger = UnsafeMutablePointer<Element>.allocate(capacity: max(4, 2 * capacity))
    if let ring {
      larger.moveInitialize(from: ring + head, count: capacity - head)
      (larger + (capacity - head)).moveInitialize(from: ring, count: head)
      ring.deallocate()
    }
    ring = larger
    capacity = max(4, 2 * capacity)
    head = 0
  }

  mutating func popFirst() -> Element? {
    guard count > 0, let ring else { return nil }
    let element = (ring + head).move()
    head = index(1)
    count &-= 1
    return element
  }

  /// Takes the last.
  mutating func popLast() -> Element? {
    guard count > 0, let ring else { return nil }
    count &-= 1
    return (ring + index(count)).move()
  }

  /// Whether it holds more memory than an idle connection should.
  var holdsMemory: Bool { capacity > 16 }

  /// Gives memory back that nothing lies in.
  mutating func shrink() {
    if isEmpty, holdsMemory { self = Queue() }
  }

  /// Forgets all, and keeps the memory.
  mutating func clear() where Element: BitwiseCopyable { (head, count) = (0, 0) }

  /// Takes all that fulfil a condition, in order.
  mutating func removeAll(where condition: (Element) -> Bool = { _ in true }) -> [Element] {
    var removed: [Element] = []
    for _ in 0..<count {
      guard let element = popFirst() else { break }
      if condition(element) { removed.append(element) } else { append(element) }
    }
    return removed
  }
}

extension Queue: @unchecked Sendable where Element: Sendable {}
