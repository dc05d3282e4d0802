import Testing

@testable import StockQuotes

@Suite("The machines of the stock quotes")
struct QuoteMachineTests {
  @Test func `the first subscription connects, and all are asked for once the server greets`() {
    var machine = QuoteClientMachine()
    #expect(machine.subscribe(to: "100").outputs == [.connect])
    #expect(machine.subscribe(to: "200").outputs == [])
    #expect(machine.connected() == [.receive])
    #expect(machine.subscribe(to: "100").outputs == [])
    #expect(
      machine.received(.connected) == [
        .send(.subscribe(topic: "trading.product.100")), .send(.subscribe(topic: "trading.product.200")), .receive,
      ])
    #expect(machine.subscribe(to: "200").outputs == [])
    #expect(machine.subscribe(to: "300").outputs == [.send(.subscribe(topic: "trading.product.300"))])
    #expect(machine.received(.quote(product: "100", price: "42")) == [.price(1, "42"), .price(3, "42"), .receive])
    #expect(machine.received(.unknown) == [.receive])
  }

  @Test func `a refused product fails alone, and can be tried again`() {
    var machine = opened("100", "200")
    #expect(machine.received(.failed(topic: "trading.product.100")) == [.failed(1), .receive])
    #expect(machine.received(.quote(product: "100", price: "1")) == [.receive])
    #expect(machine.received(.quote(product: "200", price: "2")) == [.price(2, "2"), .receive])
    #expect(machine.subscribe(to: "100").outputs == [.send(.subscribe(topic: "trading.product.100"))])
    // Nobody is left.
    #expect(machine.received(.failed(topic: nil)) == [.failed(2), .failed(3), .disconnect])
  }

  @Test func `a refused product without a name fails alone too`() {
    var machine = opened("100", "")
    #expect(machine.received(.failed(topic: "trading.product.")) == [.failed(2), .receive])
    #expect(machine.received(.failed(topic: "another")) == [.receive])
    #expect(machine.received(.quote(product: "100", price: "1")) == [.price(1, "1"), .receive])
  }

  @Test func `a lost connection fails each subscription once, and the next one connects`() {
    var machine = opened("100", "200")
    #expect(machine.ended(isClosed: true) == [.failed(1), .failed(2)])
    #expect(machine.ended(isClosed: true) == [])
    #expect(machine.isOpen == false)
    #expect(machine.subscribe(to: "100").outputs == [.connect])
    #expect(machine.ended(isClosed: true) == [.failed(3)])
  }

  @Test func `a server that greets again is asked for everything again`() {
    var machine = opened("100")
    _ = machine.received(.ack(connectionID: 7))
    #expect(machine.connectionID == 7)
    #expect(machine.received(.connected) == [.send(.subscribe(topic: "trading.product.100")), .receive])
    #expect(machine.connectionID == nil)
  }

  @Test func `close tells the server its id, and ends everything once`() {
    var machine = opened("100", "200")
    _ = machine.received(.ack(connectionID: 7))
    #expect(machine.close() == [.finished(1), .finished(2), .send(.unsubscribe(connectionID: 7)), .disconnect])
    #expect(machine.close() == [])
    #expect(machine.ended(isClosed: true) == [])
    #expect(machine.received(.quote(product: "100", price: "1")) == [])
    #expect(machine.disconnected() == [.closed])
    #expect(machine.close() == [.closed])
  }

  @Test func `who subscribes while the client closes gets a new connection`() {
    var machine = opened("100")
    #expect(machine.close() == [.finished(1), .disconnect])
    #expect(machine.subscribe(to: "200").outputs == [])
    #expect(machine.disconnected() == [.closed, .connect])
    #expect(machine.connected() == [.receive])
    #expect(machine.received(.connected) == [.send(.subscribe(topic: "trading.product.200")), .receive])
  }

  @Test func `the last subscription that ends closes the connection`() {
    var machine = opened("100", "200")
    #expect(machine.cancel(1) == [.finished(1)])
    #expect(machine.cancel(1) == [])
    #expect(machine.cancel(2) == [.finished(2), .disconnect])
  }

  @Test func `ids of the server's are never given again, and only known products are watched`() {
    var board = QuoteBoard(products: ["100", "200"])
    let first = board.join()
    let second = board.join()
    #expect(board.subscribe(first, to: "trading.product.100") == .accepted(product: "100"))
    #expect(board.subscribe(second, to: "trading.product.200") == .accepted(product: "200"))
    #expect(board.subscribe(second, to: "trading.product.300") == .refused)
    #expect(board.subscribe(second, to: "100") == .refused)
    #expect(board.watchedProducts == ["100", "200"])
    var left = board.leave(first)
    #expect(left)
    left = board.leave(first)
    #expect(!left)
    #expect(board.watchedProducts == ["200"])
    #expect(board.subscribe(first, to: "trading.product.100") == .refused)
    let third = board.join()
    #expect(![first, second].contains(third))
    #expect(board.products(watchedBy: second) == ["200"])
    #expect(board.clientCount == 2)
  }

  /// A machine that is connected, with these subscriptions, numbered from 1.
  private func opened(_ products: String...) -> QuoteClientMachine {
    var machine = QuoteClientMachine()
    for product in products { _ = machine.subscribe(to: product) }
    _ = machine.connected()
    _ = machine.received(.connected)
    return machine
  }
}
