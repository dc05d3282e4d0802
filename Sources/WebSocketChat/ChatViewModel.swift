public import WebSocketHandling
public import WebSocketTransport

/// A chat that stays connected by itself, on any ``WebSocketHandler``.
///
/// After a loss, whatever its reason, and after a failed attempt it connects again on the schedule of its ``Backoff``,
/// until ``disconnect(completion:)``. Only a request that can never succeed (``EngineError/WebSocketError``'s
/// `invalidRequest`, `misuse` and `unsupported`) stops it at once.
///
/// Each message is sent at most once. One that the handler refused before it wrote anything (`closing`,
/// `messageSendFailed`) is kept, in its place, for the next connection. Any other error leaves open whether the server
/// has the message, so its completion gets the error, and sending again is the caller's choice.
///
/// Every method may be called from any thread. Events and completions come on one serial queue of the model's own, in
/// order, never before the method that caused them returns, and each completion exactly once. A model that is released
/// closes its connection, and messages without an answer fail as `cancelled`.
public final class ChatViewModel: Sendable {
  /// What hears how an operation ended.
  public typealias Completion = @Sendable (Result<Void, EngineError.WebSocketError>) -> Void

  private let webSocketHandler: any WebSocketHandler
  private let request: NetworkRequest
  private let sender: String
  private let outboxLimit: Int
  private let timing: ChatTiming
  private let onEvent: @Sendable (ChatEvent) -> Void
  private let callbacks: any CallbackExecutor
  private let state: Lock<ChatSession>

  /// A chat that is not yet connected; ``connectToChat()`` is next.
  ///
  /// - Parameters:
  ///   - webSocketHandler: the connection; nobody else may use it.
  ///   - request: the server. Unless it brings a keepalive of its own, pings go out each 20 s and a dead connection is
  ///     given up 20 s later, where the handler honours that.
  ///   - sender: the name under which messages go out. Default: `User`.
  ///   - backoff: the waits before connecting again.
  ///   - outboxLimit: the most messages that wait for a connection. Default: 100, more than a person writes meanwhile.
  ///   - environment: clock, timers and chance; tests bring the handler's own.
  ///   - onEvent: hears what happens, on the model's queue. Capture the owner weakly.
  public convenience init(
    webSocketHandler: any WebSocketHandler, request: NetworkRequest, sender: String = "User",
    backoff: Backoff = Backoff(), outboxLimit: Int = 100, environment: Environment = .system,
    onEvent: @escaping @Sendable (ChatEvent) -> Void = { _ in }
  ) {
    self.init(
      webSocketHandler: webSocketHandler, request: request, sender: sender, backoff: backoff,
      outboxLimit: outboxLimit, timing: ChatTiming(environment), callbacks: environment.callbackExecutor,
      onEvent: onEvent)
  }

  /// - Parameter callbacks: where events and completions run; nil: on a serial queue.

  package init(
    webSocketHandler: any WebSocketHandler, request: NetworkRequest, sender: String = "User",
    backoff: Backoff = Backoff(), outboxLimit: Int = 100, timing: ChatTiming,
    callbacks: (any CallbackExecutor)? = nil, onEvent: @escaping @Sendable (ChatEvent) -> Void = { _ in }
  ) {
    self.webSocketHandler = webSocketHandler
    self.request = Self.watched(request)
    self.sender = sender
    self.outboxLimit = max(0, outboxLimit)
    self.timing = timing
    self.callbacks = callbacks ?? QueueExecutor(target: nil)
    self.onEvent = onEvent
    state = Lock(ChatSession(machine: ReconnectMachine(backoff: backoff)))
  }

  /// The request, with pings that find a dead connection unless it brings its own.
  private static func watched(_ request: NetworkRequest) -> NetworkRequest {
    var request = request
    if request.keepalive == nil { request.keepalive = Keepalive() }
    return request
  }

  deinit {
    // While effects wait, their drain holds the model: here none are left.
    let (isActive, cancelTimer, completions) = state.withLock { state in
      (!state.machine.isStopped, state.cancelTimer, state.unanswered)
    }
    let handler = webSocketHandler
    callbacks.execute {
      cancelTimer?()
      if isActive { handler.disconnect { _ in } }
      for completion in completions { completion(.failure(.cancelled)) }
    }
  }

  /// What the model is doing.
  public var currentState: ChatState { state.withLock { $0.shown } }

  /// Connects, and stays connected until ``disconnect(completion:)``.
  ///
  /// While it waits to connect again, this ends the wait; while it connects or is connected, it does nothing.
  public func connectToChat() {
    update { $0.start() }
  }

  /// Sends a line, at once or when there is a connection.
  ///
  /// Before the first ``connectToChat()`` a line waits too; once the chat is stopped, it fails with the reason.
  ///
  /// - Parameters:
  ///   - content: the line.
  ///   - completion: hears when the line was sent, or why it never will be: `limitExceeded(.sendQueue, …)` where as
  ///     many lines as are allowed wait, `cancelled` after ``disconnect(completion:)``, or the handler's error.
  public func sendMessage(_ content: String, completion: Completion? = nil) {
    let message = ChatMessage(sender: sender, content: content)
    update { $0.send(message, limit: outboxLimit, completion: completion) }
  }

  /// Closes the connection and stops connecting again.
  ///
  /// ``connectToChat()`` starts anew.
  ///
  /// - Parameter completion: hears the handler's answer; success where there was nothing to close.
  public func disconnect(completion: Completion? = nil) {
    update { $0.stop(completion: completion) }
  }

  // MARK: The driver

  /// Changes the state, alone, and has what follows from it done on the queue.
  private func update(_ change: (inout ChatSession) -> Void) {
    let mustDrain = state.withLock { state in
      change(&state)
      return state.beginDraining()
    }
    if mustDrain { callbacks.execute { self.drain() } }
  }

  private func drain() {
    while let effects = state.withLock({ $0.takeEffects() }) {
      for effect in effects { perform(effect) }
    }
  }

  private func perform(_ effect: ChatSession.Effect) {
    let (now, randomBits) = (timing.now, timing.randomBits)
    switch effect {
    case .event(let event):
      onEvent(event)
    case .answer(let completion, let result):
      completion(result)
    case .connect(let generation):
      webSocketHandler.connect(request: request) { [weak self] result in
        let (moment, bits) = (now(), randomBits())
        self?.update { $0.connected(generation, result, now: moment, randomBits: bits) }
      }
    case .receive(let generation):
      webSocketHandler.receive { [weak self] (result: Result<ChatMessage, EngineError.WebSocketError>) in
        let (moment, bits) = (now(), randomBits())
        self?.update { $0.received(generation, result, now: moment, randomBits: bits) }
      }
    case .send(let id, let message):
      webSocketHandler.send(message: message) { [weak self] result in
        self?.update { $0.sent(id, result) }
      }
    case .disconnect:
      webSocketHandler.disconnect { [weak self] result in
        self?.update { $0.disconnected(result) }
      }
    case .setTimer(let generation, let delay):
      let cancel = timing.schedule(delay) { [weak self] in
        self?.update { $0.timerFired(generation) }
      }
      let isWanted = state.withLock { $0.keepTimer(generation, cancel) }
      if !isWanted { cancel() }
    case .cancelTimer(let cancel):
      cancel()
    }
  }
}
