import Foundation
import Glibc
import WebSocketHandling

/// One connection to an echo server that sends a workload and checks each echo.
protocol EchoConnection: Sendable {
  /// Echoes that have come.
  var received: Int { get }
  func connect(_ request: NetworkRequest, completion: @escaping @Sendable () -> Void)
  /// Sends all and awaits all.
  func start()
  /// Ends the connection; completes when it is closed.
  func close(completion: @escaping @Sendable () -> Void)
  /// Fails with the reason why nothing comes any more.
  func explainSilence()
}

/// Hears how a connection gets on, on whatever thread that is told on.
struct EchoObserver: Sendable {
  /// Measuring begins: the warm-up, if any, is over.
  var began: @Sendable () -> Void
  /// All echoes are there; nanoseconds of each measured trip, none where trips overlap.
  var ended: @Sendable ([Int64]) -> Void
  var failed: @Sendable (String) -> Void
}

/// What one connection sends, and how much of it.
struct EchoWorkload: Sendable {
  enum Body: Sendable {
    case message(WebSocketMessage)
    case note(BenchNote)
  }

  let body: Body
  /// How many messages are measured.
  let messages: Int
  /// How many messages go before those, unmeasured.
  let warmUp: Int
  /// How many messages are on their way at once.
  let inFlight: Int
  /// The payload of a message; empty for JSON.
  let payload: [UInt8]
  /// Text or binary.
  let kind: MessageKind

  init(_ body: Body, messages: Int, warmUp: Int = 0, inFlight: Int = 1) {
    self.body = body
    self.messages = messages
    self.warmUp = warmUp
    self.inFlight = inFlight
    switch body {
    case .message(let message): (kind, payload) = (message.kind, [UInt8](message.data))
    case .note: (kind, payload) = (.text, [])
    }
  }

  var total: Int { warmUp + messages }

  /// Whether the time of each trip is worth keeping.
  var isPingPong: Bool { inFlight == 1 }

  /// Up to this length every echo is compared; of longer ones each sixteenth, so that comparing is not what is measured.
  private static let comparedBytes = 4096

  /// Whether the content of the echo with that number is to be compared, and not its length alone.
  func comparesEcho(_ number: Int) -> Bool { payload.count <= Self.comparedBytes || number.isMultiple(of: 16) }

  /// Whether the message is that echo.
  func isEcho(_ message: WebSocketMessage, _ number: Int) -> Bool {
    switch message {
    case .text(let text):
      guard kind == .text, text.utf8.count == payload.count else { return false }
      return !comparesEcho(number)
        || text.utf8.withContiguousStorageIfAvailable { isPayload(UnsafeRawBufferPointer($0)) } == true
    case .binary(let data):
      guard kind == .binary, data.count == payload.count else { return false }
      return !comparesEcho(number) || data.withUnsafeBytes { isPayload($0) }
    }
  }

  /// Whether a note is the one that was sent.
  func isBody(_ note: BenchNote) -> Bool {
    if case .note(note) = body { true } else { false }
  }

  /// Whether the bytes are the payload.
  func isPayload(_ bytes: UnsafeRawBufferPointer) -> Bool {
    payload.withUnsafeBytes { expected in
      guard bytes.count == expected.count, let left = bytes.baseAddress, let right = expected.baseAddress else {
        return bytes.count == expected.count
      }
      return memcmp(left, right, expected.count) == 0
    }
  }
}
