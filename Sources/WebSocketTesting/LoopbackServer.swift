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
  ///   - onConnection: called with each client, after the mode has been set up for it.
  public init(
    _ mode: Mode = .echo, port: Int = 0, subprotocols: [String] = [], tls: TLSServerConfiguration? = nil,
    configuration: HandlerConfiguration = WebSocketServer.defaultConfiguration,
    onConnection: @escaping @Sendable (ServerConnection) -> Void = { _ in }
  ) throws(EngineError.WebSocketError) {
    let room = Room()
    let admission = SharedAdmission()
    self.room = room
    self.admission = admission
    server = try WebSocketServer(
      host: "127.0.0.1", port: port, subprotocols: subprotocols, tls: tls, configuration: configuration,
      environment: .system, admit: { _ in admission.next() },
      onConnection: { connection in
        switch mode {
        case .echo: WebSocketServer.echo(connection)
        case .room: room.join(connection)
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
  public func stall() { admission.set(.stall) }

  /// From now on opening handshakes are refused with that status.
  public func refuse(status: Int) { admission.set(.refuse(status: status)) }

  /// From now on opening handshakes are accepted again, as in the beginning.
  public func accept() { admission.set(.accept) }

  /// Stops listening and closes every connection with 1001.
  public func shutDown() { server.shutDown() }
}

/// What to do with the next opening handshakes, and how many there were.
private final class SharedAdmission: Sendable {
  private struct State: Sendable {
    var admission = Admission.accept
    var count = 0
  }

  private let state = Lock(State())

  var count: Int { state.withLock { $0.count } }

  func set(_ admission: Admission) { state.withLock { $0.admission = admission } }

  func next() -> Admission {
    state.withLock { state in
      state.count += 1
      return state.admission
    }
  }
}
