import SupervisedChannels
import WebSocketHandling
import WebSocketTesting
import WebSocketTransport
import TestSupport

typealias Failure = EngineError.WebSocketError

/// What channels, and the supervisor about them, have said.
enum Said: Sendable, Hashable {
  case opened(String)
  case received(String, String)
  case broadcast(String, String)
  case cancelled(String)
  case action(String)
  case ended(String, restartAfter: Duration?)
}

/// A supervisor in a manual environment, and everything that its channels hear.
final class Bench: Sendable {
  typealias Context = ChannelContext<String>

  let manual: ManualEnvironment
  private let list = SharedList<Said>()
  private let supervisor: Lock<ChannelSupervisor<String>?>
  private let contexts = SharedList<(name: String, context: Context)>()
  /// What is done inside `dispatch`.
  private let onAction: Lock<@Sendable (Bench, String) -> Void>

  init(seed: UInt64 = 1, onAction: @escaping @Sendable (Bench, String) -> Void = { _, _ in }) {
    manual = ManualEnvironment(seed: seed)
    self.onAction = Lock(onAction)
    let me = Lock<Weak?>(nil)
    let list = list
    supervisor = Lock(
      ChannelSupervisor(
        environment: manual.environment,
        onEnd: { list.append(.ended("\($0.id)", restartAfter: $0.restartAfter)) },
        dispatch: { action in
          list.append(.action(action))
          if let bench = me.withLock({ $0 })?.bench { bench.onAction.withLock({ $0 })(bench, action) }
        }))
    me.withLock { $0 = Weak(bench: self) }
  }

  private struct Weak: Sendable {
    weak let bench: Bench?
  }

  func with<Result>(_ body: (ChannelSupervisor<String>) -> Result) -> Result {
    guard let supervisor = supervisor.withLock({ $0 }) else { preconditionFailure("it was released") }
    return body(supervisor)
  }

  func release() { _ = supervisor.withLock { $0.take() } }

  func say(_ said: Said) { list.append(said) }

  /// What was said since the last call, after everything that is due has happened.
  func take() -> [Said] {
    manual.settle()
    return list.take()
  }

  /// The same after a while.
  func take(after duration: Duration) -> [Said] {
    manual.advance(by: duration)
    return list.take()
  }

  func reconcile(_ channels: Channel<String>...) { with { $0.reconcile(channels) } }

  @discardableResult
  func broadcast(_ value: String, to id: String) -> BroadcastOutcome { with { $0.broadcast(value, channel: id) } }

  func cancel(_ id: String) { with { $0.cancel(id: id) } }

  /// What the newest instance of that name was given.
  func context(_ name: String) -> Context {
    guard let context = contexts.all.last(where: { $0.name == name })?.context else {
      preconditionFailure("\(name) was not opened")
    }
    return context
  }

  /// A channel that says all that happens to it under its name, by default its id with its key.
  func channel(
    _ id: String, key: String? = nil, settle: Duration? = nil, value: String? = nil, name: String? = nil,
    delivery: ChannelDelivery = .immediate, restart: Restart = .never,
    body: @escaping @Sendable (Bench, Context) -> Void = { _, _ in }
  ) -> Channel<String> {
    let name = name ?? id + (key ?? "")
    return Channel(
      id: id, lifetime: key.map { .ephemeral(resetKey: $0, settle: settle) } ?? .permanent,
      broadcasting: value.map { .onChange($0) } ?? .nothing, delivery: delivery, restart: restart
    ) { [weak self, list, contexts] context in
      list.append(.opened(name))
      contexts.append((name, context))
      if let self { body(self, context) }
      return ChannelHandler(
        receive: { list.append(.received(name, $0)) }, broadcast: { list.append(.broadcast(name, $0)) },
        cancel: { list.append(.cancelled(name)) })
    }
  }
}
