import Dispatch
@_exported public import WebSocketCore
@_exported public import WebSocketTransport

/// A WebSocket client in four methods with callbacks (RFC 6455).
///
/// Each completion is called exactly once, never before its method returns, and never under a lock. Which thread it
/// runs on is the implementation's; ``DefaultWebSocketHandler`` uses a serial queue of its own. A type with the first
/// four methods is a complete conformance; the other requirements have default implementations.
@preconcurrency public protocol WebSocketHandler: Sendable {
  /// Opens a connection and completes when the server has agreed to it, or with the reason why not.
  func connect(
    request: NetworkRequest, completion: @escaping @Sendable (Result<Void, EngineError.WebSocketError>) -> Void)

  /// Closes the connection with code 1000 and completes when it is closed.
  func disconnect(completion: @escaping @Sendable (Result<Void, EngineError.WebSocketError>) -> Void)

  /// Sends one message and completes when the operating system has taken its last byte.
  ///
  /// A ``WebSocketMessage`` goes out as it is, any other value as JSON.
  func send<T>(
    message: T, completion: @escaping @Sendable (Result<Void, EngineError.WebSocketError>) -> Void)
  where T: Encodable

  /// Waits for the next message. First asked, first served; one message each.
  ///
  /// ``WebSocketMessage`` as the type gives the message as it is, any other type decodes JSON from text and binary.
  func receive<T>(completion: @escaping @Sendable (Result<T, EngineError.WebSocketError>) -> Void) where T: Decodable

  /// The server's answer to the opening handshake; nil without a connection, or where the handler cannot tell.
  var handshake: HandshakeAnswer? { get }

  /// Closes the connection with that code and reason. The default ignores both.
  func disconnect(
    code: CloseCode, reason: String,
    completion: @escaping @Sendable (Result<Void, EngineError.WebSocketError>) -> Void)

  /// Sends a ping and completes with the time to its pong. The default fails as ``EngineError/WebSocketError/unsupported(_:)``.
  func ping(completion: @escaping @Sendable (Result<Duration, EngineError.WebSocketError>) -> Void)
}

extension WebSocketHandler {
  /// None is known.
  public var handshake: HandshakeAnswer? { nil }

  /// Closes the connection; code and reason are ignored.
  public func disconnect(
    code: CloseCode, reason: String,
    completion: @escaping @Sendable (Result<Void, EngineError.WebSocketError>) -> Void
  ) {
    disconnect(completion: completion)
  }

  /// Fails as unsupported.
  public func ping(completion: @escaping @Sendable (Result<Duration, EngineError.WebSocketError>) -> Void) {
    // Never inside the call.
    DispatchQueue.global().async { completion(.failure(.unsupported("ping"))) }
  }
}
