/// Who watches what: the server's half of the protocol.
///
/// A value: it does nothing itself.
struct QuoteBoard: Sendable {
  enum Verdict: Sendable, Hashable {
    /// Acknowledge, and send the product's price at once.
    case accepted(product: String)
    /// Refuse: no product of ours, or no topic at all.
    case refused
  }

  private let products: Set<String>
  private var lastID = 0
  private var watched: [Int: Set<String>] = [:]

  init(products: some Sequence<String>) { self.products = Set(products) }

  var clientCount: Int { watched.count }

  /// A client came; its id is never given to another one.
  mutating func join() -> Int {
    lastID += 1
    watched[lastID] = []
    return lastID
  }

  mutating func subscribe(_ id: Int, to topic: String) -> Verdict {
    guard watched[id] != nil, let product = Wire.product(ofTopic: topic), products.contains(product) else {
      return .refused
    }
    watched[id]?.insert(product)
    return .accepted(product: product)
  }

  /// A client is gone; false where it was not there.
  @discardableResult
  mutating func leave(_ id: Int) -> Bool { watched.removeValue(forKey: id) != nil }

  /// The products that anybody watches, in order.
  var watchedProducts: [String] { Set(watched.values.joined()).sorted() }

  /// The products that a client watches, in order.
  func products(watchedBy id: Int) -> [String] { watched[id]?.sorted() ?? [] }
}
