public import Foundation
public import WebSocketHandling
public import WebSocketTransport

/// A small WebSocket server for demonstrations, tests and tools.
///
/// It listens from its initialiser until ``shutDown()`` or its release.
public final class WebSocketServer: Sendable {
  /// The defaults of `HandlerConfiguration`, with callbacks on the connection's event loop.
  public static let defaultConfiguration: HandlerConfiguration = {
    var configuration = HandlerConfiguration()
    configuration.callbacks = .eventLoop
    return configuration
  }()

  private let clients: Clients
  private let listener: TCPListener
  private let isSecure: Bool

  /// Listens on a host and a port.
  ///
  /// - Parameters:
  ///   - host: a name or an address of this machine.
  ///   - port: 0: the system picks one, see ``port``.
  ///   - subprotocols: those that the server speaks; the first of the client's that is among them is chosen.
  ///   - tls: how `wss` is served; nil: `ws` is.
  ///   - pages: what plain GET requests are answered with; other paths are told that this is a WebSocket server.
  ///   - configuration: how each connection works. Default: that of handlers, with callbacks on the event loop.
  ///   - environment: clock, sockets and random bytes.
  ///   - onConnection: called on an event loop's thread with each client whose handshake succeeded, before that client
  ///     hears of it. Must not block.
  public convenience init(
    host: String = "127.0.0.1", port: Int = 0, subprotocols: [String] = [], tls: TLSServerConfiguration? = nil,
    pages: [Page] = [], configuration: HandlerConfiguration = WebSocketServer.defaultConfiguration,
    environment: Environment = .system, onConnection: @escaping @Sendable (ServerConnection) -> Void
  ) throws(EngineError.WebSocketError) {
    try self.init(
      host: host, port: port, subprotocols: subprotocols, tls: tls, pages: pages, configuration: configuration,
      environment: environment, admit: { _ in .accept }, onConnection: onConnection)
  }

  /// - Parameters:
  ///   - openingDeadline: the time from TCP's beginning to the decision, or to the last byte of a refusal.
  ///   - admit: decides on each valid opening handshake, on an event loop's thread.
  package init(
    host: String, port: Int, subprotocols: [String], tls: TLSServerConfiguration? = nil,
    pages: [Page] = [], configuration: HandlerConfiguration, environment: Environment,
    openingDeadline: Duration = .seconds(10), admit: @escaping @Sendable (HTTPRequestHead) -> Admission,
    onConnection: @escaping @Sendable (ServerConnection) -> Void
  ) throws(EngineError.WebSocketError) {
    var acceptor: TLSAcceptor?
    do throws(TLSFailure) { acceptor = try tls.map(TLSAcceptor.init) } catch { throw .tls(error) }
    isSecure = tls != nil
    let clients = Clients(
      subprotocols: subprotocols, acceptor: acceptor, pages: pages, configuration: configuration,
      environment: environment, openingDeadline: openingDeadline, admit: admit, onConnection: onConnection)
    self.clients = clients
    do throws(TransportError) {
      listener = try TCPListener(host: host, port: port) { transport, loop in clients.begin(transport, on: loop) }
    } catch {
      switch error {
      case .resolution(let host, let reason): throw .resolutionFailed(host: host, reason: reason)
      case .connect(_, let errorNumber), .system(_, let errorNumber):
        throw .unreachable(
          address: "\(host):\(port)", errorNumber: errorNumber, reason: TransportError.text(errorNumber))
      }
    }
  }

  deinit { shutDown() }

  /// A server that sends every message back to its sender.
  public static func echo(
    host: String = "127.0.0.1", port: Int = 0, subprotocols: [String] = [], tls: TLSServerConfiguration? = nil,
    configuration: HandlerConfiguration = WebSocketServer.defaultConfiguration, environment: Environment = .system
  ) throws(EngineError.WebSocketError) -> WebSocketServer {
    try WebSocketServer(
      host: host, port: port, subprotocols: subprotocols, tls: tls, configuration: configuration,
      environment: environment, onConnection: echo)
  }

  /// Makes a connection send every message back.
  public static func echo(_ connection: ServerConnection) {
    connection.onMessage { [unowned connection] message in connection.send(message) }
  }

  /// The port that the server listens on.
  public var port: Int { listener.address.port ?? 0 }

  /// Where clients connect to: `ws` or `wss`, the address and the port.
  public var url: URL {
    guard let url = URL(string: "\(isSecure ? "wss" : "ws")://\(listener.address)/") else {
      preconditionFailure("an address makes a URL")
    }
    return url
  }

  /// The clients that are connected, in no order.
  public var connections: [ServerConnection] { clients.connections }

  /// Stops listening, gives up opening handshakes and closes the connections with 1001.
  ///
  /// Returns at once; ``connections`` is empty when all are closed.
  public func shutDown() {
    listener.close()
    for connection in clients.shutDown() { connection.close(code: .goingAway) }
  }

  /// Ends TCP of every client at once, also of those that are still at their opening handshake.
  package func dropAll() {
    clients.closeOpenings()
    for connection in connections { connection.drop() }
  }
}

/// All who are connected, from TCP's beginning to the connection's end.
private final class Clients: Sendable {
  private struct State: Sendable {
    var isShutDown = false
    var openings: [UInt64: ServerOpening] = [:]
    var lastOpening: UInt64 = 0
    var connections: [ObjectIdentifier: ServerConnection] = [:]
  }

  private let subprotocols: [String]
  private let acceptor: TLSAcceptor?
  private let pages: [Page]
  private let configuration: HandlerConfiguration
  private let environment: Environment
  private let openingDeadline: Duration
  private let admit: @Sendable (HTTPRequestHead) -> Admission
  private let onConnection: @Sendable (ServerConnection) -> Void
  private let state = Lock(State())

  init(
    subprotocols: [String], acceptor: TLSAcceptor?, pages: [Page], configuration: HandlerConfiguration,
    environment: Environment, openingDeadline: Duration, admit: @escaping @Sendable (HTTPRequestHead) -> Admission,
    onConnection: @escaping @Sendable (ServerConnection) -> Void
  ) {
    self.subprotocols = subprotocols
    self.acceptor = acceptor
    self.pages = pages
    self.configuration = configuration
    self.environment = environment
    self.openingDeadline = openingDeadline
    self.admit = admit
    self.onConnection = onConnection
  }

  var connections: [ServerConnection] { state.withLock { Array($0.connections.values) } }

  func begin(_ base: any Transport, on loop: any EventLoop) {
    var transport = base
    if let acceptor {
      do throws(TLSFailure) { transport = try acceptor.secure(base, on: loop) } catch { return base.close() }
    }
    let id = state.withLock { state in
      state.lastOpening += 1
      return state.lastOpening
    }
    let opening = ServerOpening(
      transport, on: loop, deadline: openingDeadline, subprotocols: subprotocols, pages: pages, admit: admit
    ) { [self] opened in
      let isWanted = state.withLock { state in
        state.openings[id] = nil
        return !state.isShutDown
      }
      guard let opened else { return }
      if isWanted { open(opened, on: loop) } else { opened.transport.close() }
    }
    let isWanted = state.withLock { state in
      if !state.isShutDown { state.openings[id] = opening }
      return !state.isShutDown
    }
    if isWanted { opening.start() } else { opening.close() }
  }

  private func open(_ opened: ServerOpening.Opened, on loop: any EventLoop) {
    let driver = ConnectionDriver(
      role: .server, configuration: configuration, environment: environment, loop: loop,
      logger: DefaultLogger(minimumLevel: .error))
    let connection = ServerConnection(opened, driver: driver)
    let id = ObjectIdentifier(connection)
    state.withLock { $0.connections[id] = connection }
    connection.onClose { [weak self] _ in _ = self?.state.withLock { $0.connections.removeValue(forKey: id) } }
    connection.start(opened) { onConnection(connection) }
    // The server may have been shut down in between.
    if state.withLock({ $0.isShutDown }) { connection.close(code: .goingAway) }
  }

  func closeOpenings() {
    let openings = state.withLock { Array($0.openings.values) }
    for opening in openings { opening.close() }
  }

  /// Returns the connections to close.
  func shutDown() -> [ServerConnection] {
    state.withLock { $0.isShutDown = true }
    closeOpenings()
    return connections
  }
}
