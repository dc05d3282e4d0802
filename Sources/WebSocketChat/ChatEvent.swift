public import WebSocketHandling

/// What a ``ChatViewModel`` tells its owner.
public enum ChatEvent: Sendable, Hashable {
  /// The connection's state changed to this.
  case stateChanged(ChatState)
  /// Somebody wrote something.
  case message(ChatMessage)
  /// An attempt failed, the connection was lost, or something arrived that is no chat message.
  case problem(EngineError.WebSocketError)
  /// A message of one's own was not sent and will not be; its completion gets the same error.
  case messageDropped(ChatMessage, EngineError.WebSocketError)
  /// A message of one's own was given to a connection that then broke: the server may have it or not.
  ///
  /// Its completion gets the same error.
  case messageInDoubt(ChatMessage, EngineError.WebSocketError)

  /// The session's event as the chat tells it; nil where it keeps it to itself.
  init?(_ event: SessionEvent) {
    switch event {
    case .stateChanged(.held), .stateChanged(.idle): return nil
    case .stateChanged(let state): self = .stateChanged(ChatState(state))
    case .problem(let failure): self = .problem(failure)
    }
  }

  /// What became of a message; nil where it was sent.
  init?(_ message: ChatMessage, _ outcome: DeliveryOutcome) {
    switch outcome.result {
    case .success: return nil
    case .failure(let failure):
      if case .maybeDelivered = outcome {
        self = .messageInDoubt(message, failure)
      } else {
        self = .messageDropped(message, failure)
      }
    }
  }
}

/// What a ``ChatViewModel`` is doing.
public enum ChatState: Sendable, Hashable {
  /// Nothing yet.
  case idle
  /// Connecting, for the first time or again.
  case connecting
  /// Messages go to and fro.
  case connected
  /// The connection is gone or did not come about; the attempt of that number, from 1, follows after the delay.
  case waiting(attempt: Int, delay: Duration)
  /// Stopped, by ``ChatViewModel/disconnect(completion:)`` or because the policy said so after the last problem.
  case stopped

  init(_ state: SessionState) {
    switch state {
    case .idle, .held: self = .idle
    case .connecting: self = .connecting
    case .connected: self = .connected
    case .waiting(let attempt, let delay): self = .waiting(attempt: attempt, delay: delay)
    case .stopped: self = .stopped
    }
  }
}
