import ActionCable
import StoreBridge
import WebSocketHandling
import WebSocketTesting
import WebSocketTransport
import TestSupport

/// Tells whether an object is still there.
final class Weak<Object: AnyObject & Sendable>: Sendable {
  private struct Reference: Sendable {
    weak var object: Object?
  }

  private let reference = Lock(Reference())

  var object: Object? {
    get { reference.withLock { $0.object } }
    set { reference.withLock { $0.object = newValue } }
  }
}

extension CableConfiguration {
  /// Times that a starved machine does not reach; with `staleAfter: nil`, since it is silent for long.
  static var patient: CableConfiguration {
    var configuration = CableConfiguration()
    configuration.connectTimeout = .seconds(240)
    configuration.closeTimeout = .seconds(240)
    configuration.timing.welcomeTimeout = .seconds(240)
    configuration.timing.subscribeTimeout = .seconds(240)
    return configuration
  }
}

struct Unreadable: Error, Equatable {}

/// Numbers are values, `-` does not matter, everything else cannot be read.
struct NumberMapper: OutputMapping {
  func map(from message: String) throws -> Int? {
    if message == "-" { return nil }
    guard let number = Int(message) else { throw Unreadable() }
    return number
  }
}

/// Says the number, and the state that it met.
struct SayingMapper: ActionMapping {
  func actions(from output: Int, state: String) -> [String] { ["\(output)\(state)"] }
}

/// A source that does what a test says.
final class TestSource: MessageSource {
  typealias Message = String

  private struct State: Sendable {
    var onMessage: (@Sendable (String, _ next: @escaping @Sendable () -> Void) -> Void)?
    var onSignal: (@Sendable (BridgeSignal<String>) -> Void)?
    var asked = 0
    var cancels = 0
  }

  private let state = Lock(State())

  func start(
    onMessage: @escaping @Sendable (String, _ next: @escaping @Sendable () -> Void) -> Void,
    onSignal: @escaping @Sendable (BridgeSignal<String>) -> Void
  ) {
    state.withLock { state in
      state.onMessage = onMessage
      state.onSignal = onSignal
    }
  }

  func cancel() { state.withLock { $0.cancels += 1 } }

  func cost(of message: String) -> Int { message.utf8.count }

  var isStarted: Bool { state.withLock { $0.onMessage != nil } }
  /// How often the next message was asked for.
  var asked: Int { state.withLock { $0.asked } }
  var cancels: Int { state.withLock { $0.cancels } }

  func send(_ messages: String...) {
    for message in messages {
      state.withLock({ $0.onMessage })?(message) { [self] in state.withLock { $0.asked += 1 } }
    }
  }

  func signal(_ signal: BridgeSignal<String>) { state.withLock({ $0.onSignal })?(signal) }
}

/// A store that records, an effect on a test's source, and a runner, in a manual environment.
final class Bench: Sendable {
  typealias Effect = SocketChannelEffect<TestSource, NumberMapper, SayingMapper>

  let manual = ManualEnvironment()
  let source = TestSource()
  let runner = EffectRunner<String>()
  private let dispatches = SharedList<[String]>()
  private let state = Lock((value: "", reads: 0))

  /// What the mapper sees behind each number.
  func setState(_ value: String) { state.withLock { $0.value = value } }

  var stateReads: Int { state.withLock { $0.reads } }

  func effect(
    _ batching: Batching, waitingLimit: Int = 1 << 20, onDispatch: @escaping @Sendable ([String]) -> Void = { _ in },
    builder: (@Sendable () throws -> TestSource?)? = nil
  ) -> Effect {
    let (state, source, dispatches) = (SharedState(bench: self), source, dispatches)
    let store = StorePort<String, String>(
      withState: { actions in actions(state.read()) },
      dispatch: { actions in
        dispatches.append(actions)
        onDispatch(actions)
      })
    return SocketChannelEffect(
      store: store, channelBuilder: builder ?? { source }, outputMapper: NumberMapper(), actionMapper: SayingMapper(),
      batching: batching, waitingLimit: waitingLimit, environment: manual.environment, signal: { ["\($0.name)"] })
  }

  private struct SharedState: Sendable {
    unowned let bench: Bench

    func read() -> String {
      bench.state.withLock { state in
        state.reads += 1
        return state.value
      }
    }
  }

  func run(_ batching: Batching, waitingLimit: Int = 1 << 20) {
    runner.run(effect(batching, waitingLimit: waitingLimit), cancellation: "id")
    manual.settle()
  }

  /// The dispatches since the last call, after everything that is due has happened.
  func take(after duration: Duration = .zero) -> [[String]] {
    manual.advance(by: duration)
    return dispatches.take()
  }
}

extension BridgeSignal {
  var name: String {
    switch self {
    case .connected(let reconnected): reconnected ? "reconnected" : "connected"
    case .disconnected(_, let willReconnect): "disconnected, \(willReconnect)"
    case .mayHaveMissed: "missed"
    case .rejected: "rejected"
    case .undecodable(let message, let error): "undecodable \(message): \(error)"
    case .noChannel(let error): "no channel: \(error.map { "\($0)" } ?? "nil")"
    case .ended(let error): "ended: \(error.map { "\($0)" } ?? "nil")"
    }
  }
}
