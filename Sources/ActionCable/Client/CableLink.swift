import WebSocketHandling

/// What the reconnecting session takes for its handler: open means `welcome`, and the protocol has a say in the end.
///
/// Messages go to the client and not through the session.
final class CableLink: WebSocketHandler {
  typealias Failure = EngineError.WebSocketError
  typealias Completion = @Sendable (Result<Void, Failure>) -> Void

  private let base: any WebSocketHandler
  private weak let core: CableCore?

  init(_ base: any WebSocketHandler, core: CableCore) {
    self.base = base
    self.core = core
  }

  // MARK: For the session

  func connect(request: NetworkRequest, completion: @escaping Completion) {
    guard let core else { return completion(.failure(.cancelled)) }
    let attempt = core.began(request, completion)
    base.connect(request: request) { [weak self, base] result in
      if let self, self.core?.answered(attempt) == true { return connected(attempt, result) }
      // Given up in between; a handler whose connect cannot be cancelled has a connection that nobody wants.
      let core = self?.core
      if case .success = result { base.disconnect { _ in core?.gaveUp() } } else { core?.gaveUp() }
    }
  }

  func send<T: Encodable>(message: T, completion: @escaping Completion) {
    base.send(message: message, completion: completion)
  }

  /// Stays pending until the connection is lost.
  func receive<T: Decodable>(completion: @escaping @Sendable (Result<T, Failure>) -> Void) {
    guard let core else { return completion(.failure(.cancelled)) }
    core.awaitLoss(PendingLoss(completion))
  }

  func disconnect(completion: @escaping Completion) {
    disconnect(code: .normalClosure, reason: "", completion: completion)
  }

  func disconnect(code: CloseCode, reason: String, completion: @escaping Completion) {
    core?.closed()
    base.disconnect(code: code, reason: reason, completion: completion)
  }

  func ping(completion: @escaping @Sendable (Result<Duration, Failure>) -> Void) { base.ping(completion: completion) }

  var handshake: HandshakeAnswer? { base.handshake }

  // MARK: For the client

  /// Closes the connection and completes when it is closed, whatever came of that.
  func close(_ completion: @escaping @Sendable () -> Void) { base.disconnect { _ in completion() } }

  /// Asks for the next message of that attempt.
  func ask(_ attempt: UInt64) {
    base.receive { [weak self] (result: Result<WebSocketMessage, Failure>) in
      guard let self, core?.received(attempt, result) == true else { return }
      ask(attempt)
    }
  }

  private func connected(_ attempt: UInt64, _ result: Result<Void, Failure>) {
    switch result {
    case .success:
      let subprotocol = base.handshake.map { AgreedSubprotocol.agreed($0.subprotocol) } ?? .unknown
      if core?.opened(attempt, subprotocol) == true { ask(attempt) }
    case .failure(let failure): core?.failed(attempt, failure)
    }
  }
}

/// Hears that a connection is lost.
protocol LossHearer: Sendable {
  func hear(_ failure: EngineError.WebSocketError)
}

/// A receive that ends with the connection; keeps the type that it asks for.
private final class PendingLoss<T: Decodable>: LossHearer {
  private let completion: @Sendable (Result<T, EngineError.WebSocketError>) -> Void

  init(_ completion: @escaping @Sendable (Result<T, EngineError.WebSocketError>) -> Void) {
    self.completion = completion
  }

  func hear(_ failure: EngineError.WebSocketError) { completion(.failure(failure)) }
}
