/// First in, first out, in a ring: nothing is moved, and what was taken out is not held any longer.
struct Queue<Element> {
  private var ring: [Element?] = []
  private var head = 0
  private(set) var count = 0

  var isEmpty: Bool { count == 0 }
  var first: Element? { isEmpty ? nil : ring[head] }

  /// How many fulfil a condition.
  func count(where condition: (Element) -> Bool) -> Int {
    (0..<count).reduce(0) { sum, position in
      ring[index(position)].map { condition($0) ? sum + 1 : sum } ?? sum
    }
  }

  private func index(_ position: Int) -> Int {
    let index = head + position
    return index < ring.count ? index : index - ring.count
  }

  mutating func append(_ element: consuming Element) {
    if count == ring.count { grow() }
    ring[index(count)] = element
    count += 1
  }

  private mutating func grow() {
    var larger = [Element?](repeating: nil, count: max(4, 2 * ring.count))
    for position in 0..<count { larger[position] = ring[index(position)] }
    ring = larger
    head = 0
  }

  mutating func popFirst() -> Element? {
    guard count > 0 else { return nil }
    let element = ring[head].take()
    head = index(1)
    count -= 1
    return element
  }

  /// Takes the last.
  mutating func popLast() -> Element? {
    guard count > 0 else { return nil }
    count -= 1
    return ring[index(count)].take()
  }

  /// Whether it holds more memory than an idle connection should.
  var holdsMemory: Bool { ring.count > 16 }

  /// Gives memory back that nothing lies in.
  mutating func shrink() {
    if isEmpty, holdsMemory { self = Queue() }
  }

  /// Forgets all.
  mutating func removeAll(keepingCapacity: Bool) where Element: BitwiseCopyable {
    guard keepingCapacity else { return self = Queue() }
    (head, count) = (0, 0)
  }

  /// Takes all that fulfil a condition, in order.
  mutating func removeAll(where condition: (Element) -> Bool = { _ in true }) -> [Element] {
    var removed: [Element] = []
    var kept = Queue()
    while let element = popFirst() {
      if condition(element) { removed.append(element) } else { kept.append(element) }
    }
    self = kept
    return removed
  }
}

extension Queue: Sendable where Element: Sendable {}
