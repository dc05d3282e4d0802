/// Turns addresses into a connected transport.
package protocol Dialer: Sendable {
  /// Tries the addresses in turn and calls `completion` once, on the loop's thread, unless the attempt is cancelled
  /// before.
  func dial(
    _ addresses: [SocketAddress], on loop: any EventLoop,
    completion: @escaping @Sendable (Result<any Transport, TransportError>) -> Void
  ) -> any DialAttempt
}

/// An attempt that can be given up.
package protocol DialAttempt: AnyObject, Sendable {
  /// Closes what is open; the completion is not called any more.
  func cancel()
}

/// Connects over TCP.
package struct TCPDialer: Dialer {
  package init() {}

  package func dial(
    _ addresses: [SocketAddress], on loop: any EventLoop,
    completion: @escaping @Sendable (Result<any Transport, TransportError>) -> Void
  ) -> any DialAttempt {
    guard let loop = loop as? EpollEventLoop else { preconditionFailure("sockets need a loop of the system's") }
    let attempt = TCPDialAttempt(addresses, on: loop, completion: completion)
    loop.execute { attempt.tryNext(after: nil) }
    return attempt
  }
}

/// One address after the other, the first that answers wins.
private final class TCPDialAttempt: DialAttempt, ReadinessHandler {
  private struct State: ~Copyable, Sendable {
    var remaining: [SocketAddress]
    var current: SocketAddress?
    var descriptor: FileDescriptor?
    var registration: Registration?
    /// Nil once the attempt is over.
    var completion: (@Sendable (Result<any Transport, TransportError>) -> Void)?
  }

  private let loop: EpollEventLoop
  private let state: Lock<State>

  init(
    _ addresses: [SocketAddress], on loop: EpollEventLoop,
    completion: @escaping @Sendable (Result<any Transport, TransportError>) -> Void
  ) {
    self.loop = loop
    state = Lock(State(remaining: addresses, completion: completion))
  }

  func cancel() {
    state.withLock { state in
      state.completion = nil
      giveBack(&state)
    }
  }

  /// Opens a socket to the next address, on the loop's thread.
  func tryNext(after failure: TransportError?) {
    let outcome = state.withLock { state -> (() -> Void)? in
      var failure = failure ?? .resolution(host: "", reason: "no address")
      while let completion = state.completion {
        guard !state.remaining.isEmpty else {
          state.completion = nil
          return { completion(.failure(failure)) }
        }
        let address = state.remaining.removeFirst()
        do throws(TransportError) {
          let descriptor = try Socket.open(family: address.family)
          state.current = address
          if try Socket.connect(descriptor, to: address) {
            state.descriptor = consume descriptor
            return succeed(&state)
          }
          state.registration = try loop.register(descriptor.rawValue, self)
          state.descriptor = consume descriptor
          return nil
        } catch {
          failure = error
        }
      }
      return nil
    }
    outcome?()
  }

  func isReady(readable: Bool, writable: Bool, hungUp: Bool) {
    var failure: TransportError?
    let outcome = state.withLock { state -> (() -> Void)? in
      guard writable, state.registration != nil, let address = state.current else { return nil }
      guard let descriptor = state.descriptor.take() else { return nil }
      let errorNumber = Socket.pendingError(descriptor)
      state.descriptor = consume descriptor
      if errorNumber == 0 { return succeed(&state) }
      giveBack(&state)
      failure = .connect(address: address.description, errorNumber: errorNumber)
      return nil
    }
    outcome?()
    if let failure { tryNext(after: failure) }
  }

  /// Hands the connected socket over; what is returned runs outside the lock.
  private func succeed(_ state: inout State) -> (() -> Void)? {
    guard let completion = state.completion.take(), let descriptor = state.descriptor.take() else { return nil }
    if let registration = state.registration.take() {
      loop.deregister(registration, descriptor: descriptor.rawValue)
    }
    let transport = TCPTransport(descriptor, on: loop)
    return { completion(.success(transport)) }
  }

  private func giveBack(_ state: inout State) {
    if let descriptor = state.descriptor.take(), let registration = state.registration.take() {
      loop.deregister(registration, descriptor: descriptor.rawValue)
    }
  }
}
