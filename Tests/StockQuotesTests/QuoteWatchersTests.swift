import Dispatch
import Foundation
import Glibc
import Testing
import WebSocketHandling
import WebSocketTransport

@testable import StockQuotes

@Suite("Many watchers of stock quotes over loopback", .timeLimit(.minutes(5)))
struct QuoteWatchersTests {
  @Test("200 watchers on 20 products hear the right prices, slow ones the newest; killed ones leave nothing behind")
  func watchers() async {
    await #expect(processExitsWith: .success) {
      let rounds = Rounds()
      let server = try QuoteServer(interval: .milliseconds(5), price: { rounds.nextPrice(of: $0) })
      // The first connection makes descriptors that stay.
      var first = Watcher(server, "100")
      _ = try await first.price()
      let firstID = try #require(first.client.connectionId)
      await first.close()
      try await Self.expectSoon { server.clientCount == 0 }
      let descriptors = try openDescriptors()

      var ids: Set = [firstID]
      try await withThrowingTaskGroup(of: [Int].self) { group in
        for product in QuoteServer.defaultProducts {
          group.addTask { try await Self.watch(product, server, rounds) }
        }
        for try await seen in group {
          #expect(seen.count == 10)
          #expect(ids.isDisjoint(with: seen))
          ids.formUnion(seen)
        }
      }
      #expect(ids.count == 201)
      try await Self.expectSoon { server.clientCount == 0 }
      #expect(server.watchedProducts == [])
      // What is under way ends in its own time.
      try await Self.expectSoon { try openDescriptors() <= descriptors }
    }
  }

  /// With one event loop alone nobody could be answered meanwhile.
  @Test(
    "A client is answered where it is read, also while a price is asked for: no message waits for its answer",
    .enabled(if: ProcessInfo.processInfo.activeProcessorCount > 1))
  func answers() async {
    await #expect(processExitsWith: .success) {
      let (isAsked, goOn) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
      let server = try QuoteServer(products: ["1"], interval: .seconds(3_600)) { _ in
        isAsked.signal()
        goOn.wait()
        return 42
      }
      // Enough for each event loop.
      let clients = try (0..<8).map { _ in try PlainClient(server) }
      for client in clients { #expect(client.hears("connect.connected")) }
      let first = try #require(clients.first)
      first.send(ClientMessage.subscribe(topic: Wire.topic(of: "1")).text)
      Self.wait(isAsked)
      // The loop that asks for the price serves some of the others.
      for client in clients.dropFirst() { client.send("no JSON") }
      var polls = clients.dropFirst().map { pollfd(fd: $0.socket.rawValue, events: Int16(POLLIN), revents: 0) }
      #expect(poll(&polls, nfds_t(polls.count), 240_000) > 0)
      goOn.signal()
      for client in clients.dropFirst() { #expect(client.hears("connect.failed")) }
      #expect(first.hears(#""currentPrice":"42""#))
    }
  }

  private static func wait(_ semaphore: DispatchSemaphore) { semaphore.wait() }

  /// Ten watchers of one product: four steady ones, two slow ones, two that are killed, and two that come then.
  ///
  /// - Returns: their ids.
  private static func watch(_ product: String, _ server: QuoteServer, _ rounds: Rounds) async throws -> [Int] {
    var ids: [Int] = []
    var watchers = (0..<4).map { _ in Watcher(server, product) }
    var slow: [SlowWatcher] = []
    for _ in 0..<2 { slow.append(try await SlowWatcher(server, product)) }
    for isReset in [true, false] {
      do {
        let victim = try PlainClient(server)
        if isReset { victim.resetOnClose() }
        victim.send(ClientMessage.subscribe(topic: Wire.topic(of: product)).text)
        ids.append(try victim.idOnceItHears())
      }
      watchers.append(Watcher(server, product))
    }
    // The slow ones read nothing for a hundred changes of the price.
    let goal = rounds.price(of: product) + 100
    for index in watchers.indices {
      var heard = [try await watchers[index].price()]
      while heard.count < 5 || index == 0 && (heard.last ?? 0) < goal {
        heard.append(try await watchers[index].price())
      }
      #expect(heard.allSatisfy { Rounds.product(of: $0) == product })
      #expect(heard == heard.sorted())
      ids.append(try #require(watchers[index].client.connectionId))
    }
    for watcher in slow {
      let now = rounds.price(of: product)
      var heard = [try await watcher.price()]
      while (heard.last ?? 0) < now { heard.append(try await watcher.price()) }
      // A backlog would be a hundred.
      #expect(heard.count < 20)
      for _ in 0..<3 { heard.append(try await watcher.price()) }
      #expect(heard.allSatisfy { Rounds.product(of: $0) == product })
      #expect(heard == heard.sorted())
      ids.append(try watcher.id())
    }
    // Some close, the others are let go.
    for watcher in watchers.prefix(4) { await watcher.close() }
    return ids
  }

  /// Expects what ends of connections that are under way bring about.
  private static func expectSoon(
    _ isReached: () throws -> Bool, sourceLocation: SourceLocation = #_sourceLocation
  ) async throws {
    let deadline = ContinuousClock.now + .seconds(240)
    while try !isReached(), ContinuousClock.now < deadline { try await Task.sleep(for: .milliseconds(5)) }
    #expect(try isReached(), sourceLocation: sourceLocation)
  }
}

/// Prices that tell their product and how often it was asked for.
private final class Rounds: Sendable {
  private let rounds = Lock<[String: Int]>([:])

  func nextPrice(of product: String) -> Int {
    rounds.withLock { $0[product, default: 0] += 1 }
    return price(of: product)
  }

  /// The price now.
  func price(of product: String) -> Int { (Int(product) ?? 0) * 1_000_000 + rounds.withLock { $0[product] ?? 0 } }

  static func product(of price: Int) -> String { String(price / 1_000_000) }
}

/// A watcher as programs have it.
private struct Watcher {
  let client: QuoteClient
  private var prices: AsyncThrowingStream<String, any Error>.Iterator

  init(_ server: QuoteServer, _ product: String) {
    client = QuoteClient(request: patient(server.url), handler: DefaultWebSocketHandler(logger: Silent()))
    prices = client.prices(of: product).makeAsyncIterator()
  }

  mutating func price() async throws -> Int { try #require(Int(try await prices.next() ?? "")) }

  func close() async { await withCheckedContinuation { done in client.close { done.resume() } } }
}

/// A watcher whose connection is not read before it asks.
private final class SlowWatcher: Sendable {
  private let handler: DefaultWebSocketHandler
  private let acknowledged = Lock<Int?>(nil)

  init(_ server: QuoteServer, _ product: String) async throws {
    var configuration = HandlerConfiguration()
    // Nothing is read any more once this little is kept.
    configuration.receiveBufferLimit = 200
    handler = DefaultWebSocketHandler(logger: Silent(), configuration: configuration)
    try await handler.connect(request: patient(server.url))
    let message = ClientMessage.subscribe(topic: Wire.topic(of: product))
    try await handler.send(message: WebSocketMessage.text(message.text))
  }

  func price() async throws -> Int {
    while true {
      switch ServerMessage(try await handler.receive(WebSocketMessage.self).data) {
      case .quote(_, let price): return try #require(Int(price))
      case .ack(let id): acknowledged.withLock { $0 = id }
      case .connected, .failed, .unknown: break
      }
    }
  }

  func id() throws -> Int { try #require(acknowledged.withLock { $0 }) }
}

/// How many descriptors are open, but for the timers that Dispatch opens when it first has to wait on a clock.
private func openDescriptors() throws -> Int {
  try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").count { name in
    // Nil for that of the directory itself, which is closed again.
    let target = try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/fd/\(name)")
    return target != nil && target != "anon_inode:[timerfd]"
  }
}
