public import Foundation
import WebSocketCore
public import WebSocketHandling
public import WebSocketServing
import WebSocketTransport

/// A server of stock quotes: each client subscribes to products, and hears their prices at once and then at an interval.
///
/// Its protocol, in JSON; the server sends binary messages, the client text, and both read either:
///
/// - on connecting, the server: `{"t":"connect.connected"}`
/// - the client: `{"subscribeTo":"trading.product.100"}`; the server: `{"connectionId":7,"t":"connect.ack"}` and a
///   quote, or `{"subscribeTo":"…","t":"connect.failed"}`
/// - the server, per interval: `{"body":{"currentPrice":"42","securityId":"100"},"t":"trading.quote"}`
/// - the client: `{"unsubscribeFrom":7}`; the server closes.
///
/// A client that reads too slowly gets the newest prices when it has caught up, and not those in between.
public final class QuoteServer: Sendable {
  /// The products of a server that is not told others: `100` to `119`.
  public static let defaultProducts = (100..<120).map(String.init)

  private let floor: TradingFloor
  private let server: WebSocketServer

  /// Listens on a host and a port, until ``shutDown()`` or its release.
  ///
  /// - Parameters:
  ///   - host: a name or an address of this machine.
  ///   - port: 0: the system picks one, see ``port``.
  ///   - products: those that there are.
  ///   - interval: the time between two prices of a product. Default: 1 s.
  ///   - tls: how `wss` is served; nil: `ws` is.
  ///   - pages: what plain GET requests are answered with. Default: ``QuoteServer/page``.
  ///   - price: the price of a product now, asked once per interval. Default: a random walk from 1 to 1000.
  public init(
    host: String = "127.0.0.1", port: Int = 0, products: [String] = QuoteServer.defaultProducts,
    interval: Duration = .seconds(1), tls: TLSServerConfiguration? = nil, pages: [Page] = [QuoteServer.page],
    price: @escaping @Sendable (String) -> Int = RandomWalk().next
  ) throws(EngineError.WebSocketError) {
    let floor = TradingFloor(products: products, interval: interval, price: price)
    self.floor = floor
    server = try WebSocketServer(host: host, port: port, tls: tls, pages: pages) { floor.admit($0) }
  }

  /// Where clients connect to.
  public var url: URL { server.url }

  /// The port that the server listens on.
  public var port: Int { server.port }

  /// The number of clients that are connected.
  public var clientCount: Int { floor.clientCount }

  /// The products that anybody watches, in order.
  package var watchedProducts: [String] { floor.watchedProducts }

  /// Ends TCP of every client at once.
  package func dropAll() { server.dropAll() }

  /// Stops listening and closes every connection with 1001.
  public func shutDown() { server.shutDown() }
}

/// All who watch, and the timer that tells them prices.
///
/// Clients are answered as their messages are read, so that one that floods waits for its own answers. Prices are asked
/// for on one loop. What is sent of both is sent under the lock: no price overtakes a newer one.
private final class TradingFloor: Sendable {
  private struct State: Sendable {
    var board: QuoteBoard
    var outlets: [Int: QuoteOutlet] = [:]
    /// The prices that all hear until the next interval.
    var prices: [String: String] = [:]
    /// The products that somebody watches and whose price the loop is told to ask for.
    var unpriced: Set<String> = []
    var isTicking = false

    /// A client is gone; false where it was not there.
    @discardableResult
    mutating func leave(_ id: Int) -> Bool {
      outlets[id] = nil
      return board.leave(id)
    }
  }

  private let interval: Duration
  private let price: @Sendable (String) -> Int
  private let loop = Environment.system.makeLoop()
  private let state: Lock<State>

  init(products: [String], interval: Duration, price: @escaping @Sendable (String) -> Int) {
    self.interval = interval
    self.price = price
    state = Lock(State(board: QuoteBoard(products: products)))
  }

  var clientCount: Int { state.withLock { $0.board.clientCount } }
  var watchedProducts: [String] { state.withLock { $0.board.watchedProducts } }

  func admit(_ connection: ServerConnection) {
    let outlet = QuoteOutlet(connection)
    let (id, mustTick) = state.withLock { state in
      let id = state.board.join()
      state.outlets[id] = outlet
      defer { state.isTicking = true }
      return (id, !state.isTicking)
    }
    connection.onClose { [weak self] _ in self?.state.withLock { _ = $0.leave(id) } }
    outlet.send(.connected)
    connection.onMessage { [weak self, unowned connection] message in
      let message = try? JSONDecoder().decode(ClientMessage.self, from: Data(message.bytes))
      self?.answer(message, from: id, outlet, connection)
    }
    if mustTick { scheduleTick() }
  }

  private func answer(
    _ message: ClientMessage?, from id: Int, _ outlet: QuoteOutlet, _ connection: ServerConnection
  ) {
    switch message {
    case nil: outlet.send(.failed(topic: nil))
    case .subscribe(let topic): subscribe(id, outlet, topic)
    case .unsubscribe(let given):
      if given == id, state.withLock({ $0.leave(id) }) { connection.close() }
    }
  }

  /// Acknowledges and quotes; where the price is not known, the loop asks for it and quotes.
  private func subscribe(_ id: Int, _ outlet: QuoteOutlet, _ topic: String) {
    let mustAsk = state.withLock { state in
      guard case .accepted(let product) = state.board.subscribe(id, to: topic) else {
        outlet.send(.failed(topic: topic))
        return false
      }
      outlet.send(.ack(connectionID: id))
      if let price = state.prices[product] {
        outlet.send(.quote(product: product, price: price))
        return false
      }
      defer { state.unpriced.insert(product) }
      return state.unpriced.isEmpty
    }
    if mustAsk { loop.execute { [self] in quoteUnpriced() } }
  }

  // MARK: On the loop

  private func quoteUnpriced() {
    let products = state.withLock { state in
      defer { state.unpriced = [] }
      return state.unpriced.isEmpty ? [] : state.board.watchedProducts.filter(state.unpriced.contains)
    }
    quote(products)
  }

  private func scheduleTick() { _ = loop.schedule(after: interval) { [weak self] in self?.tick() } }

  /// Prices change, and those who watch hear of it; stands still while nobody is there.
  private func tick() {
    let products = state.withLock { state -> [String]? in
      // Who subscribes from now on hears the new ones.
      state.prices = [:]
      guard state.board.clientCount > 0 else {
        state.isTicking = false
        return nil
      }
      return state.board.watchedProducts
    }
    guard let products else { return }
    quote(products)
    scheduleTick()
  }

  /// Asks for the products' prices, and tells them to all who watch.
  private func quote(_ products: [String]) {
    guard !products.isEmpty else { return }
    let prices = Dictionary(uniqueKeysWithValues: products.map { ($0, String(price($0))) })
    state.withLock { state in
      state.prices.merge(prices) { $1 }
      state.unpriced.subtract(products)
      for (id, outlet) in state.outlets {
        outlet.quote(
          state.board.products(watchedBy: id).compactMap { product in prices[product].map { (product, $0) } })
      }
    }
  }
}
