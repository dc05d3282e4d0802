import Synchronization
package import WebSocketCore

/// A connected stream socket on an event loop.
///
/// The descriptor is closed when the last reference to the transport goes, never under somebody's hands; ``close()``
/// ends the connection at once and forgets the handler.
package final class TCPTransport: Transport {
  private let descriptor: FileDescriptor
  private let loop: EpollEventLoop
  private let hungUp = Atomic<Bool>(false)
  private let state: Lock<State>

  private struct State: Sendable {
    var registration: Registration?
    /// How the stream broke, once a call has met it: the system tells each break once, to the call that comes first,
    /// and answers later ones as if the stream had ended in order.
    var breakage: TransportEnd?
  }

  /// - Parameter registration: that of the descriptor, where the loop watches it already.
  package init(
    _ descriptor: consuming FileDescriptor, on loop: EpollEventLoop, registration: consuming Registration? = nil
  ) {
    Socket.disableDelay(descriptor)
    self.descriptor = descriptor
    self.loop = loop
    state = Lock(State(registration: registration))
  }

  package func start(_ handler: any TransportHandler) throws(TransportError) {
    let readiness = Readiness(transport: self, handler: handler)
    if let registration = state.withLock({ $0.registration }) {
      return try loop.hand(registration, descriptor: descriptor.rawValue, to: readiness)
    }
    let made = try loop.register(descriptor.rawValue, readiness)
    state.withLock { $0.registration = made }
  }

  package func read(into buffer: UnsafeMutableRawBufferPointer) -> ReadOutcome {
    let outcome = Socket.read(descriptor, into: buffer)
    if case .end(let end) = outcome { return .end(remember(end)) }
    return outcome
  }

  package func write(_ bytes: UnsafeRawBufferPointer) -> WriteOutcome {
    let outcome = Socket.write(descriptor, bytes)
    if case .failed(let end) = outcome { return .failed(remember(end)) }
    return outcome
  }

  package var peerHasFinished: Bool { hungUp.load(ordering: .relaxed) }

  package var failure: TransportEnd? { Socket.failure(descriptor).map(remember) }

  /// The first break that was met, or that end where none was.
  private func remember(_ end: TransportEnd) -> TransportEnd {
    state.withLock { state in
      if let breakage = state.breakage { return breakage }
      if end != .finished { state.breakage = end }
      return end
    }
  }

  package func finishWriting() { Socket.shutdown(descriptor, both: false) }

  package func close() {
    forget()
    Socket.shutdown(descriptor, both: true)
  }

  deinit { forget() }

  private func forget() {
    let made = state.withLock { $0.registration.take() }
    if let made { loop.deregister(made, descriptor: descriptor.rawValue) }
  }

  /// Makes ``close()`` reset the connection instead of ending it in order.
  package func resetOnClose() { Socket.resetOnClose(descriptor) }

  /// Ties the loop's news to the transport that they are about.
  private final class Readiness: ReadinessHandler {
    private let transport: TCPTransport
    private let handler: any TransportHandler

    init(transport: TCPTransport, handler: any TransportHandler) {
      self.transport = transport
      self.handler = handler
    }

    func isReady(readable: Bool, writable: Bool, hungUp: Bool) {
      if hungUp { transport.hungUp.store(true, ordering: .relaxed) }
      handler.transportIsReady(transport, readable: readable, writable: writable)
    }
  }
}
