import ActionCable
import Foundation
import Glibc
import StoreBridge
import Testing
import WebSocketTesting
import WebSocketTransport
import TestSupport

private struct Numbered: Decodable {
  var number: Int
}

private struct NumberedMapper: OutputMapping {
  func map(from message: CableMessage) throws -> Int? { try message.decode(Numbered.self).number }
}

private typealias Effect = SocketChannelEffect<SubscriptionSource, NumberedMapper, NumberActionMapper>

@Suite("A flood over Action Cable", .timeLimit(.minutes(5)))
struct CableFlowTests {
  /// A million by hand, in a release build.
  private static let count = ProcessInfo.processInfo.environment["CABLE_MESSAGES"].flatMap(Int.init) ?? 20_000
  /// What a process may need beside the limits of the server, the connection, the subscription and the bridge.
  private static let slack = 12 << 20

  @Test func `all are dispatched in order, a batch at a time, and memory stays within the limits`() async {
    await #expect(processExitsWith: .success) {
      let count = Self.count
      let server = try Self.server(sending: count)
      let memory = Lock((first: 0, most: 0))
      let store = CountingStore(expecting: count) { _ in
        let now = residentBytes()
        memory.withLock { memory in
          if memory.first == 0 { memory.first = now }
          memory.most = max(memory.most, now)
        }
      }
      let client = ActionCableClient(
        url: server.url, staleAfter: nil, configuration: .patient, logger: SilentLogger())
      let runner = EffectRunner<Int>()
      runner.run(try Self.effect(store, client), cancellation: 1)
      try await client.connect()
      await store.waitForEnd()
      let counts = store.counts
      guard counts.numbers == count, counts.isInOrder, counts.reads == counts.batches, counts.largestBatch <= 1_000,
        counts.others == 0
      else { fatalError("\(counts)") }
      let grown = memory.withLock { $0.most - $0.first }
      // A sanitizer keeps books of its own.
      let isCounted = ProcessInfo.processInfo.environment["SANITIZER"] == nil
      guard grown < (3 << 20) + Self.slack || !isCounted else { fatalError("\(grown) bytes more are resident") }
      await client.shutdown()
    }
  }

  @Test func `of large messages no more wait than the limits say, and none is lost`() async throws {
    let (count, length) = (300, 64 << 10)
    // Each end of the bridge keeps 1 MiB: what the store has not taken, and what the bridge has not.
    let limit = 2 * (1 << 20) / length
    let server = try Self.server(sending: count, padding: String(repeating: "x", count: length))
    let client = ActionCableClient(
      url: server.url, staleAfter: nil, configuration: .patient, logger: SilentLogger())
    let waiting = Lock(0)
    let store = CountingStore(expecting: count) { taken in
      // The store does not go on until no more comes.
      if taken == 0 {
        let arrived = settled(above: limit / 2) { Int(client.counters.messages) }
        waiting.withLock { $0 = arrived }
      }
    }
    let runner = EffectRunner<Int>()
    runner.run(try Self.effect(store, client), cancellation: 1)
    try await client.connect()
    await store.waitForEnd()
    let counts = store.counts
    #expect(counts.numbers == count)
    #expect(counts.isInOrder)
    #expect(counts.reads == counts.batches)
    #expect(counts.others == 0)
    // One end is full, the other more than half full, or else it would be read on.
    #expect((limit / 2 + 1...limit).contains(waiting.withLock { $0 }))
    await client.shutdown()
  }

  private static func effect(_ store: CountingStore, _ client: ActionCableClient) throws -> Effect {
    let identifier = try ChannelIdentifier("Numbers")
    return Effect(
      store: store.port, channelBuilder: { SubscriptionSource(client, to: identifier) },
      outputMapper: NumberedMapper(), actionMapper: NumberActionMapper(), batching: .window(.milliseconds(20)),
      signal: signal)
  }

  /// A server whose channel sends so many numbers as fast as they are taken.
  private static func server(sending count: Int, padding: String = "") throws -> CableLoopbackServer {
    try CableLoopbackServer(channels: ["Numbers": { send(from: 0, to: count, padding, over: $0) }])
  }

  /// Some at a time, so that the server's queue does not grow.
  private static func send(from first: Int, to count: Int, _ padding: String, over channel: LoopbackChannel) {
    guard first < count else { return }
    let last = min(first + (padding.isEmpty ? 1_000 : 10), count) - 1
    for number in first...last {
      channel.transmit(json: "{\"number\":\(number),\"padding\":\"\(padding)\"}") { [weak channel] result in
        if number == last, let channel, case .success = result {
          send(from: last + 1, to: count, padding, over: channel)
        }
      }
    }
  }
}

/// Waits until a count that only grows has passed a value and stands still for 200 ms; for four minutes at most.
private func settled(above least: Int, _ count: () -> Int) -> Int {
  let deadline = ContinuousClock.now + .seconds(240)
  var (last, looks) = (count(), 0)
  while last <= least || looks < 20, ContinuousClock.now < deadline {
    usleep(10_000)
    let now = count()
    looks = now == last ? looks + 1 : 0
    last = now
  }
  return last
}

/// The memory of this process that is in use.
private func residentBytes() -> Int {
  let fields = (try? String(contentsOfFile: "/proc/self/statm", encoding: .utf8))?.split(separator: " ") ?? []
  return fields.count > 1 ? (Int(fields[1]) ?? 0) * Int(getpagesize()) : 0
}
