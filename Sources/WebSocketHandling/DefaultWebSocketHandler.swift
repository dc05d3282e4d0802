import Foundation
public import WebSocketCore
public import WebSocketTransport

/// A WebSocket client (RFC 6455) on sockets of the operating system.
///
/// Callbacks are serial and in order, by default on a private queue; any method may be called from any thread and any
/// callback. Releasing the last reference closes the connection with 1001 and fails what is pending as
/// ``EngineError/WebSocketError/cancelled``.
public final class DefaultWebSocketHandler: WebSocketHandler {
  private let driver: ConnectionDriver
  private let logger: any Logger
  private let responseHandler: any HTTPResponseHandler
  private let configuration: HandlerConfiguration

  /// A handler without a connection.
  ///
  /// - Parameters:
  ///   - logger: takes the log lines; default: standard error, from ``LogLevel/info`` up.
  ///   - responseHandler: decodes what `receive` asks for; default: JSON.
  ///   - configuration: limits, and where callbacks run.
  ///   - environment: clock, sockets and random bytes; tests bring their own.
  public init(
    logger: any Logger = DefaultLogger.shared,
    responseHandler: any HTTPResponseHandler = DefaultHTTPResponseHandler(),
    configuration: HandlerConfiguration = HandlerConfiguration(), environment: Environment = .system
  ) {
    self.logger = logger
    self.responseHandler = responseHandler
    self.configuration = configuration
    driver = ConnectionDriver(
      role: .client, configuration: configuration, environment: environment, loop: environment.makeLoop(),
      logger: logger)
  }

  deinit { driver.release() }

  /// Opens a connection; fails where one is open or being opened.
  public func connect(
    request: NetworkRequest, completion: @escaping @Sendable (Result<Void, EngineError.WebSocketError>) -> Void
  ) {
    do throws(EngineError.WebSocketError) {
      driver.connect(
        try Endpoint(request), connectTimeout: request.connectTimeout, closeTimeout: request.closeTimeout,
        completion: completion)
    } catch {
      driver.reject(completion, error)
    }
  }

  /// Closes the connection with code 1000 after what was queued; fails where there is none.
  public func disconnect(completion: @escaping @Sendable (Result<Void, EngineError.WebSocketError>) -> Void) {
    disconnect(code: .normalClosure, reason: "", completion: completion)
  }

  /// Closes the connection with a code that may be sent and a reason of at most 123 bytes of UTF-8.
  public func disconnect(
    code: CloseCode, reason: String,
    completion: @escaping @Sendable (Result<Void, EngineError.WebSocketError>) -> Void
  ) {
    guard code.mayBeSent else { return driver.reject(completion, .misuse(.closeCode(code.rawValue))) }
    guard let payload = ClosePayload(sending: code, reason: reason) else {
      return driver.reject(
        completion,
        .limitExceeded(.closeReason, size: reason.utf8.count, limit: ClosePayload.maximumReasonBytes))
    }
    driver.disconnect(payload, completion: completion)
  }

  /// Sends one message; waits for a connect that is in progress.
  public func send<T>(
    message: T, completion: @escaping @Sendable (Result<Void, EngineError.WebSocketError>) -> Void
  ) where T: Encodable {
    if let message = message as? WebSocketMessage {
      send(message, completion)
      return
    }
    do {
      let data = try JSONEncoder().encode(message)
      driver.send(configuration.sendsJSONAsText ? .text : .binary, .data(data), completion: completion)
    } catch {
      driver.reject(
        completion, .unencodable(reason: String(describing: error), errorType: String(describing: type(of: error))))
    }
  }

  /// Sends a message without telling when it is written.
  ///
  /// What cannot be sent is logged.
  public func send(_ message: WebSocketMessage) { send(message, nil) }

  /// Sends a borrowed message on, without a copy of the caller's.
  public func send(_ message: borrowing BorrowedMessage) { driver.send(message) }

  private func send(_ message: WebSocketMessage, _ completion: Completion?) {
    switch message {
    case .text(let text): driver.send(.text, .string(text), completion: completion)
    case .binary(let data): driver.send(.binary, .data(data), completion: completion)
    }
  }

  /// Waits for the next message; kept ones come first, also after the end.
  public func receive<T>(completion: @escaping @Sendable (Result<T, EngineError.WebSocketError>) -> Void)
  where T: Decodable {
    driver.receive(TypedReceive(responseHandler: responseHandler, logger: logger, completion: completion))
  }

  /// Installs a standing receiver of borrowed messages, valid during the call only; nil removes it.
  ///
  /// Messages kept so far come first. While it is installed, `receive` fails as
  /// ``EngineError/WebSocketError/misuse(_:)``.
  public func onMessage(_ receiver: (@Sendable (borrowing BorrowedMessage) -> Void)?) { driver.onMessage(receiver) }

  /// Sends a ping and completes with the time to its pong; 16 may wait at a time.
  public func ping(completion: @escaping @Sendable (Result<Duration, EngineError.WebSocketError>) -> Void) {
    driver.ping(completion)
  }

  /// The server's answer to the opening handshake of the current or last connection.
  public var handshake: HandshakeAnswer? { driver.answer }

  /// What waits to be written: payload bytes, and messages.
  public var buffered: (bytes: Int, messages: Int) { driver.buffered }
}

/// Keeps a completion and the type that it wants, until its message is there.
private final class TypedReceive<T: Decodable>: PendingReceive {
  private let responseHandler: any HTTPResponseHandler
  private let logger: any Logger
  private let completion: @Sendable (Result<T, EngineError.WebSocketError>) -> Void

  init(
    responseHandler: any HTTPResponseHandler, logger: any Logger,
    completion: @escaping @Sendable (Result<T, EngineError.WebSocketError>) -> Void
  ) {
    self.responseHandler = responseHandler
    self.logger = logger
    self.completion = completion
  }

  func complete(_ result: Result<WebSocketMessage, EngineError.WebSocketError>) {
    switch result {
    case .failure(let error): completion(.failure(error))
    case .success(let message):
      if let asked = message as? T {
        completion(.success(asked))
        return
      }
      do {
        completion(.success(try responseHandler.decode(data: message.data, to: T.self)))
      } catch {
        let failure = EngineError.WebSocketError.undecodable(
          message, reason: String(describing: error), errorType: String(describing: type(of: error)))
        logger.log(
          file: #fileID, function: #function, line: #line, logLevel: .error,
          "a received message cannot be decoded: \(type(of: error))")
        completion(.failure(failure))
      }
    }
  }
}
