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

/// All who watch, and the timer that tells them prices; what they ask for and the prices' changes take turns on one loop.
private final class TradingFloor: Sendable {
  private struct State: Sendable {
    var board: QuoteBoard
    var outlets: [Int: QuoteOutlet] = [:]
    var prices: [String: String] = [:]
    var isTicking = false
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
    connection.onClose { [weak self] _ in
      self?.state.withLock { state in
        state.board.leave(id)
        state.outlets[id] = nil
      }
    }
    outlet.send(.connected)
    connection.onMessage { [weak self, unowned connection] message in
      let message = try? JSONDecoder().decode(ClientMessage.self, from: Data(message.bytes))
      self?.received(message, from: id, outlet, connection)
    }
    if mustTick { scheduleTick() }
  }

  /// Has a client's message answered where the prices change, so that no newer one overtakes the price at its time.
  private func received(
    _ message: ClientMessage?, from id: Int, _ outlet: QuoteOutlet, _ connection: ServerConnection
  ) {
    loop.execute { [self] in
      switch message {
      case nil: outlet.send(.failed(topic: nil))
      case .subscribe(let topic): subscribe(id, outlet, topic)
      case .unsubscribe(let given): if given == id { connection.close() }
      }
    }
  }

  private func subscribe(_ id: Int, _ outlet: QuoteOutlet, _ topic: String) {
    let (verdict, known) = state.withLock { state -> (QuoteBoard.Verdict, String?) in
      let verdict = state.board.subscribe(id, to: topic)
      guard case .accepted(let product) = verdict else { return (verdict, nil) }
      return (verdict, state.prices[product])
    }
    switch verdict {
    case .refused: outlet.send(.failed(topic: topic))
    case .accepted(let product):
      outlet.send(.ack(connectionID: id))
      outlet.send(.quote(product: product, price: known ?? currentPrice(of: product)))
    }
  }

  /// The price that all hear until the next interval.
  private func currentPrice(of product: String) -> String {
    let fresh = String(price(product))
    return state.withLock { state in
      let price = state.prices[product] ?? fresh
      state.prices[product] = price
      return price
    }
  }

  private func scheduleTick() { _ = loop.schedule(after: interval) { [weak self] in self?.tick() } }

  /// Prices change, and those who watch hear of it; stands still while nobody is there.
  private func tick() {
    let products = state.withLock { state -> [String]? in
      guard state.board.clientCount > 0 else {
        state.isTicking = false
        state.prices = [:]
        return nil
      }
      return state.board.watchedProducts
    }
    guard let products else { return }
    let prices = Dictionary(uniqueKeysWithValues: products.map { ($0, String(price($0))) })
    let rounds = state.withLock { state in
      state.prices = prices
      return state.outlets.map { id, outlet in
        (outlet, state.board.products(watchedBy: id).compactMap { product in prices[product].map { (product, $0) } })
      }
    }
    for (outlet, quotes) in rounds { outlet.quote(quotes) }
    scheduleTick()
  }
}
