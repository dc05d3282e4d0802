import Testing

@testable import WebSocketHandling

@Suite("A queue")
struct QueueTests {
  private final class Item {
    let number: Int
    init(_ number: Int) { self.number = number }
  }

  @Test("gives out what went in, in order, at every place of the ring and every growth", arguments: 0..<9)
  func order(offset: Int) {
    var queue = Queue<Int>()
    for number in 0..<offset { queue.append(number) }
    for _ in 0..<offset { _ = queue.popFirst() }
    for number in 0..<40 { queue.append(number) }
    let (first, even, last) = (queue.first, queue.count { $0.isMultiple(of: 2) }, queue.popLast())
    #expect([first, even, last] == [0, 20, 39])
    var taken: [Int?] = []
    while let number = queue.popFirst() { taken.append(number) }
    #expect(taken == Array(0..<39))
    let rest = (queue.count, queue.first, queue.popLast())
    #expect(rest == (0, nil, nil))
  }

  @Test("gives out what fulfils a condition and keeps the rest, both in order", arguments: 0..<9)
  func removing(offset: Int) {
    var queue = Queue<Int>()
    for number in 0..<offset { queue.append(number) }
    for _ in 0..<offset { _ = queue.popFirst() }
    for number in 0..<10 { queue.append(number) }
    let (threes, others, count) = (queue.removeAll { $0.isMultiple(of: 3) }, queue.removeAll(), queue.count)
    #expect(threes == [0, 3, 6, 9])
    #expect(others == [1, 2, 4, 5, 7, 8])
    #expect(count == 0)
  }

  @Test("holds nothing that was taken out, and nothing when it is gone")
  func references() {
    weak var taken: Item?
    weak var left: Item?
    weak var dropped: Item?
    do {
      var queue = Queue<Item>()
      // The ring's end lies between them.
      for number in 0..<3 { queue.append(Item(number)) }
      for _ in 0..<3 { _ = queue.popFirst() }
      for number in 3..<6 {
        let item = Item(number)
        queue.append(item)
        switch number {
        case 3: taken = item
        case 4: dropped = item
        default: left = item
        }
      }
      let first = queue.popFirst()?.number
      #expect(first == 3)
      #expect(taken == nil)
      let removed = queue.removeAll { $0.number == 4 }.map(\.number)
      #expect(removed == [4])
      #expect(dropped == nil)
      #expect(left?.number == 5)
    }
    #expect(left == nil)
  }

  @Test("gives memory back only when nothing lies in it")
  func memory() {
    var queue = Queue<Int>()
    for number in 0..<17 { queue.append(number) }
    queue.shrink()
    let full = (queue.holdsMemory, queue.count)
    #expect(full == (true, 17))
    queue.clear()
    let emptied = (queue.holdsMemory, queue.count)
    #expect(emptied == (true, 0))
    queue.shrink()
    let shrunk = queue.holdsMemory
    #expect(!shrunk)
    queue.append(1)
    let first = queue.popFirst()
    #expect(first == 1)
  }
}
