import Foundation
import WebSocketTransport

/// Collects values from any thread.
final class Recorder<Value: Sendable>: Sendable {
  private let collected = Lock<[Value]>([])

  func append(_ value: Value) { collected.withLock { $0.append(value) } }

  var values: [Value] { collected.withLock { $0 } }
}
