/// Where a connection stands after its opening handshake (RFC 6455 §7.1).
///
/// | state | bytes from the peer | `close` | peer's Close | violation | end of TCP, time-out |
/// | --- | --- | --- | --- | --- | --- |
/// | open | read | closing, Close sent | closed, echo sent | failing, Close sent | ended, 1006 |
/// | closing | read | nothing | closed | failing | ended, 1006 |
/// | closed | discarded | nothing | - | - | ended, clean |
/// | failing | discarded | nothing | - | - | ended, not clean |
/// | ended | discarded | nothing | - | - | nothing |
package enum ConnectionState: Sendable, Hashable {
  /// Messages pass both ways.
  case open
  /// This endpoint sent Close and waits for the peer's.
  case closing
  /// Both Close frames have passed; TCP has still to end. The record lacks only how.
  case closed(CloseRecord)
  /// The peer broke the protocol; TCP has still to end.
  case failing(CloseRecord)
  /// TCP has ended.
  case ended(CloseRecord)

  /// Whether data and ping frames may be sent (RFC 6455 §5.5.1: nothing after Close).
  package var canSend: Bool {
    if case .open = self { true } else { false }
  }

  /// Whether bytes of the peer's still mean something.
  package var canReceive: Bool {
    switch self {
    case .open, .closing: true
    case .closed, .failing, .ended: false
    }
  }
}
