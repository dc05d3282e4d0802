import WebSocketCore

/// Makes the values that receivers ask for.
final class MessageDecoder: Sendable {
  private let responseHandler: any HTTPResponseHandler
  private let logger: any Logger

  init(responseHandler: any HTTPResponseHandler, logger: any Logger) {
    self.responseHandler = responseHandler
    self.logger = logger
  }

  /// The message itself where that is the type, else what is decoded from it.
  func decode<T: Decodable>(_ message: WebSocketMessage, as type: T.Type) -> Result<T, EngineError.WebSocketError> {
    if type == WebSocketMessage.self, let message = message as? T { return .success(message) }
    do {
      return .success(try responseHandler.decode(data: message.data, to: type))
    } catch {
      logger.log(
        file: #fileID, function: #function, line: #line, logLevel: .error,
        "a received message cannot be decoded: \(Swift.type(of: error))")
      return .failure(
        .undecodable(message, reason: String(describing: error), errorType: String(describing: Swift.type(of: error))))
    }
  }
}

/// Keeps a completion and the type that it wants, until its message is there.
final class DecodingReceive<T: Decodable>: PendingReceive {
  private let decoder: MessageDecoder
  private let completion: @Sendable (Result<T, EngineError.WebSocketError>) -> Void

  init(_ decoder: MessageDecoder, _ completion: @escaping @Sendable (Result<T, EngineError.WebSocketError>) -> Void) {
    self.decoder = decoder
    self.completion = completion
  }

  var onlyWakes: Bool { false }

  func complete(_ result: Result<WebSocketMessage, EngineError.WebSocketError>) {
    completion(result.flatMap { decoder.decode($0, as: T.self) })
  }
}

/// Keeps a completion that wants the message as it is.
final class PlainReceive: PendingReceive {
  private let completion: @Sendable (Result<WebSocketMessage, EngineError.WebSocketError>) -> Void

  init(_ completion: @escaping @Sendable (Result<WebSocketMessage, EngineError.WebSocketError>) -> Void) {
    self.completion = completion
  }

  var onlyWakes: Bool { false }

  func complete(_ result: Result<WebSocketMessage, EngineError.WebSocketError>) { completion(result) }
}
