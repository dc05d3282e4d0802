import WebSocketTransport

/// Prices that move by up to five in each step, from 1 to 1000.
public final class RandomWalk: Sendable {
  private let prices = Lock<[String: Int]>([:])

  /// A walk in which each product begins somewhere between 100 and 900.
  public init() {}

  /// The next price of a product.
  @Sendable public func next(_ product: String) -> Int {
    prices.withLock { prices in
      let price = min(max((prices[product] ?? .random(in: 100...900)) + .random(in: -5...5), 1), 1000)
      prices[product] = price
      return price
    }
  }
}
