import Foundation
import WebSocketHandling

/// What `websocket bench` measures.
enum BenchScenario: String, CaseIterable {
  /// Ping-pong: one short text at a time.
  case s1
  /// Short texts, many in flight.
  case s2
  /// Binary messages of 64 KiB, some in flight.
  case s3a
  /// Binary messages of 1 MiB, some in flight.
  case s3b
  /// Connections that are opened one after the other and stay idle.
  case s4
  /// Ping-pong of a JSON message that is encoded and decoded on each trip.
  case s5

  /// What each connection sends and awaits; nil where nothing is sent.
  func workload(messages: Int?) -> EchoWorkload? {
    switch self {
    case .s1:
      EchoWorkload(
        .message(.text(String(repeating: "x", count: 32))), messages: messages ?? 20_000, warmUp: 1000)
    case .s2:
      EchoWorkload(
        .message(.text(String(decoding: Self.letters(125), as: UTF8.self))), messages: messages ?? 200_000,
        inFlight: 256)
    case .s3a:
      EchoWorkload(.message(.binary(Data(Self.letters(64 << 10)))), messages: messages ?? 4000, inFlight: 8)
    case .s3b:
      EchoWorkload(.message(.binary(Data(Self.letters(1 << 20)))), messages: messages ?? 300, inFlight: 8)
    case .s4: nil
    case .s5:
      EchoWorkload(
        .note(BenchNote(sender: "User", content: "Hello, everyone!")), messages: messages ?? 20_000,
        warmUp: 1000)
    }
  }

  private static func letters(_ count: Int) -> [UInt8] { (0..<count).map { UInt8(ascii: "a") + UInt8($0 % 26) } }
}

/// Where the callbacks run, or the async layer.
enum BenchMode: String, CaseIterable {
  /// Callbacks on the connection's event loop.
  case loop
  /// Callbacks on the handler's private queue.
  case queue
  /// One task that loops over `messages(of:)`.
  case async
}

/// By which part of the interface messages come and go.
enum BenchAPI: String, CaseIterable {
  /// `onMessage` on borrowed bytes, `send` without completion.
  case bytes
  /// `onMessage` with a `String` for each message, `send` without completion.
  case string
  /// The four methods of the protocol alone, through an existential: `receive` re-armed, `send` with a completion.
  case receive
}

/// The JSON message of ``BenchScenario/s5``.
struct BenchNote: Codable, Hashable, Sendable {
  var sender: String
  var content: String
}
