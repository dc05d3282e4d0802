public import Foundation
public import WebSocketHandling
public import WebSocketServing
public import WebSocketTransport

/// A server on this machine's loopback interface for tests, with faults on command.
public final class LoopbackServer: Sendable {
  /// What the server does with messages.
  public enum Mode: Sendable, Hashable {
    /// Sends each message back to its sender.
    case echo
    /// Sends each message to everybody, the sender included.
    case room
  }

  private let server: WebSocketServer
  private let room: Room
  private let admission: SharedAdmission

  /// Listens on a port of 127.0.0.1.
  ///
  /// - Parameters:
  ///   - port: 0: the system picks one, see ``port``.
  ///   - tls: how `wss` is served; nil: `ws` is.
  ///   - faults: what goes wrong by itself; nil: nothing.
  ///   - onConnection: called with each client, after the mode has been set up for it.
  public init(
    _ mode: Mode = .echo, port: Int = 0, subprotocols: [String] = [], tls: TLSServerConfiguration? = nil,
    faults: FaultPlan? = nil, configuration: HandlerConfiguration = WebSocketServer.defaultConfiguration,
    onConnection: @escaping @Sendable (ServerConnection) -> Void = { _ in }
  ) throws(EngineError.WebSocketError) {
    let room = Room()
    let admission = SharedAdmission(faults.map(SharedAdmission.Rule.plan) ?? .always(.accept))
    self.room = room
    self.admission = admission
    server = try WebSocketServer(
      host: "127.0.0.1", port: port, subprotocols: subprotocols, tls: tls, configuration: configuration,
      environment: .system, openingDeadline: patience, admit: { admission.next($0) },
      onConnection: { connection in
        if mode == .room { room.add(connection) }
        let answers = Lock(admission.answersBeforeLoss(of: connection.head))
        connection.onMessage { [unowned connection] message in
          guard answers.withLock({ $0.spend() }) else { return connection.drop() }
          switch mode {
          case .echo: connection.send(message)
          case .room: room.relay(message)
          }
        }
        onConnection(connection)
      })
  }

  /// Where clients connect to.
  public var url: URL { server.url }

  /// The port that the server listens on.
  public var port: Int { server.port }

  /// The clients that are connected, in no order.
  public var connections: [ServerConnection] { server.connections }

  /// The number of clients that are connected.
  public var connectionCount: Int { server.connections.count }

  /// The number of valid opening handshakes so far, whatever came of them.
  public var handshakeCount: Int { admission.count }

  /// Sends a message to every client.
  public func send(_ message: WebSocketMessage) {
    for connection in server.connections { connection.send(message) }
  }

  /// Cuts TCP of every client, without a closing handshake.
  public func dropAll() { server.dropAll() }

  /// Closes every connection with a closing handshake.
  public func closeAll(code: CloseCode = .normalClosure, reason: String = "") {
    for connection in server.connections { connection.close(code: code, reason: reason) }
  }

  /// From now on opening handshakes are never answered.
  public func stall() { admission.set(.always(.stall)) }

  /// From now on opening handshakes are refused with that status.
  public func refuse(status: Int) { admission.set(.always(.refuse(status: status))) }

  /// From now on opening handshakes are accepted, and connections last.
  public func accept() { admission.set(.always(.accept)) }

  /// From now on clients meet what the plan has for them; its first handshake is the next one.
  public func inject(_ faults: FaultPlan) { admission.set(.plan(faults)) }

  /// Stops listening and closes every connection with 1001.
  public func shutDown() { server.shutDown() }
}

/// What to do with the next opening handshakes, and how many there were.
private final class SharedAdmission: Sendable {
  enum Rule: Sendable {
    case always(Admission)
    case plan(FaultPlan)
  }

  private struct State: Sendable {
    var rule: Rule
    var count = 0
    /// How many came before the rule was set.
    var countBefore = 0
    /// By the key of the opening handshake, until the connection is there.
    var lossAfter: [String: Int] = [:]
  }

  private let state: Lock<State>

  init(_ rule: Rule) { state = Lock(State(rule: rule)) }

  var count: Int { state.withLock { $0.count } }

  func set(_ rule: Rule) {
    state.withLock { state in
      state.rule = rule
      state.countBefore = state.count
    }
  }

  func next(_ head: HTTPRequestHead) -> Admission {
    state.withLock { state in
      defer { state.count += 1 }
      switch state.rule {
      case .always(let admission): return admission
      case .plan(let plan):
        switch plan.fate(of: state.count - state.countBefore) {
        case .refused(let status): return .refuse(status: status)
        case .stalled: return .stall
        case .served(let delay, let lossAfter):
          if let lossAfter, let key = head.fields["Sec-WebSocket-Key"] { state.lossAfter[key] = lossAfter }
          return delay > .zero ? .acceptAfter(delay) : .accept
        }
      }
    }
  }

  func answersBeforeLoss(of head: HTTPRequestHead) -> Answers {
    let key = head.fields["Sec-WebSocket-Key"]
    return Answers(left: state.withLock { state in key.flatMap { state.lossAfter.removeValue(forKey: $0) } })
  }
}

/// How many messages a connection still answers.
private struct Answers: Sendable {
  /// Nil: any number.
  var left: Int?

  /// Whether one more may be answered.
  mutating func spend() -> Bool {
    guard let left else { return true }
    self.left = left - 1
    return left > 0
  }
}

/// How long servers of tests wait for an opening handshake, which a slow machine must not run into.
let patience = Duration.seconds(240)
