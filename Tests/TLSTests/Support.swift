import Foundation
import Glibc
import WebSocketCore
import WebSocketHandling
import WebSocketTesting
import WebSocketTransport
import TestSupport

typealias Failure = EngineError.WebSocketError

/// Resolves every name to 127.0.0.1.
struct LoopbackResolver: Resolver {
  func resolve(
    host: String, port: Int, completion: @escaping @Sendable (Result<[SocketAddress], TransportError>) -> Void
  ) {
    completion(.success(SocketAddress.literal(host: "127.0.0.1", port: port).map { [$0] } ?? []))
  }
}

/// A handler that trusts the tests' authority and finds every name on loopback.
func makeHandler(_ change: (inout TLSConfiguration) -> Void = { _ in }) throws -> DefaultWebSocketHandler {
  var configuration = HandlerConfiguration()
  configuration.tls.trust = try Certificates.shared.get().authority
  change(&configuration.tls)
  var environment = Environment.system
  environment.resolver = LoopbackResolver()
  return DefaultWebSocketHandler(
    logger: SilentLogger(), configuration: configuration, environment: environment)
}

func server(
  _ name: String = "good", _ change: (inout TLSServerConfiguration) -> Void = { _ in }
) throws -> LoopbackServer {
  var configuration = TLSServerConfiguration(identity: try Certificates.shared.get().identity(name))
  change(&configuration)
  return try LoopbackServer(tls: configuration)
}

func request(
  port: Int, host: String = "127.0.0.1", _ change: (inout NetworkRequest) -> Void = { _ in }
) throws -> NetworkRequest {
  guard let url = URL(string: "wss://\(host):\(port)/") else { throw ScriptFailure.io("URL") }
  // Long, so that a slow machine does not change what a test finds.
  var request = NetworkRequest(url: url, connectTimeout: .seconds(120), closeTimeout: .seconds(120))
  change(&request)
  return request
}

/// How a connect to the server ends; one that succeeds is closed again.
func connectFailure(
  to server: LoopbackServer, host: String = "127.0.0.1", _ change: (inout TLSConfiguration) -> Void = { _ in }
) async throws -> Failure? {
  let request = try request(port: server.port, host: host)
  return await connectFailure(try makeHandler(change), request)
}

func connectFailure(_ handler: DefaultWebSocketHandler, _ request: NetworkRequest) async -> Failure? {
  await failure { () throws(Failure) in
    try await handler.connect(request: request)
    try await handler.disconnect()
  }
}
