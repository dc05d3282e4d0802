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
    BlockingWork.run {
      completion(Result { () throws(TransportError) in try SocketAddress.resolve(host: host, port: port) })
    }
  }
}

/// Work that blocks: on threads that nothing else waits for, since those of the global queues are few.
///
/// A class of service of its own keeps it apart from the callbacks' threads too: names that are not answered for a
/// while must not hold up connections that are open, nor the rest of the program.
package enum BlockingWork {
  /// Runs the work soon.
  package static func run(_ work: @escaping @Sendable () -> Void) {
    DispatchQueue(label: "websocket.blocking", qos: .utility).async(execute: work)
  }
}
