public import WebSocketHandling

/// What a ``ChatViewModel`` tells its owner.
public enum ChatEvent: Sendable, Hashable {
  /// The connection's state changed to this.
  case stateChanged(ChatState)
  /// Somebody wrote something.
  case message(ChatMessage)
  /// An attempt failed, the connection was lost, or something arrived that is no chat message.
  case problem(EngineError.WebSocketError)
  /// A message of one's own will not be sent any more; its completion gets the same error.
  case messageDropped(ChatMessage, EngineError.WebSocketError)
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
  /// Stopped, by ``ChatViewModel/disconnect(completion:)`` or because the request can never succeed.
  case stopped
}
