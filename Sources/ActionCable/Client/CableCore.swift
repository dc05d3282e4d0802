import Foundation
import WebSocketHandling
import WebSocketTransport

/// Feeds the machine and performs what it says, in order, on the client's queue.
final class CableCore: Sendable {
  private struct Parts: Sendable {
    let session: ReconnectingSession
    let link: CableLink
  }

  private let url: URL
  let configuration: CableConfiguration
  private let loop: any EventLoop
  private let callbacks: any CallbackExecutor
  private let state: Lock<CableState>
  private let assembled = Lock<Parts?>(nil)
  /// Held from a change of what is wanted until the session knows of it: it hears of starts and stops in their order,
  /// whichever threads they come on.
  let wanting = Lock(())

  init(
    url: URL, headers: HTTPFields, _ configuration: CableConfiguration, handler: any WebSocketHandler,
    logger: any Logger, environment: Environment
  ) {
    self.url = url
    self.configuration = configuration
    loop = environment.makeLoop()
    callbacks = environment.callbackExecutor ?? QueueExecutor(target: nil)
    let machine = CableMachine(
      timing: configuration.timing, buffer: configuration.performBuffer,
      canRefresh: configuration.requestProvider != nil)
    state = Lock(CableState(machine: machine, headers: headers, coding: configuration.coding))
    let link = CableLink(handler, core: self)
    var policy = configuration.policy
    policy.rule = { [weak self] cause in self?.rule(cause) ?? .stop }
    let session = ReconnectingSession(
      link, policy: policy, outbox: OutboxLimits(messages: 131_072, bytes: 16 << 20),
      provider: RequestProvider { [weak self] _, completion in self?.provide(completion) }, logger: logger,
      environment: environment
    ) { [weak self] event in self?.sessionTold(event) }
    assembled.withLock { $0 = Parts(session: session, link: link) }
  }

  var session: ReconnectingSession? { assembled.withLock { $0?.session } }
  private var link: CableLink? { assembled.withLock { $0?.link } }

  // MARK: The state

  func read<Value>(_ body: (borrowing CableState) -> Value) -> Value { state.withLock { body($0) } }

  /// Changes the state, alone, and has what follows from it done on the queue.
  @discardableResult
  func update<Value>(_ change: (inout CableState, Instant) -> Value) -> Value {
    let now = loop.now
    let (value, mustDrain) = state.withLock { state in
      let value = change(&state, now)
      state.settle()
      state.readOn(at: now)
      return (value, state.beginDraining())
    }
    if mustDrain { callbacks.execute { self.drain() } }
    return value
  }

  private func drain() {
    while let effects = state.withLock({ [now = loop.now] in $0.takeEffects(at: now) }) {
      for effect in effects { perform(effect) }
    }
  }

  private func perform(_ effect: CableState.Effect) {
    switch effect {
    case .call(let body): body()
    case .deliver(let id): deliver(id)
    case .send(let text, let perform): send(text, perform)
    // Where the session has gone on meanwhile, the handler's connection is another one.
    case .ask(let attempt): if isCurrent(attempt) { link?.ask(attempt) }
    case .close(let attempt, let completion):
      if isCurrent(attempt) { link?.close(completion) } else { completion() }
    case .setTimer(let id, let deadline):
      let loop = loop
      let handle = loop.schedule(at: deadline) { [weak self] in
        self?.update { state, now in if state.timerIsDue(id) { state.machine.advance(to: now) } }
      }
      let isWanted = state.withLock { $0.keepTimer(id) { loop.cancel(handle) } }
      if !isWanted { loop.cancel(handle) }
    }
  }

  private func isCurrent(_ attempt: UInt64) -> Bool { read { $0.link.attempt == attempt } }

  private func deliver(_ id: UInt64) {
    let next = state.withLock { state in
      (onEvent: state.subscribers[id]?.onEvent, event: state.takeEvent(of: id), types: state.types)
    }
    guard let onEvent = next.onEvent, let event = next.event else { return }
    onEvent(next.types.resolved(event, configuration.coding))
  }

  private func send(_ text: String, _ perform: UInt64?) {
    session?.send(.text(text), delivery: .whenConnected) { [weak self] outcome in
      guard let perform, let self else { return }
      update { state, _ in
        guard let hearer = state.outcomes.removeValue(forKey: perform) else { return }
        state.call { hearer(PerformOutcome(outcome)) }
      }
    }
  }

  // MARK: The session

  /// The request of an attempt that begins now, before the provider sees it.
  var request: NetworkRequest { CableRequest(url: url, headers: read { $0.headers }, configuration).request }

  /// Makes the request of an attempt.
  private func provide(_ completion: @escaping RequestProvider.Completion) {
    // The attempt begins here, and may end here: what the last connection's end meant counts no more.
    update { state, _ in state.link.willRetry = nil }
    let request = request
    guard let provider = configuration.requestProvider else { return completion(.success(request)) }
    provider.provide(request, completion)
  }

  private func rule(_ cause: ReconnectCause) -> ReconnectDecision {
    if let willRetry = read({ $0.link.willRetry }) { return willRetry ? .retry() : .stop }
    var cause = cause
    if configuration.requestProvider == nil { cause.mayAskProvider = false }
    return configuration.policy.rule(cause)
  }

  private func sessionTold(_ event: SessionEvent) {
    switch event {
    case .problem(let failure): update { state, _ in state.machine.attemptFailed(.lost(failure)) }
    case .stateChanged(.stopped(.requested)): break
    case .stateChanged(.stopped(let reason)):
      wanting.withLock { _ in
        // A session that was started anew says so next.
        guard case .stopped = session?.currentState else { return }
        update { state, _ in state.stopped(reason) }
      }
    case .stateChanged(let new):
      update { state, _ in
        state.session = new
        switch new {
        case .held, .connecting, .waiting: state.machine.willReconnect()
        case .idle, .connected, .stopped: break
        }
      }
    }
  }
}

extension CableState {
  /// The session gave up.
  fileprivate mutating func stopped(_ reason: StopReason) {
    guard isStarted else { return }
    let cause: DisconnectCause
    switch reason {
    case .requested: cause = .requested
    case .gaveUp(let failures, let failure): cause = .gaveUp(failures: failures, failure)
    case .failed(let failure): cause = machine.lastCause == .requested ? .lost(failure) : machine.lastCause
    }
    stop(cause)
    session = .stopped(reason)
  }

  /// There is no connection any more, for this reason.
  mutating func stop(_ cause: DisconnectCause) {
    isStarted = false
    stopCause = cause
    session = .stopped(.requested)
    machine.stopped(cause)
    answerConnects(.failure(cause))
    forgetTimer()
  }
}

extension PerformOutcome {
  /// What became of a message that was given to the session.
  fileprivate init(_ outcome: DeliveryOutcome) {
    switch outcome {
    case .written, .acknowledged: self = .written
    case .expired: self = .expired
    case .dropped(.messageSendFailed), .dropped(.closing): self = .notConnected
    case .dropped(let failure): self = .refused(failure)
    case .maybeDelivered(let failure): self = .maybeDelivered(failure)
    }
  }
}
