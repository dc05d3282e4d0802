import Foundation
import WebSocketCore
import WebSocketHandling
import WebSocketTesting

typealias Failure = EngineError.WebSocketError

/// A logger that says nothing.
struct SilentLogger: Logger {
  func log(file: String, function: String, line: Int, logLevel: LogLevel, _ message: @autoclosure () -> Any) {}
}

func makeHandler(_ change: (inout HandlerConfiguration) -> Void = { _ in }) -> DefaultWebSocketHandler {
  var configuration = HandlerConfiguration()
  change(&configuration)
  return DefaultWebSocketHandler(logger: SilentLogger(), configuration: configuration)
}

func request(_ server: ScriptedServer, _ change: (inout NetworkRequest) -> Void = { _ in }) -> NetworkRequest {
  var request = NetworkRequest(url: server.url)
  change(&request)
  return request
}

/// The error that an operation ends with; nil where it succeeds.
func failure(_ body: () async throws(Failure) -> Void) async -> Failure? {
  do throws(Failure) {
    try await body()
    return nil
  } catch {
    return error
  }
}
