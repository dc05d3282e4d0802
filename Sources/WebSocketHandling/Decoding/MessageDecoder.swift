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
  func decode<T: Decodable>(_ message: WebSocketMessage, as type: T.Type) throws(EngineError.WebSocketError) -> T {
    // Safe: the two types are the same one. No optional value, whose type the runtime would have to look up.
    if type == WebSocketMessage.self { return unsafeBitCast(message, to: type) }
    do {
      return try responseHandler.decode(data: message.data, to: type)
    } catch {
      logger.log(
        file: #fileID, function: #function, line: #line, logLevel: .error,
        "a received message cannot be decoded: \(Swift.type(of: error))")
      throw .undecodable(
        message, reason: String(describing: error), errorType: String(describing: Swift.type(of: error)))
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
    switch result {
    case .success(let message):
      completion(Result { () throws(EngineError.WebSocketError) in try decoder.decode(message, as: T.self) })
    case .failure(let error): completion(.failure(error))
    }
  }
}

/// A completion of `receive` in a container of generic type, which holds closures of every such type in one form.
struct ReceiveCompletion<T>: Sendable {
  var call: @Sendable (Result<T, EngineError.WebSocketError>) -> Void
}

/// A completion that wants the message as it is.
typealias MessageCompletion = ReceiveCompletion<WebSocketMessage>

/// The value itself where `type` is its own type; a cast without the runtime's search for other ways.
@inline(__always)
func identical<Value, Other>(_ value: Value, as type: Other.Type) -> Other? {
  guard Value.self == type else { return nil }
  // Safe: the two types are the same one.
  return unsafeBitCast(value, to: Other.self)
}

/// A value that is read where it stands: as it cannot be copied, it is not.
struct LentValue<Value>: ~Copyable {
  let value: Value
}
