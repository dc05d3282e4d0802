extension WebSocketHandler {
  /// Opens a connection; returns when it is open.
  ///
  /// - Throws: ``EngineError/WebSocketError``, as the callback form.
  public func connect(request: NetworkRequest) async throws(EngineError.WebSocketError) {
    try await result { connect(request: request, completion: $0) }
  }

  /// Closes the connection with code 1000; returns when it is closed.
  public func disconnect() async throws(EngineError.WebSocketError) {
    try await result { disconnect(completion: $0) }
  }

  /// Sends one message; returns when the operating system has taken its last byte.
  public func send<T: Encodable & Sendable>(message: T) async throws(EngineError.WebSocketError) {
    try await result { send(message: message, completion: $0) }
  }

  /// Waits for the next message.
  ///
  /// For a loop that can be cancelled without losing one use ``messages(of:)``.
  public func receive<T: Decodable & Sendable>(_ type: T.Type) async throws(EngineError.WebSocketError) -> T {
    try await result { receive(completion: $0) }
  }

  /// Sends a ping and returns the time to its pong.
  public func ping() async throws(EngineError.WebSocketError) -> Duration {
    try await result { ping(completion: $0) }
  }

  /// The messages to come, as a sequence that asks for one at a time, so that a slow reader holds the sender back.
  ///
  /// Ends without error after a clean close, else throws. One that cannot be decoded throws and the next call goes on.
  public func messages<T: Decodable & Sendable>(of type: T.Type) -> MessageSequence<T> {
    MessageSequence(handler: self)
  }

  private func result<T: Sendable>(
    _ start: (@escaping @Sendable (Result<T, EngineError.WebSocketError>) -> Void) -> Void
  ) async throws(EngineError.WebSocketError) -> T {
    let result = await withCheckedContinuation { continuation in
      start { continuation.resume(returning: $0) }
    }
    return try result.get()
  }
}
