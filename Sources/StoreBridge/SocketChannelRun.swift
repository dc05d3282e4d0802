import WebSocketTransport

/// One run of a ``SocketChannelEffect``: it moves what arrives to the queue, and batches from there to the store.
final class SocketChannelRun<
  Source: MessageSource, OutputMapper: OutputMapping, ActionMapper: ActionMapping
>: Sendable where OutputMapper.Message == Source.Message, ActionMapper.Output == OutputMapper.Output {
  typealias Effect = SocketChannelEffect<Source, OutputMapper, ActionMapper>
  typealias Message = Source.Message
  typealias Action = ActionMapper.Action

  private enum Arrival: Sendable {
    case message(Message, cost: Int)
    case signal(BridgeSignal<Message>)
  }

  /// What a batch is made of.
  private enum Item: Sendable {
    case output(OutputMapper.Output)
    case undecodable(Message, any Error)
  }

  private struct State: Sendable {
    var isOver = false
    var source: Source?
    var arrivals: [Arrival] = []
    /// What the messages cost that have arrived and that the store has not taken: arrivals, and the batch behind them.
    var waiting = 0
    /// Asks the source for the next message, where it waits for that.
    var next: (@Sendable () -> Void)?
    /// Whether the queue has been told of arrivals that it has not taken.
    var isTold = false
    var timer: (handle: LoopTimer, deadline: Instant)?

    /// Whether the queue must be told.
    mutating func add(_ arrival: Arrival) -> Bool {
      guard !isOver else { return false }
      arrivals.append(arrival)
      defer { isTold = true }
      return !isTold
    }
  }

  /// The most messages that wait for the queue, however small; further ones wait in the source.
  private let maximumArrivals = 256

  private let effect: Effect
  private let loop: any EventLoop
  private let executor: any CallbackExecutor
  private let onEnd: @Sendable () -> Void
  private let state = Lock(State())
  /// Used on the queue alone.
  private let batcher: Lock<Batcher<Item>>

  init(_ effect: Effect, onEnd: @escaping @Sendable () -> Void) {
    self.effect = effect
    self.onEnd = onEnd
    loop = effect.environment.makeLoop()
    executor = effect.environment.callbackExecutor ?? QueueExecutor(target: effect.queue)
    batcher = Lock(Batcher(effect.batching, limit: effect.waitingLimit))
  }

  func start() { executor.execute { self.build() } }

  /// Ends the run; what waits is discarded.
  func cancel() { over()?.cancel() }

  /// Nothing is dispatched from now on.
  ///
  /// - Returns: the source, where there is one to be cancelled.
  private func over() -> Source? {
    let loop = loop
    let (source, forgotten) = state.withLock { state in
      state.isOver = true
      if let timer = state.timer { loop.cancel(timer.handle) }
      state.timer = nil
      defer { (state.arrivals, state.next) = ([], nil) }
      return (state.source.take(), (state.arrivals, state.next))
    }
    // Let go outside the lock.
    _ = forgotten
    return source
  }

  // MARK: Arrivals

  private func build() {
    guard !state.withLock({ $0.isOver }) else { return }
    do {
      guard let source = try effect.channelBuilder() else { return end(with: .noChannel(nil)) }
      let isWanted = state.withLock { state in
        if !state.isOver { state.source = source }
        return !state.isOver
      }
      guard isWanted else { return }
      source.start(
        onMessage: { [self] message, next in arrived(message, next) },
        onSignal: { [self] signal in if state.withLock({ $0.add(.signal(signal)) }) { tellQueue() } })
      // It may have been cancelled before it was started.
      if state.withLock({ $0.isOver }) { source.cancel() }
    } catch {
      end(with: .noChannel(error))
    }
  }

  /// Takes a message of the source's, which is not captured: it may keep its closures, and with them itself.
  private func arrived(_ message: Message, _ next: @escaping @Sendable () -> Void) {
    guard let source = state.withLock({ $0.source }) else { return }
    let cost = source.cost(of: message)
    let mustTell = state.withLock { state in
      guard !state.isOver else { return false }
      state.waiting += cost
      state.next = next
      return state.add(.message(message, cost: cost))
    }
    if mustTell { tellQueue() }
    ask()
  }

  /// Asks the source for the next message, where it waits for that and there is room.
  private func ask() {
    let next = state.withLock { state -> (@Sendable () -> Void)? in
      guard state.arrivals.count < maximumArrivals, state.waiting < effect.waitingLimit else { return nil }
      return state.next.take()
    }
    next?()
  }

  private func tellQueue() { executor.execute { self.takeArrivals() } }

  // MARK: On the queue

  private func takeArrivals() {
    let arrivals = state.withLock { state in
      defer {
        state.arrivals = []
        state.isTold = false
      }
      return state.arrivals
    }
    let now = loop.now
    for arrival in arrivals {
      guard !state.withLock({ $0.isOver }) else { return }
      switch arrival {
      case .message(let message, let cost):
        guard let item = item(of: message) else {
          taken(cost)
          continue
        }
        if let batch = batcher.withLock({ $0.add(item, cost: cost, at: now) }) { dispatch(batch) }
      case .signal(let signal):
        flush()
        if signal.isLast { return end(with: signal) }
        dispatch(effect.signal(signal))
      }
    }
    ask()
    setTimer()
  }

  private func item(of message: Message) -> Item? {
    do { return try effect.outputMapper.map(from: message).map(Item.output) } catch {
      return .undecodable(message, error)
    }
  }

  private func flush() {
    if let batch = batcher.withLock({ $0.take() }) { dispatch(batch) }
  }

  private func timerFired() {
    state.withLock { $0.timer = nil }
    let now = loop.now
    if let batch = batcher.withLock({ $0.takeDue(at: now) }) { dispatch(batch) }
    setTimer()
  }

  /// Has the batch that waits dispatched when its time has come.
  private func setTimer() {
    let deadline = batcher.withLock { $0.deadline }
    let loop = loop
    state.withLock { state in
      guard !state.isOver, state.timer?.deadline != deadline else { return }
      if let timer = state.timer { loop.cancel(timer.handle) }
      state.timer = deadline.map { deadline in
        let handle = loop.schedule(at: deadline) { [weak self] in
          guard let self else { return }
          executor.execute { self.timerFired() }
        }
        return (handle, deadline)
      }
    }
  }

  private func dispatch(_ batch: Batcher<Item>.Batch) {
    guard !state.withLock({ $0.isOver }) else { return }
    let actions = effect.store.withState { state in
      batch.items.flatMap { item in
        switch item {
        case .output(let output): effect.actionMapper.actions(from: output, state: state)
        case .undecodable(let message, let error): effect.signal(.undecodable(message, error))
        }
      }
    }
    dispatch(actions)
    taken(batch.cost)
  }

  /// Messages that cost as much wait no more.
  private func taken(_ cost: Int) { state.withLock { $0.waiting -= cost } }

  private func dispatch(_ actions: [Action]) {
    guard !actions.isEmpty, !state.withLock({ $0.isOver }) else { return }
    effect.store.dispatch(actions)
  }

  /// The last signal; the id is free by then, so that its actions may run the effect again.
  private func end(with signal: BridgeSignal<Message>) {
    guard !state.withLock({ $0.isOver }) else { return }
    _ = over()
    onEnd()
    let actions = effect.signal(signal)
    if !actions.isEmpty { effect.store.dispatch(actions) }
  }
}
