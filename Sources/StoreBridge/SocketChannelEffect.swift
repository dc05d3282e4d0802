public import Dispatch
public import WebSocketTransport

/// An effect that turns the messages of a socket into actions of a store.
///
/// Messages go through the output mapping, and in batches through the action mapping; a batch's actions are dispatched
/// together. Nothing is dropped and the order is kept. A batch is dispatched early where something else happens, such as
/// the end, so that its actions come first. When the store is slow the sender is held back, and what waits for the store
/// is bounded.
///
/// Builder, mappings, `signal` and the store's port are called on one serial queue.
public struct SocketChannelEffect<
  Source: MessageSource, OutputMapper: OutputMapping, ActionMapper: ActionMapping
>: StoreEffect where OutputMapper.Message == Source.Message, ActionMapper.Output == OutputMapper.Output {
  /// The store's state.
  public typealias State = ActionMapper.State
  /// The store's actions.
  public typealias Action = ActionMapper.Action

  let store: StorePort<State, Action>
  let queue: DispatchQueue?
  let channelBuilder: @Sendable () throws -> Source?
  let outputMapper: OutputMapper
  let actionMapper: ActionMapper
  let batching: Batching
  let waitingLimit: Int
  let environment: Environment
  let signal: @Sendable (BridgeSignal<Source.Message>) -> [Action]

  /// An effect.
  ///
  /// - Parameters:
  ///   - store: takes the actions.
  ///   - queue: what the effect's serial queue runs on. Default: a thread of the system's pool.
  ///   - channelBuilder: makes the source, when the effect starts; nil or an error: there is none, which is a signal.
  ///   - outputMapper: makes values of messages.
  ///   - actionMapper: makes actions of values, with the state.
  ///   - batching: how many values at once. Default: those of 200 ms, at most 1,000.
  ///   - waitingLimit: the most that waits for the store, in bytes: payload plus 64 for each message. When as much waits
  ///     the batch is dispatched early, and the source is not asked for more; the message that reaches the limit may
  ///     pass it. Default: 1 MiB, what a fast local network delivers in about ten milliseconds.
  ///   - environment: clock and timers; tests bring a manual one.
  ///   - signal: the actions for everything that is not a message.
  public init(
    store: StorePort<State, Action>, queue: DispatchQueue? = nil,
    channelBuilder: @escaping @Sendable () throws -> Source?, outputMapper: OutputMapper, actionMapper: ActionMapper,
    batching: Batching = .window(.milliseconds(200)), waitingLimit: Int = 1 << 20, environment: Environment = .system,
    signal: @escaping @Sendable (BridgeSignal<Source.Message>) -> [Action]
  ) {
    self.store = store
    self.queue = queue
    self.channelBuilder = channelBuilder
    self.outputMapper = outputMapper
    self.actionMapper = actionMapper
    self.batching = batching
    self.waitingLimit = max(1, waitingLimit)
    self.environment = environment
    self.signal = signal
  }

  /// Builds the channel, on the queue, and begins.
  public func start(onEnd: @escaping @Sendable () -> Void) -> @Sendable () -> Void {
    let run = SocketChannelRun(self, onEnd: onEnd)
    run.start()
    return { run.cancel() }
  }
}
