/// What happens to a source beside its messages, in order with them.
public enum BridgeSignal<Message: Sendable>: Sendable {
  /// Messages can come from now on; `reconnected` where that is so again.
  case connected(reconnected: Bool)
  /// The connection was lost.
  case disconnected(any Error, willReconnect: Bool)
  /// Messages may be missing: fetch what you need.
  case mayHaveMissed
  /// The server rejected the subscription; `ended` follows.
  case rejected
  /// The output mapping threw for this message; the stream goes on.
  case undecodable(Message, any Error)
  /// There is no channel: the builder returned nil, or threw. Nothing follows.
  case noChannel((any Error)?)
  /// Nothing more comes; nil after an end without a fault.
  case ended((any Error)?)
}

extension BridgeSignal {
  /// Whether nothing follows.
  var isLast: Bool {
    switch self {
    case .noChannel, .ended: true
    case .connected, .disconnected, .mayHaveMissed, .rejected, .undecodable: false
    }
  }
}
