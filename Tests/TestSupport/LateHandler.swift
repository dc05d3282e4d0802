package import WebSocketHandling
import WebSocketTransport

/// A handler of the four methods alone whose connect cannot be cancelled: a test says when it succeeds, and until then
/// there is nothing to disconnect.
///
/// No message comes. Every other call is answered before it returns.
package final class LateHandler: WebSocketHandler {
  package typealias Failure = EngineError.WebSocketError
  package typealias Completion = @Sendable (Result<Void, Failure>) -> Void

  private struct State: Sendable {
    var connecting: Completion?
    var isConnected = false
  }

  private let state = Lock(State())

  package init() {}

  /// Whether a connect waits for ``succeed()``.
  package var isConnecting: Bool { state.withLock { $0.connecting != nil } }

  /// Whether there is a connection that nobody has closed.
  package var isConnected: Bool { state.withLock { $0.isConnected } }

  /// Lets the connect that waits succeed.
  package func succeed() {
    let completion = state.withLock { state in
      state.isConnected = state.connecting != nil
      return state.connecting.take()
    }
    completion?(.success(()))
  }

  package func connect(request: NetworkRequest, completion: @escaping Completion) {
    let begins = state.withLock { state in
      guard !state.isConnected, state.connecting == nil else { return false }
      state.connecting = completion
      return true
    }
    if !begins { completion(.failure(.connectionFailed("WebSocket is already connected"))) }
  }

  package func disconnect(completion: @escaping Completion) {
    let wasConnected = state.withLock { state in
      defer { state.isConnected = false }
      return state.isConnected
    }
    completion(wasConnected ? .success(()) : .failure(.connectionFailed("WebSocket is not connected")))
  }

  package func send<T: Encodable>(message: T, completion: @escaping Completion) { completion(.success(())) }

  package func receive<T: Decodable>(completion: @escaping @Sendable (Result<T, Failure>) -> Void) {}
}
