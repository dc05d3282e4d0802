/// A listening socket on an event loop.
package final class TCPListener: ReadinessHandler {
  /// Where it listens, with the port that the system picked.
  package let address: SocketAddress

  private let descriptor: FileDescriptor
  private let loop: EpollEventLoop
  private let loops: EventLoopGroup
  private let accepted: @Sendable (any Transport, any EventLoop) -> Void
  private let registration = Lock<Registration?>(nil)

  /// - Parameter accepted: called on a loop's thread with each connection and the loop that it is to stay on.
  package init(
    host: String, port: Int, loops: EventLoopGroup = .shared,
    accepted: @escaping @Sendable (any Transport, any EventLoop) -> Void
  ) throws(TransportError) {
    guard let wanted = try SocketAddress.resolve(host: host, port: port, passive: true).first else {
      throw .resolution(host: host, reason: "no address")
    }
    descriptor = try Socket.listen(on: wanted, backlog: 4096)
    address = try Socket.localAddress(descriptor)
    loop = loops.next()
    self.loops = loops
    self.accepted = accepted
    let made = try loop.register(descriptor.rawValue, self)
    registration.withLock { $0 = made }
  }

  package func isReady(readable: Bool, writable: Bool, hungUp: Bool) {
    guard readable else { return }
    do throws(TransportError) {
      while registration.withLock({ $0 != nil }), let connection = try Socket.accept(descriptor) {
        let target = loops.next()
        accepted(TCPTransport(connection, on: target), target)
      }
    } catch {
      // Out of descriptors or memory: what waits is taken up again shortly, when there may be some.
      _ = loop.schedule(after: .milliseconds(100)) { [self] in isReady(readable: true, writable: false, hungUp: false) }
    }
  }

  /// Stops listening; connections that were accepted stay.
  package func close() {
    let made = registration.withLock { $0.take() }
    if let made { loop.deregister(made, descriptor: descriptor.rawValue) }
    Socket.shutdown(descriptor, both: true)
  }
}
