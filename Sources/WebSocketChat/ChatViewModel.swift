public import WebSocketHandling
public import WebSocketTransport

/// A chat that stays connected by itself, on any ``WebSocketHandler``.
///
/// It is a ``ReconnectingSession`` that loops over receives: after a loss and after a failed attempt it connects again
/// where its ``ReconnectPolicy`` says so, until ``disconnect(completion:)``. What a new attempt would only repeat stops
/// it: a close with 1000 or a code of the application's, refused credentials, a certificate that does not hold.
///
/// Lines wait for a connection, in order and within limits, and each is sent at most once. What became of it is told
/// honestly: its completion hears of success, or gets the error, and an event says whether the line was certainly not
/// sent (`messageDropped`) or may have been (`messageInDoubt`). Sending it again is the caller's choice.
///
/// Every method may be called from any thread. Events and completions come on one serial queue of the model's own, in
/// order, never before the method that caused them returns, and each completion exactly once. A model that is released
/// closes its connection, and messages without an answer fail as `cancelled`.
public final class ChatViewModel: Sendable {
  /// What hears how an operation ended.
  public typealias Completion = @Sendable (Result<Void, EngineError.WebSocketError>) -> Void

  private let session: ReconnectingSession
  private let request: NetworkRequest
  private let sender: String
  private let onEvent: @Sendable (ChatEvent) -> Void

  /// What may wait for a connection: 100 lines, more than a person writes meanwhile, for five minutes.
  public static let defaultOutbox = OutboxLimits(messages: 100, age: .seconds(300))

  /// A chat that is not yet connected; ``connectToChat()`` is next.
  ///
  /// - Parameters:
  ///   - webSocketHandler: the connection; nobody else may use it.
  ///   - request: the server. Unless it brings a keepalive of its own, pings go out each 20 s and a dead connection is
  ///     given up 20 s later, where the handler honours that.
  ///   - sender: the name under which messages go out. Default: `User`.
  ///   - policy: when to connect again, and when to stop.
  ///   - outbox: what may wait for a connection. Default: ``defaultOutbox``.
  ///   - logger: takes the log lines about messages that cannot be decoded.
  ///   - environment: clock, timers and chance; tests bring the handler's own.
  ///   - onEvent: hears what happens, on the model's queue. Capture the owner weakly.
  public init(
    webSocketHandler: any WebSocketHandler, request: NetworkRequest, sender: String = "User",
    policy: ReconnectPolicy = ReconnectPolicy(), outbox: OutboxLimits = ChatViewModel.defaultOutbox,
    logger: any Logger = DefaultLogger.shared, environment: Environment = .system,
    onEvent: @escaping @Sendable (ChatEvent) -> Void = { _ in }
  ) {
    self.request = request
    self.sender = sender
    self.onEvent = onEvent
    session = ReconnectingSession(
      webSocketHandler, policy: policy, outbox: outbox, logger: logger, environment: environment
    ) { event in
      if let event = ChatEvent(event) { onEvent(event) }
    }
    // Lines that are written before the chat connects wait at the gate.
    session.setGate(isOpen: false)
    session.connect(request: request, completion: receiveOnSuccess)
  }

  /// What the model is doing.
  public var currentState: ChatState { ChatState(session.currentState) }

  /// Connects, and stays connected until ``disconnect(completion:)``.
  ///
  /// While it waits to connect again, this ends the wait; while it connects or is connected, it does nothing.
  public func connectToChat() { session.connectNow(request: request, completion: receiveOnSuccess) }

  /// Sends a line, at once or when there is a connection.
  ///
  /// Before the first ``connectToChat()`` a line waits too; once the chat is stopped, it fails with the reason.
  ///
  /// - Parameters:
  ///   - content: the line.
  ///   - completion: hears when the line was sent, or why that is not certain: `limitExceeded(.sendQueue, …)` where as
  ///     many lines as are allowed wait, `timedOut(.outbox)` where it waited too long, `cancelled` after
  ///     ``disconnect(completion:)``, or how the connection broke that it was given to.
  public func sendMessage(_ content: String, completion: Completion? = nil) {
    let message = ChatMessage(sender: sender, content: content)
    session.send(message) { [onEvent] outcome in
      let outcome = outcome.ofChat
      if let event = ChatEvent(message, outcome) { onEvent(event) }
      completion?(outcome.result)
    }
  }

  /// Closes the connection and stops connecting again.
  ///
  /// ``connectToChat()`` starts anew.
  ///
  /// - Parameter completion: hears the handler's answer; success where there was nothing to close.
  public func disconnect(completion: Completion? = nil) { session.stop(completion: completion) }

  /// Begins the loop once for each start of the session; a call while it is started fails, and changes nothing.
  private var receiveOnSuccess: Completion {
    { [weak self] result in
      if case .success = result { self?.receive() }
    }
  }

  /// Loops over receives until the session stops.
  private func receive() {
    session.receive { [weak self] (result: Result<ChatMessage, EngineError.WebSocketError>) in
      guard let self else { return }
      switch result {
      case .success(let message): onEvent(.message(message))
      case .failure(let failure):
        guard case .undecodable = failure else { return }
        onEvent(.problem(failure))
      }
      receive()
    }
  }
}

extension DeliveryOutcome {
  /// The outcome, but a line that comes after the end was cancelled by the end.
  fileprivate var ofChat: DeliveryOutcome {
    // The session keeps what a handler refuses in this way: it says so itself, when it was stopped before.
    if case .dropped(.messageSendFailed) = self { .dropped(.cancelled) } else { self }
  }
}
