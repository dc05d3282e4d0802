import WebSocketHandling
import WebSocketTransport

/// The state of a ``ChatViewModel``: each input changes it and leaves effects, which the model performs in order.
struct ChatSession: Sendable {
  typealias Failure = EngineError.WebSocketError
  typealias Completion = ChatViewModel.Completion

  /// What the model has to do.
  enum Effect: Sendable {
    case event(ChatEvent)
    case answer(Completion, Result<Void, Failure>)
    case connect(generation: UInt64)
    case receive(generation: UInt64)
    case send(id: UInt64, ChatMessage)
    case disconnect
    case setTimer(generation: UInt64, Duration)
    case cancelTimer(@Sendable () -> Void)
  }

  private struct Outgoing: Sendable {
    /// Numbers rise in the order of the calls.
    let id: UInt64
    let message: ChatMessage
    let completion: Completion?
    /// The number of disconnects before it: a message does not outlive one.
    let epoch: UInt64
  }

  private struct InFlight: Sendable {
    let outgoing: Outgoing
    /// The connection that it was given to.
    let generation: UInt64
  }

  var machine: ReconnectMachine
  private(set) var shown = ChatState.idle
  private(set) var cancelTimer: (@Sendable () -> Void)?
  /// Changes with each attempt, loss and stop; answers that carry an older one are stale.
  private var generation: UInt64 = 0
  private var epoch: UInt64 = 0
  private var lastID: UInt64 = 0
  private var outbox: [Outgoing] = []
  private var inFlight: [UInt64: InFlight] = [:]
  /// Not nil while the handler closes: who wants to hear of it.
  private var closing: [Completion]?
  private var connectsAfterClosing = false
  /// Why the chat was stopped; nil before the first start and after each.
  private var stopReason: Failure?
  private var effects: [Effect] = []
  private var isDraining = false

  init(machine: ReconnectMachine) { self.machine = machine }

  /// The completions that nobody has answered, in the order of the calls.
  var unanswered: [Completion] {
    (inFlight.values.map(\.outgoing) + outbox).sorted { $0.id < $1.id }.compactMap(\.completion) + (closing ?? [])
  }

  // MARK: Effects

  /// Whether the caller has to see to the effects: there are some, and nobody does.
  mutating func beginDraining() -> Bool {
    guard !isDraining, !effects.isEmpty else { return false }
    isDraining = true
    return true
  }

  /// The effects that wait; nil, and the end of the draining, where there are none.
  mutating func takeEffects() -> [Effect]? {
    guard !effects.isEmpty else {
      isDraining = false
      return nil
    }
    defer { effects = [] }
    return effects
  }

  // MARK: The user's inputs

  mutating func start() {
    stopReason = nil
    apply(machine.start())
  }

  mutating func stop(completion: Completion?) {
    halt(failure: .cancelled, completion: completion)
  }

  mutating func send(_ message: ChatMessage, limit: Int, completion: Completion?) {
    lastID += 1
    let outgoing = Outgoing(id: lastID, message: message, completion: completion, epoch: epoch)
    if let stopReason {
      drop(outgoing, stopReason)
    } else if machine.isConnected, outbox.isEmpty {
      dispatch(outgoing)
    } else if outbox.count < limit {
      outbox.append(outgoing)
    } else {
      drop(outgoing, .limitExceeded(.sendQueue, size: outbox.count + 1, limit: limit))
    }
  }

  // MARK: The handler's answers

  mutating func connected(_ generation: UInt64, _ result: Result<Void, Failure>, now: Instant, randomBits: UInt64) {
    guard generation == self.generation else { return }
    switch result {
    case .success:
      apply(machine.connected(at: now))
      show(.connected)
      effects.append(.receive(generation: generation))
      flush()
    case .failure(let failure):
      effects.append(.event(.problem(failure)))
      let action = machine.attemptFailed(at: now, randomBits: randomBits)
      if failure.isPermanent {
        halt(failure: failure, completion: nil)
      } else {
        apply(action)
      }
    }
  }

  mutating func received(
    _ generation: UInt64, _ result: Result<ChatMessage, Failure>, now: Instant, randomBits: UInt64
  ) {
    guard generation == self.generation else { return }
    switch result {
    case .success(let message):
      effects += [.event(.message(message)), .receive(generation: generation)]
    case .failure(.undecodable(let message, let reason, let errorType)):
      let failure = Failure.undecodable(message, reason: reason, errorType: errorType)
      effects += [.event(.problem(failure)), .receive(generation: generation)]
    case .failure(let failure):
      effects.append(.event(.problem(failure)))
      // A handler that does not say that the connection is closed may still hold one.
      if !failure.isClosed { close() }
      apply(machine.lost(at: now, randomBits: randomBits))
    }
  }

  mutating func sent(_ id: UInt64, _ result: Result<Void, Failure>) {
    guard let entry = inFlight.removeValue(forKey: id) else { return }
    let outgoing = entry.outgoing
    switch result {
    case .success:
      if let completion = outgoing.completion { effects.append(.answer(completion, .success(()))) }
    case .failure(let failure):
      guard failure.provesNothingWasWritten, outgoing.epoch == epoch else { return drop(outgoing, failure) }
      outbox.insert(outgoing, at: outbox.firstIndex { $0.id > id } ?? outbox.endIndex)
      // Refused by this connection, the message waits for the receive loop to end: a handler that refuses everything
      // would otherwise be asked without pause.
      if machine.isConnected, entry.generation != generation { flush() }
    }
  }

  mutating func disconnected(_ result: Result<Void, Failure>) {
    guard let waiting = closing else { return }
    closing = nil
    effects += waiting.map { .answer($0, result) }
    if connectsAfterClosing {
      connectsAfterClosing = false
      effects.append(.connect(generation: generation))
    }
  }

  mutating func timerFired(_ generation: UInt64) {
    guard generation == self.generation else { return }
    apply(machine.timerFired())
  }

  /// Keeps what cancels the timer; false where the timer is no longer wanted.
  mutating func keepTimer(_ generation: UInt64, _ cancel: @escaping @Sendable () -> Void) -> Bool {
    guard generation == self.generation else { return false }
    cancelTimer = cancel
    return true
  }

  // MARK: Steps

  private mutating func apply(_ action: ReconnectMachine.Action) {
    switch action {
    case .none:
      break
    case .connect:
      forgetTimer()
      generation += 1
      show(.connecting)
      if closing == nil {
        effects.append(.connect(generation: generation))
      } else {
        connectsAfterClosing = true
      }
    case .wait(let delay, let attempt):
      generation += 1
      show(.waiting(attempt: attempt, delay: delay))
      effects.append(.setTimer(generation: generation, delay))
    case .cancelTimer:
      forgetTimer()
      generation += 1
    case .disconnect:
      generation += 1
      // An attempt that waits for the close has not reached the handler.
      if !connectsAfterClosing { close() }
      connectsAfterClosing = false
    }
  }

  private mutating func halt(failure: Failure, completion: Completion?) {
    let wasStopped = machine.isStopped
    let action = machine.stop()
    epoch += 1
    apply(action)
    if !wasStopped {
      stopReason = failure
      show(.stopped)
    }
    for outgoing in outbox { drop(outgoing, failure) }
    outbox = []
    guard let completion else { return }
    if closing == nil {
      effects.append(.answer(completion, .success(())))
    } else {
      closing?.append(completion)
    }
  }

  private mutating func close() {
    guard closing == nil else { return }
    closing = []
    effects.append(.disconnect)
  }

  private mutating func flush() {
    let waiting = outbox
    outbox = []
    for outgoing in waiting { dispatch(outgoing) }
  }

  private mutating func dispatch(_ outgoing: Outgoing) {
    inFlight[outgoing.id] = InFlight(outgoing: outgoing, generation: generation)
    effects.append(.send(id: outgoing.id, outgoing.message))
  }

  private mutating func drop(_ outgoing: Outgoing, _ failure: Failure) {
    effects.append(.event(.messageDropped(outgoing.message, failure)))
    if let completion = outgoing.completion { effects.append(.answer(completion, .failure(failure))) }
  }

  private mutating func forgetTimer() {
    if let cancelTimer { effects.append(.cancelTimer(cancelTimer)) }
    cancelTimer = nil
  }

  private mutating func show(_ state: ChatState) {
    guard state != shown else { return }
    shown = state
    effects.append(.event(.stateChanged(state)))
  }
}

extension EngineError.WebSocketError {
  /// Whether the handler refused a message before it wrote a byte of it, so that sending it again cannot double it.
  fileprivate var provesNothingWasWritten: Bool {
    switch self {
    case .messageSendFailed, .closing: true
    case .connectionFailed, .messageReceiveFailed, .invalidRequest, .resolutionFailed, .unreachable,
      .handshakeRefused, .handshakeFailed, .closed, .timedOut, .cancelled, .tls, .limitExceeded, .undecodable,
      .unencodable, .proxy, .misuse, .unsupported:
      false
    }
  }

  /// Whether another attempt with the same request must fail as well.
  fileprivate var isPermanent: Bool {
    switch self {
    case .invalidRequest, .misuse, .unsupported: true
    case .connectionFailed, .messageSendFailed, .messageReceiveFailed, .resolutionFailed, .unreachable,
      .handshakeRefused, .handshakeFailed, .closed, .closing, .timedOut, .cancelled, .tls, .limitExceeded,
      .undecodable, .unencodable, .proxy:
      false
    }
  }

  /// Whether the error says that the connection has ended.
  fileprivate var isClosed: Bool {
    if case .closed = self { true } else { false }
  }
}
