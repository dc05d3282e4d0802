public import WebSocketCore
public import WebSocketHandling
public import WebSocketTransport

/// A client of a WebSocket server.
///
/// Its callbacks are serial and in order, on the thread that the server's configuration says.
public final class ServerConnection: Sendable {
  private struct State: Sendable {
    var onClose: [@Sendable (CloseRecord) -> Void] = []
    var record: CloseRecord?
    /// Keeps an open connection alive, however few hold it.
    var keepsAlive: ServerConnection?
  }

  /// The request that opened the connection.
  public let head: HTTPRequestHead
  /// The subprotocol that was agreed on; nil where there is none.
  public let subprotocol: String?
  /// What TLS agreed on, with the client's certificate where the server demands one; nil without TLS.
  public let tls: TLSAgreement?

  private let driver: ConnectionDriver
  private let state = Lock(State())

  init(_ opened: ServerOpening.Opened, driver: ConnectionDriver) {
    head = opened.head
    subprotocol = opened.subprotocol
    tls = opened.tls
    self.driver = driver
  }

  /// Opens the connection: sets it up, then tells the client.
  ///
  /// ``onMessage(_:)`` and the like work from `prepare` on.
  func start(_ opened: ServerOpening.Opened, prepare: () -> Void) {
    state.withLock { $0.keepsAlive = self }
    driver.onEnd { [weak self] record in self?.ended(record) }
    driver.accept(
      opened.transport, answer: opened.answer, bytes: opened.bytes, times: ConnectionTimes(), prepare: prepare)
  }

  /// Installs the receiver of all messages; those that came before are delivered first.
  ///
  /// Each message is valid during its call only. The receiver is released when the connection has ended.
  public func onMessage(_ receiver: @escaping @Sendable (borrowing BorrowedMessage) -> Void) {
    driver.onMessage(receiver)
    // Behind the end: once it has what came before, it is released.
    if state.withLock({ $0.record != nil }) { driver.callBack { [self] in driver.onMessage(nil) } }
  }

  /// Calls `body` once with how the connection ended; soon, where it has ended already.
  public func onClose(_ body: @escaping @Sendable (CloseRecord) -> Void) {
    let record = state.withLock { state in
      if state.record == nil { state.onClose.append(body) }
      return state.record
    }
    if let record { driver.callBack { body(record) } }
  }

  /// Sends a message.
  ///
  /// It is dropped where the connection is closing.
  ///
  /// - Parameters:
  ///   - message: goes out as it is.
  ///   - completion: called when the operating system has taken its last byte, or with the reason why not.
  public func send(
    _ message: WebSocketMessage,
    completion: (@Sendable (Result<Void, EngineError.WebSocketError>) -> Void)? = nil
  ) {
    driver.send(message.kind, message.payload, completion: completion)
  }

  /// Sends a received message on, such as back to its sender.
  public func send(_ message: borrowing BorrowedMessage) { driver.send(message) }

  /// Sends a ping and completes with the time to its pong, which comes behind everything that was sent before.
  public func ping(completion: @escaping @Sendable (Result<Duration, EngineError.WebSocketError>) -> Void) {
    driver.ping(completion)
  }

  /// Performs the closing handshake and completes when the connection is closed.
  ///
  /// Fails as misuse where the code may not be sent, and as a limit where the reason is longer than 123 bytes.
  public func close(
    code: CloseCode = .normalClosure, reason: String = "",
    completion: @escaping @Sendable (Result<Void, EngineError.WebSocketError>) -> Void = { _ in }
  ) {
    if let payload = ClosePayload(sending: code, reason: reason) {
      driver.disconnect(payload, completion: completion)
      return
    }
    let failure: EngineError.WebSocketError =
      code.mayBeSent
      ? .limitExceeded(.closeReason, size: reason.utf8.count, limit: ClosePayload.maximumReasonBytes)
      : .misuse(.closeCode(code.rawValue))
    driver.callBack { completion(.failure(failure)) }
  }

  /// Ends TCP at once, without a closing handshake.
  public func drop() { driver.abort() }

  func send(
    _ kind: MessageKind, _ payload: Payload,
    completion: @escaping @Sendable (Result<Void, EngineError.WebSocketError>) -> Void
  ) {
    driver.send(kind, payload, completion: completion)
  }

  private func ended(_ record: CloseRecord) {
    let (bodies, this) = state.withLock { state in
      state.record = record
      defer { state.onClose = [] }
      return (state.onClose, state.keepsAlive.take())
    }
    // The receiver often holds the connection.
    driver.onMessage(nil)
    for body in bodies { body(record) }
    _ = this
  }
}
