import Foundation
import StockQuotes
import WebSocketHandling
import WebSocketTransport

/// `websocket quotes`: a server of stock quotes with a page, and a client of one.
struct QuotesCommand {
  static let usage = """
    usage: websocket quotes serve [--port P] [--interval S]
             a server of the products 100 to 119, with a page for browsers at the same address
      --port P        the port of 127.0.0.1 to listen on; default: 8080, 0: the system picks one
      --interval S    seconds between two prices; default: 1
           websocket quotes watch URL --product ID [--product ID ...] [options]
             prints the prices of products
      --count N       end after N prices
      --json          one JSON object per line
    """

  private enum Action {
    case serve(port: Int, interval: Duration)
    case watch(QuoteWatch)
  }

  private let action: Action

  init(_ arguments: some Sequence<String>) throws(UsageError) {
    var arguments = Array(arguments)
    guard !arguments.isEmpty else { throw UsageError(message: "serve or watch is needed") }
    switch arguments.removeFirst() {
    case "serve":
      let options = try CommandLineOptions(arguments, valued: ["--port", "--interval"])
      try options.noOperands()
      action = .serve(
        port: try options.integer("--port", in: 0...65_535) ?? 8080,
        interval: try options.seconds("--interval") ?? .seconds(1))
    case "watch":
      let options = try CommandLineOptions(arguments, flags: ["--json"], valued: ["--product", "--count"])
      let text = try options.operand("URL")
      guard let url = URL(string: text) else { throw UsageError(message: "\(text) is not a URL") }
      let products = options.all("--product")
      guard !products.isEmpty else { throw UsageError(message: "--product is needed") }
      action = .watch(
        QuoteWatch(
          url: url, products: products, count: try options.integer("--count", in: 1...Int.max),
          isJSON: options.has("--json")))
    case let other: throw UsageError(message: "serve or watch is needed, not \(other)")
    }
  }

  func run() {
    switch action {
    case .watch(let watch): watch.run()
    case .serve(let port, let interval):
      Terminal.serve { () throws(EngineError.WebSocketError) in try QuoteServer(port: port, interval: interval) }
    }
  }
}

/// `websocket quotes watch`: prints prices until there are enough, or no more come.
private final class QuoteWatch: Sendable {
  private struct State: Sendable {
    var printed = 0
    var acknowledged: Int?
    var failed = 0
  }

  private let products: [String]
  private let count: Int?
  private let isJSON: Bool
  private let client: QuoteClient
  private let state = Lock(State())

  init(url: URL, products: [String], count: Int?, isJSON: Bool) {
    self.products = products
    self.count = count
    self.isJSON = isJSON
    client = QuoteClient(url: url, handler: DefaultWebSocketHandler(logger: SilentLogger()))
  }

  func run() {
    Terminal.onTermination { [self] in
      client.close { exit(0) }
    }
    for product in products {
      client.subscribe(to: product) { [self] price in heard(product, price) }
    }
  }

  private func heard(_ product: String, _ price: String?) {
    guard let price else { return failed(product) }
    if let id = client.connectionId, state.withLock({ $0.acknowledged.replaced(by: id) }), isJSON {
      Terminal.print(JSONEvent.ack(id: id).line)
    }
    let (isTooMuch, isEnough) = state.withLock { state in
      state.printed += 1
      guard let count else { return (false, false) }
      return (state.printed > count, state.printed == count)
    }
    guard !isTooMuch else { return }
    Terminal.print(isJSON ? JSONEvent.quote(product: product, price: price).line : "\(product) \(price)")
    if isEnough { client.close { exit(0) } }
  }

  private func failed(_ product: String) {
    Terminal.complain("no prices of product \(product)")
    let isLast = state.withLock { state in
      state.failed += 1
      return state.failed == products.count
    }
    if isLast { exit(1) }
  }
}

extension Optional where Wrapped == Int {
  /// Takes a new value; false where it is the old one.
  fileprivate mutating func replaced(by value: Int) -> Bool {
    defer { self = value }
    return self != value
  }
}
