import Dispatch
import Foundation
import Glibc
import Testing
import WebSocketCore
import WebSocketHandling
import WebSocketTesting
import WebSocketTransport
import TestSupport

@testable import StockQuotes

/// What callbacks have heard.
private final class Heard: Sendable {
  private let texts = Lock<[String]>([])

  func append(_ text: String) { texts.withLock { $0.append(text) } }

  func take() -> [String] {
    texts.withLock { texts in
      defer { texts = [] }
      return texts
    }
  }
}

/// A client over a mock, and what it tells.
private final class QuoteBench {
  private let queue = DispatchQueue(label: "mock")
  let mock: MockWebSocketHandler
  var client: QuoteClient?
  private let heard = Heard()

  init() {
    mock = MockWebSocketHandler(queue: queue)
    client = QuoteClient(url: URL(string: "ws://192.0.2.1/") ?? URL(filePath: "/"), handler: mock)
  }

  /// Two subscriptions to one product, `a` and `b`; the first callback of `a` cancels `b`.
  static func whereOneCancelsTheOther() throws -> QuoteBench {
    let bench = QuoteBench()
    let second = Lock<QuoteSubscription?>(nil)
    try bench.subscribe(to: "1", as: "a") { second.withLock { $0 }?.cancel() }
    let subscription = try bench.subscribe(to: "1", as: "b")
    second.withLock { $0 = subscription }
    bench.greet()
    return bench
  }

  @discardableResult
  func subscribe(
    to product: String, as name: String, then body: @escaping @Sendable () -> Void = {}
  ) throws -> QuoteSubscription {
    try #require(client).subscribe(to: product) { [heard] price in
      heard.append("\(name): \(price ?? "nil")")
      body()
    }
  }

  func say(_ text: String) {
    settle()
    mock.inject(.text(text))
    settle()
  }

  func greet() { say(#"{"t":"connect.connected"}"#) }

  func quote(_ price: Int) { say(#"{"body":{"securityId":"1","currentPrice":\#(price)}}"#) }

  /// Lets everything happen that is under way.
  func settle() {
    for _ in 0..<10 {
      queue.sync {}
      client?.queue.sync {}
    }
  }

  func take() -> [String] {
    settle()
    return heard.take()
  }
}

@Suite("A client of stock quotes over a mock")
struct QuoteClientTests {
  @Test func `a subscription that was cancelled hears nothing, also of what had arrived`() throws {
    let bench = try QuoteBench.whereOneCancelsTheOther()
    bench.quote(7)
    #expect(bench.take() == ["a: 7"])
    bench.quote(8)
    #expect(bench.take() == ["a: 8"])
  }

  @Test func `a subscription that was cancelled hears of no failure`() throws {
    let bench = try QuoteBench.whereOneCancelsTheOther()
    bench.say(#"{"t":"connect.failed","subscribeTo":"trading.product.1"}"#)
    #expect(bench.take() == ["a: nil"])
  }

  @Test func `after close nothing is heard, also of what had arrived`() throws {
    let bench = QuoteBench()
    let client = try #require(bench.client)
    try bench.subscribe(to: "1", as: "a") { client.close() }
    try bench.subscribe(to: "1", as: "b")
    bench.greet()
    bench.quote(7)
    #expect(bench.take() == ["a: 7"])
  }

  @Test func `when the last product is refused the connection is closed, and the next one connects`() throws {
    let bench = QuoteBench()
    try bench.subscribe(to: "1", as: "a")
    try bench.subscribe(to: "2", as: "b")
    bench.greet()
    bench.say(#"{"t":"connect.failed","subscribeTo":"trading.product.1"}"#)
    #expect(bench.take() == ["a: nil"])
    #expect(bench.mock.closes == [])
    bench.say(#"{"t":"connect.failed","subscribeTo":"trading.product.2"}"#)
    #expect(bench.take() == ["b: nil"])
    #expect(bench.mock.closes == [.normalClosure])
    try bench.subscribe(to: "1", as: "c")
    bench.greet()
    bench.quote(9)
    #expect(bench.take() == ["c: 9"])
    #expect(bench.mock.misuses == [])
  }

  @Test func `a handler that does not say that its connection is closed is told to close it`() throws {
    let closed = CloseRecord(code: .goingAway, initiator: .peer, isClean: true, transportEnd: .finished)
    for (failure, closes) in [(.messageReceiveFailed("broken"), [.normalClosure]), (.closed(closed), [])]
      as [(EngineError.WebSocketError, [CloseCode])]
    {
      let bench = QuoteBench()
      try bench.subscribe(to: "1", as: "a")
      bench.greet()
      bench.mock.fail(with: failure)
      #expect(bench.take() == ["a: nil"])
      #expect(bench.mock.closes == closes)
      try bench.subscribe(to: "1", as: "b")
      bench.greet()
      bench.quote(9)
      #expect(bench.take() == ["b: 9"])
      #expect(bench.mock.misuses == [])
    }
  }

  @Test func `a client that is released while it connects gives the connect up`() throws {
    let bench = QuoteBench()
    bench.mock.hold(.connect)
    try bench.subscribe(to: "1", as: "a")
    bench.client = nil
    bench.settle()
    #expect(bench.mock.closes == [.normalClosure])
  }

  /// What gives a connect up that is under way.
  enum GivingUp: CaseIterable {
    case close
    case release
  }

  @Test(
    "a connect that succeeds after it was given up leaves no connection open, and the next one connects",
    arguments: GivingUp.allCases)
  func lateConnect(how: GivingUp) async throws {
    let handler = LateHandler()
    let heard = Heard()
    let url = try #require(URL(string: "ws://192.0.2.1/"))
    var client: QuoteClient? = QuoteClient(url: url, handler: handler)
    client?.subscribe(to: "1") { heard.append($0 ?? "nil") }
    switch how {
    case .close:
      await withCheckedContinuation { closed in client?.close { closed.resume() } }
      client?.queue.sync {}
      client?.subscribe(to: "1") { heard.append($0 ?? "nil") }
    case .release: client = nil
    }
    handler.succeed()
    #expect(!handler.isConnected)
    #expect(handler.isConnecting == (how == .close))
    handler.succeed()
    #expect(client?.isOpen == (how == .close ? true : nil))
    #expect(heard.take() == [])
  }

  @Test func `a price that comes while a call is under way is not told inside that call`() async throws {
    let queue = DispatchQueue(label: "mock")
    let mock = Lock<MockWebSocketHandler?>(nil)
    let isArmed = Lock(false)
    let handler = MockWebSocketHandler(queue: queue) { method in
      guard method == .send, isArmed.withLock({ $0.take() }) else { return }
      mock.withLock { $0 }?.inject(.text(#"{"body":{"securityId":"1","currentPrice":7}}"#))
      queue.sync {}
    }
    mock.withLock { $0 = handler }
    defer { mock.withLock { $0 = nil } }
    let client = QuoteClient(url: try #require(URL(string: "ws://192.0.2.1/")), handler: handler)
    let (threads, thread) = AsyncStream.makeStream(of: pthread_t.self)
    client.subscribe(to: "1") { _ in thread.yield(pthread_self()) }
    while handler.pendingReceives == 0 { await Task.yield() }
    handler.inject(.text(#"{"t":"connect.connected"}"#))
    while handler.sent.isEmpty { await Task.yield() }
    let caller = subscribeToAnother(client) { isArmed.withLock { $0 = true } }
    #expect(await threads.first { _ in true } != caller)
  }

  /// Subscribes on this thread, and says which it is.
  private func subscribeToAnother(_ client: QuoteClient, arm: () -> Void) -> pthread_t {
    arm()
    client.subscribe(to: "2") { _ in }
    return pthread_self()
  }
}

extension Bool {
  /// Whether it was true; false from then on.
  fileprivate mutating func take() -> Bool {
    defer { self = false }
    return self
  }
}
