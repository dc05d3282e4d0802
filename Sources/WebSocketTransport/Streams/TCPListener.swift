/// A listening socket on an event loop.
package final class TCPListener: ReadinessHandler {
  /// Where it listens, with the port that the system picked.
  package let address: SocketAddress

  /// How long nothing is accepted after a try that failed.
  private static let pause = Duration.milliseconds(100)

  private let descriptor: FileDescriptor
  private let loop: EpollEventLoop
  private let loops: EventLoopGroup
  private let accepted: @Sendable (any Transport, any EventLoop) -> Void
  private let state = Lock(State())

  private struct State: Sendable {
    var registration: Registration?
    var isClosed = false
    /// Whether another try follows one that failed.
    var triesAgain = false
  }

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
    state.withLock { $0.registration = made }
  }

  package func isReady(readable: Bool, writable: Bool, hungUp: Bool) {
    guard readable else { return }
    do throws(TransportError) {
      while state.withLock({ !$0.isClosed }), let connection = try Socket.accept(descriptor) {
        let target = loops.next()
        accepted(TCPTransport(connection, on: target), target)
      }
    } catch {
      // Out of descriptors or memory: what waits is taken up again shortly, when there may be some. One try at a time,
      // however many connect meanwhile.
      let mustTry = state.withLock { state in
        defer { state.triesAgain = true }
        return !state.triesAgain
      }
      guard mustTry else { return }
      _ = loop.schedule(after: Self.pause) { [self] in
        state.withLock { $0.triesAgain = false }
        isReady(readable: true, writable: false, hungUp: false)
      }
    }
  }

  /// Stops listening; connections that were accepted stay.
  package func close() {
    let made = state.withLock { state in
      state.isClosed = true
      return state.registration.take()
    }
    if let made { loop.deregister(made, descriptor: descriptor.rawValue) }
    Socket.shutdown(descriptor, both: true)
  }
}
