/// What a ``ReconnectingSession`` is doing.
public enum SessionState: Sendable, Hashable {
  /// Not yet started.
  case idle
  /// Started, and the gate is closed.
  case held
  /// The request provider was asked, or an attempt is under way.
  case connecting
  /// There is a connection.
  case connected
  /// It connects again after that delay; `attempt` counts the failures in a row that led here, from 1.
  case waiting(attempt: Int, delay: Duration)
  /// It connects no more; a start begins anew.
  case stopped(StopReason)
}

/// What a ``ReconnectingSession`` tells.
public enum SessionEvent: Sendable, Hashable {
  /// The session does something else now; `stopped` is the last event of a start.
  case stateChanged(SessionState)
  /// An attempt, a connection or the request provider failed; what follows from it comes next.
  case problem(EngineError.WebSocketError)
}
