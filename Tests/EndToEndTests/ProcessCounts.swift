import Foundation
import Glibc
import Testing
import WebSocketTransport

/// What this process holds of the system's.
struct ProcessCounts: Sendable, Hashable {
  var descriptors: Int
  var threads: Int

  static var now: ProcessCounts {
    ProcessCounts(descriptors: count("/proc/self/fd"), threads: count("/proc/self/task"))
  }

  private static func count(_ directory: String) -> Int {
    (try? FileManager.default.contentsOfDirectory(atPath: directory).count) ?? 0
  }

  /// Waits until no more is held than before: ends that are under way take their time.
  ///
  /// For a process of its own, where nothing else opens descriptors.
  func isReachedAgain(sourceLocation: SourceLocation = #_sourceLocation) {
    let deadline = ContinuousClock.now + .seconds(120)
    var found = ProcessCounts.now
    while found.descriptors > descriptors || found.threads > threads, ContinuousClock.now < deadline {
      usleep(10_000)
      found = .now
    }
    #expect(found.descriptors <= descriptors, sourceLocation: sourceLocation)
    #expect(found.threads <= threads, sourceLocation: sourceLocation)
  }
}

/// A port of 127.0.0.1 that refuses every connection: it is taken, and nobody listens.
struct RefusingPort: ~Copyable {
  let port: Int
  private let descriptor: FileDescriptor

  init() throws {
    let address = try #require(SocketAddress.literal(host: "127.0.0.1", port: 0))
    let socket = try Socket.open(family: address.family)
    let raw = socket.rawValue
    _ = address.withSystemAddress { bind(raw, $0, $1) }
    port = try Socket.localAddress(socket).port ?? 0
    descriptor = socket
  }
}

/// A port on 127.0.0.2 that answers no attempt to connect: its queue of connections is full.
struct SilentPort: ~Copyable {
  let port: Int
  private let listener: FileDescriptor
  // Closed when the value goes.
  private let clients: Clients

  private final class Clients {
    var descriptors: [Int32] = []
    deinit { for descriptor in descriptors { close(descriptor) } }
  }

  init() throws {
    let address = try #require(SocketAddress.literal(host: "127.0.0.2", port: 0))
    let socket = try Socket.listen(on: address, backlog: 0)
    let number = try Socket.localAddress(socket).port ?? 0
    let full = try #require(SocketAddress.literal(host: "127.0.0.2", port: number))
    let filling = Clients()
    for _ in 0..<4 {
      let client = try Socket.open(family: full.family)
      _ = try Socket.connect(client, to: full)
      filling.descriptors.append(client.release())
    }
    port = number
    clients = filling
    listener = socket
  }
}
