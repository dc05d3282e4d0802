import Dispatch

/// Turns a host into addresses, off the loop.
package protocol Resolver: Sendable {
  /// Calls `completion` once, on any thread, maybe before this returns.
  func resolve(
    host: String, port: Int, completion: @escaping @Sendable (Result<[SocketAddress], TransportError>) -> Void)
}

/// The system's resolver (`getaddrinfo`).
///
/// A literal is answered at once; a name on a thread of its own.
package struct SystemResolver: Resolver {
  package init() {}

  package func resolve(
    host: String, port: Int, completion: @escaping @Sendable (Result<[SocketAddress], TransportError>) -> Void
  ) {
    if let literal = SocketAddress.literal(host: host, port: port) { return completion(.success([literal])) }
    DispatchQueue.global().async {
      completion(Result { () throws(TransportError) in try SocketAddress.resolve(host: host, port: port) })
    }
  }
}
