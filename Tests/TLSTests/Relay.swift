import Foundation
import Glibc
import WebSocketTesting
import WebSocketTransport

/// Passes bytes between a client and a server, and does to them what a network or an attacker may do.
///
/// Each connection has two threads that block.
final class Relay: Sendable {
  enum Direction: Sendable { case toServer, toClient }

  /// What becomes of bytes that came behind `before` others: pieces to pass on, one write each; at an empty one the
  /// connection is cut.
  typealias Rule = @Sendable (Direction, [UInt8], _ before: Int) -> [[UInt8]]

  let port: Int

  private let listener: FileDescriptor
  private let rule: Rule
  private let target: Int
  private let passed = Lock<[UInt8]>([])
  private let connections = Lock<[Connection]>([])

  /// Both sockets, closed when neither the relay nor a thread uses them any more.
  private final class Connection: Sendable {
    let client: FileDescriptor
    let server: FileDescriptor

    init(client: consuming FileDescriptor, server: consuming FileDescriptor) {
      self.client = client
      self.server = server
    }
  }

  init(to target: Int, rule: @escaping Rule = { _, bytes, _ in [bytes] }) throws {
    guard let address = SocketAddress.literal(host: "127.0.0.1", port: 0) else { throw ScriptFailure.io("address") }
    listener = try Socket.listen(on: address, backlog: 64)
    port = try Socket.localAddress(listener).port ?? 0
    self.rule = rule
    self.target = target
    let listening = FileDescriptor(owning: fcntl(listener.rawValue, F_DUPFD_CLOEXEC, 0))
    Thread { [weak self] in
      while self != nil {
        var event = pollfd(fd: listening.rawValue, events: Int16(POLLIN), revents: 0)
        _ = poll(&event, 1, 100)
        guard let accepted = try? Socket.accept(listening) else { continue }
        self?.join(accepted)
      }
    }.start()
  }

  deinit { cut() }

  /// The bytes that the clients sent.
  var sent: [UInt8] { passed.withLock { $0 } }

  /// Ends every connection in both directions (TCP FIN).
  func cut() {
    for connection in connections.withLock({ $0 }) {
      Socket.shutdown(connection.client, both: true)
      Socket.shutdown(connection.server, both: true)
    }
  }

  private func join(_ client: consuming FileDescriptor) {
    guard let address = SocketAddress.literal(host: "127.0.0.1", port: target),
      let server = try? Socket.open(family: address.family)
    else { return }
    let connection = Connection(client: client, server: server)
    for descriptor in [connection.client.rawValue, connection.server.rawValue] { _ = fcntl(descriptor, F_SETFL, 0) }
    let raw = connection.server.rawValue
    guard address.withSystemAddress({ connect(raw, $0, $1) }) == 0 else { return }
    Socket.disableDelay(connection.client)
    Socket.disableDelay(connection.server)
    connections.withLock { $0.append(connection) }
    pass(connection, .toServer)
    pass(connection, .toClient)
  }

  private func pass(_ connection: Connection, _ direction: Direction) {
    let rule = rule
    Thread { [weak self] in
      let (client, server) = (connection.client.rawValue, connection.server.rawValue)
      let (source, target) = direction == .toServer ? (client, server) : (server, client)
      defer { withExtendedLifetime(connection) {} }
      var before = 0
      var buffer = [UInt8](repeating: 0, count: 64 << 10)
      reading: while true {
        let count = recv(source, &buffer, buffer.count, 0)
        guard count > 0 else { break }
        let bytes = Array(buffer[..<count])
        if direction == .toServer { self?.passed.withLock { $0 += bytes } }
        for piece in rule(direction, bytes, before) {
          if piece.isEmpty { shutdown(source, Int32(SHUT_RDWR)) }
          guard !piece.isEmpty, Self.write(piece, to: target) else { break reading }
        }
        before += count
      }
      shutdown(target, Int32(SHUT_WR))
    }.start()
  }

  private static func write(_ bytes: [UInt8], to descriptor: Int32) -> Bool {
    var written = 0
    while written < bytes.count {
      let count = bytes.withUnsafeBytes {
        send(descriptor, $0.baseAddress! + written, bytes.count - written, Int32(MSG_NOSIGNAL))
      }
      guard count > 0 else { return false }
      written += count
    }
    return true
  }
}

extension Array where Element == UInt8 {
  /// Cut into pieces of that many bytes.
  func pieces(of size: Int) -> [[UInt8]] {
    stride(from: 0, to: count, by: size).map { Array(self[$0..<Swift.min($0 + size, count)]) }
  }

  /// Whether these bytes occur somewhere.
  func contains(_ bytes: some Collection<UInt8>) -> Bool {
    guard count >= bytes.count else { return false }
    return (0...(count - bytes.count)).contains { self[$0..<($0 + bytes.count)].elementsEqual(bytes) }
  }
}
