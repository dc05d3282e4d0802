public import Dispatch
import WebSocketHandling
public import WebSocketTransport

/// Keeps those channels open that a program desires, and no others.
///
/// A program says again and again which channels it wants, derived from its state (``reconcile(_:)``); the supervisor
/// finds out what that changes. It knows no store: give it what dispatches an action, and call ``reconcile(_:)`` after
/// each change of the state.
///
/// Every method may be called from any thread, also from inside a body, a handler or `dispatch`. Bodies, handlers and
/// `dispatch` run on one serial queue, in order, and never before the method that caused them returns. Where a channel
/// moves from one id to another, the old instance is cancelled before the new one opens. Each instance that was opened
/// is cancelled exactly once; once ``reconcile(_:)``, ``cancel(id:)`` or ``cancelAll()`` has given it up, it is given no
/// value and dispatches nothing, except what runs at that moment. Releasing the supervisor cancels every instance.
public final class ChannelSupervisor<Action: Sendable>: Sendable {
  private typealias Instance = SupervisorMachine.Instance

  /// One thing to do on the queue.
  private enum Work: Sendable {
    case open(Instance, Channel<Action>)
    case deliver(Instance, any Sendable, ValueOrigin)
    case cancel(Instance)
    case dispatch(Instance, Action, then: (@Sendable () -> Void)?)
    case tell(ChannelEnd)
  }

  private struct State: Sendable {
    var machine = SupervisorMachine()
    /// How to open the channels, as the caller said last.
    var channels: [Key: Channel<Action>] = [:]
    /// Let go outside the lock, since what a body captured may call the supervisor as it goes.
    var forgotten: [Channel<Action>] = []
    var work: [Work] = []
    var isDraining = false
    var timer: (handle: LoopTimer, deadline: Instant)?

    mutating func add(_ operations: [SupervisorMachine.Operation]) {
      for operation in operations {
        switch operation {
        case .open(let key, let instance): if let channel = channels[key] { work.append(.open(instance, channel)) }
        case .deliver(let instance, let value, let origin): work.append(.deliver(instance, value, origin))
        case .cancel(let instance): work.append(.cancel(instance))
        }
      }
    }

    /// Whether the caller has to see to the work: there is some, and nobody does.
    mutating func beginDraining() -> Bool {
      guard !isDraining, !work.isEmpty else { return false }
      isDraining = true
      return true
    }

    /// The work that waits; nil, and the end of the draining, where there is none.
    mutating func takeWork() -> [Work]? {
      isDraining = !work.isEmpty
      defer { work = [] }
      return isDraining ? work : nil
    }

    mutating func note(_ channel: Channel<Action>) {
      if let old = channels.updateValue(channel, forKey: channel.wish.key) { forgotten.append(old) }
    }

    /// Forgets how to open the channels that nobody wants any more.
    mutating func forgetUnknown() {
      guard channels.count != machine.count else { return }
      for key in channels.keys where !machine.knows(key) {
        if let old = channels.removeValue(forKey: key) { forgotten.append(old) }
      }
    }
  }

  private let environment: Environment
  private let loop: any EventLoop
  private let callbacks: any CallbackExecutor
  private let onEnd: @Sendable (ChannelEnd) -> Void
  private let dispatch: @Sendable (Action) -> Void
  private let state = Lock(State())
  /// The handlers of the open instances, used on the queue alone, but for the release.
  private let handlers = Lock<[Instance: AnyChannelHandler]>([:])

  /// A supervisor without channels.
  ///
  /// - Parameters:
  ///   - queue: what the supervisor's serial queue runs on. Default: a thread of the system's pool.
  ///   - environment: clock, timers and chance; tests bring a manual one.
  ///   - onEnd: hears of each instance that ended by itself, on the supervisor's queue.
  ///   - dispatch: takes the channels' actions, on the supervisor's queue. Capture the supervisor's owner weakly.
  public init(
    queue: DispatchQueue? = nil, environment: Environment = .system,
    onEnd: @escaping @Sendable (ChannelEnd) -> Void = { _ in }, dispatch: @escaping @Sendable (Action) -> Void
  ) {
    self.environment = environment
    loop = environment.makeLoop()
    callbacks = environment.callbackExecutor ?? QueueExecutor(target: queue)
    self.onEnd = onEnd
    self.dispatch = dispatch
  }

  deinit {
    // While there is work, its drain holds the supervisor: here none is left.
    if let timer = state.withLock({ $0.timer }) { loop.cancel(timer.handle) }
    let handlers = handlers.withLock { $0.sorted { $0.key < $1.key }.map(\.value) }
    guard !handlers.isEmpty else { return }
    callbacks.execute { for handler in handlers { handler.cancel() } }
  }

  // MARK: What the program wants

  /// Says which channels are desired now.
  ///
  /// A channel that was desired before and is missing is cancelled, a new one opens. One whose reset key has changed is
  /// cancelled and opens anew; otherwise it stays, and is given its value of the state where that has changed. The same
  /// set again does nothing. Of several with one id the last one counts. Channels that were opened by ``open(_:)`` and
  /// were never in a set are left alone.
  public func reconcile(_ desired: [Channel<Action>]) {
    update { state, now in
      for channel in desired { state.note(channel) }
      state.add(state.machine.reconcile(desired.map(\.wish), at: now))
      state.forgetUnknown()
    }
  }

  /// Opens a channel beside those of the set, or one of these that was cancelled.
  ///
  /// One that is open, or is about to open, stays unless its reset key has changed.
  public func open(_ channel: Channel<Action>) {
    update { state, now in
      state.note(channel)
      state.add(state.machine.open(channel.wish, at: now))
    }
  }

  /// Gives a value to a channel, whether or not it is the same as the last.
  ///
  /// - Parameters:
  ///   - value: what the channel's handler takes.
  ///   - id: the channel's.
  /// - Returns: what becomes of the value.
  @discardableResult
  public func broadcast(_ value: some Sendable, channel id: some Hashable & Sendable) -> BroadcastOutcome {
    update { state, now in
      let key = Key(id)
      if let channel = state.channels[key], state.machine.isOpen(key), !channel.accepts(value) { return .typeMismatch }
      let (outcome, operations) = state.machine.broadcast(value, to: key, at: now)
      state.add(operations)
      return outcome
    }
  }

  /// Closes a channel.
  ///
  /// One that is desired stays closed until its reset key changes, it has left the set and comes again, or it is opened
  /// by ``open(_:)``.
  public func cancel(id: some Hashable & Sendable) {
    update { state, _ in
      state.add(state.machine.cancel(Key(id)))
      state.forgetUnknown()
    }
  }

  /// Closes every channel, as ``cancel(id:)`` does.
  public func cancelAll() {
    update { state, _ in
      state.add(state.machine.cancelAll())
      state.forgetUnknown()
    }
  }

  // MARK: What happens

  private func ended(_ instance: Instance, _ error: (any Error)?) {
    let randomBits = environment.random.bytes(8).reduce(0) { $0 << 8 | UInt64($1) }
    update { state, now in
      guard let key = state.machine.key(of: instance) else { return }
      let (operations, delay) = state.machine.ended(instance, at: now, randomBits: randomBits)
      state.add(operations)
      state.work.append(.tell(ChannelEnd(id: key.value, error: error, restartAfter: delay)))
      state.forgetUnknown()
    }
  }

  private func dispatch(_ action: Action, of instance: Instance, then done: (@Sendable () -> Void)?) {
    let mustDrain = state.withLock { state in
      guard state.machine.isOpen(instance) else { return false }
      state.work.append(.dispatch(instance, action, then: done))
      return state.beginDraining()
    }
    if mustDrain { callbacks.execute { self.drain() } }
  }

  private func timerFired() {
    update { state, now in
      // Another one may have taken its place.
      if let timer = state.timer, timer.deadline <= now { state.timer = nil }
      state.add(state.machine.advance(to: now))
    }
  }

  /// Changes the state, alone, has what follows from it done on the queue, and sets the timer to what is due next.
  private func update<Result>(_ change: (inout State, Instant) -> Result) -> Result {
    let now = loop.now
    let loop = loop
    let (result, mustDrain, forgotten) = state.withLock { state in
      let result = change(&state, now)
      let deadline = state.machine.nextDeadline
      if deadline != state.timer?.deadline {
        if let timer = state.timer { loop.cancel(timer.handle) }
        state.timer = deadline.map { deadline in
          (loop.schedule(at: deadline) { [weak self] in self?.timerFired() }, deadline)
        }
      }
      defer { state.forgotten = [] }
      return (result, state.beginDraining(), state.forgotten)
    }
    _ = forgotten
    if mustDrain { callbacks.execute { self.drain() } }
    return result
  }

  // MARK: The queue

  private func drain() {
    while let work = state.withLock({ $0.takeWork() }) {
      for work in work { perform(work) }
    }
  }

  private func perform(_ work: Work) {
    switch work {
    case .open(let instance, let channel):
      guard isOpen(instance) else { return }
      let context = ChannelContext<Action>(
        perform: { [weak self] in self?.dispatch($0, of: instance, then: $1) },
        end: { [weak self] in self?.ended(instance, $0) })
      let handler = channel.open(context)
      handlers.withLock { $0[instance] = handler }
    case .deliver(let instance, let value, let origin):
      guard isOpen(instance), let handler = handlers.withLock({ $0[instance] }) else { return }
      handler.receive(value, origin)
    case .cancel(let instance):
      handlers.withLock { $0.removeValue(forKey: instance) }?.cancel()
    case .dispatch(let instance, let action, let done):
      guard isOpen(instance) else { return }
      dispatch(action)
      done?()
    case .tell(let end):
      onEnd(end)
    }
  }

  private func isOpen(_ instance: Instance) -> Bool { state.withLock { $0.machine.isOpen(instance) } }
}
