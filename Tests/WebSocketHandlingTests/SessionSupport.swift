import Foundation
import WebSocketCore
import WebSocketHandling
import WebSocketTesting
import WebSocketTransport
import TestSupport

typealias Failure = EngineError.WebSocketError

/// What a session told, in order.
enum Said: Sendable, Hashable {
  case state(SessionState)
  case problem(Failure)
  case ok(String)
  case failed(String, Failure)
  case message(String)
  case outcome(String, DeliveryOutcome)
}

/// A session over a handler in a manual environment, and everything that it tells.
///
/// Delays are zero, unless a rule asks for more, so that their sum is known.
final class Bench: Sendable {
  static let request = NetworkRequest(url: URL(string: "ws://192.0.2.1/") ?? URL(filePath: "/"))

  let manual: ManualEnvironment
  private let session: Lock<ReconnectingSession?>
  private let list = SharedList<Said>()

  init(
    _ policy: ReconnectPolicy = .atOnce(), outbox: OutboxLimits = OutboxLimits(), provider: RequestProvider? = nil,
    seed: UInt64 = 1, onEvent: @escaping @Sendable (SessionEvent) -> Void = { _ in }
  ) {
    let manual = ManualEnvironment(seed: seed)
    self.manual = manual
    session = Lock(
      ReconnectingSession(
        DefaultWebSocketHandler(logger: SilentLogger(), environment: manual.environment), policy: policy,
        outbox: outbox, provider: provider, logger: SilentLogger(), environment: manual.environment
      ) { [list] event in
        switch event {
        case .stateChanged(let state): list.append(.state(state))
        case .problem(let failure): list.append(.problem(failure))
        }
        onEvent(event)
      })
  }

  func say(_ said: Said) { list.append(said) }

  /// What was told since the last call, after everything that is due has happened.
  func take() -> [Said] {
    manual.settle()
    return list.take()
  }

  func release() { _ = session.withLock { $0.take() } }

  func with(_ body: (ReconnectingSession) -> Void) {
    if let session = session.withLock({ $0 }) { body(session) }
  }

  func start() { with { $0.start(Self.request) } }
  func stop() { with { $0.stop() } }

  func note(_ name: String, _ result: Result<Void, Failure>) {
    switch result {
    case .success: say(.ok(name))
    case .failure(let failure): say(.failed(name, failure))
    }
  }

  func connect() { with { $0.connect(request: Self.request) { [self] in note("connect", $0) } } }
  func disconnect() { with { $0.disconnect { [self] in note("disconnect", $0) } } }

  func send(_ text: String, _ delivery: Delivery = .once, key: String? = nil) {
    with { session in
      session.send(.text(text), delivery: delivery, acknowledgementKey: key) { [self] in say(.outcome(text, $0)) }
    }
  }

  func acknowledge(_ key: String) { with { $0.acknowledge(key) } }

  func receive() {
    with { session in
      session.receive { [self] (result: Result<WebSocketMessage, Failure>) in
        switch result {
        case .success(let message): say(.message(String(decoding: message.data, as: UTF8.self)))
        case .failure(let failure): say(.failed("receive", failure))
        }
      }
    }
  }

  /// Opens the connection that the session makes next.
  func open() throws -> MemoryConnection {
    let server = try manual.nextConnection()
    try server.open()
    manual.settle()
    return server
  }

  /// Starts, opens the first connection and forgets what was told.
  func opened() throws -> MemoryConnection {
    start()
    let server = try open()
    _ = take()
    return server
  }

  /// Whether nothing is left: no connection, no attempt, no timer.
  var isQuiet: Bool {
    manual.settle()
    return manual.pendingDials == 0 && manual.connections.allSatisfy { $0.clientHasClosed } && !manual.hasTimers
  }
}

extension ReconnectPolicy {
  /// A policy whose schedule has no delays.
  static func atOnce(
    maximumFailures: Int? = nil,
    rule: @escaping @Sendable (ReconnectCause) -> ReconnectDecision = ReconnectPolicy.standard
  ) -> ReconnectPolicy {
    ReconnectPolicy(
      backoff: Backoff(first: .zero, base: .zero, maximum: .zero), maximumFailures: maximumFailures, rule: rule)
  }

  /// A policy that waits for ten seconds whatever happened.
  static let tenSeconds = atOnce { _ in .retry(notBefore: .seconds(10)) }
}

/// An end without a closing handshake.
let reset = Failure.closed(
  CloseRecord(code: .abnormalClosure, initiator: .peer, isClean: false, transportEnd: .reset))
