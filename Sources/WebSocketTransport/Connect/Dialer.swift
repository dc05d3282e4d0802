/// Turns addresses into a connected transport.
package protocol Dialer: Sendable {
  /// Tries the addresses, the preferred ones first, and calls `completion` once, on the loop's thread, unless the attempt is cancelled
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

/// Connects over TCP, to the address that answers first.
///
/// The addresses of the two families take turns, and each gets a head start of 250 ms before the next is tried beside
/// it (RFC 8305 §5), so that one that does not answer costs no more than that; one that refuses costs nothing.
package struct TCPDialer: Dialer {
  /// The head start of each address.
  package static let headStart = Duration.milliseconds(250)

  package init() {}

  package func dial(
    _ addresses: [SocketAddress], on loop: any EventLoop,
    completion: @escaping @Sendable (Result<any Transport, TransportError>) -> Void
  ) -> any DialAttempt {
    guard let loop = loop as? EpollEventLoop else { preconditionFailure("sockets need a loop of the system's") }
    let attempt = TCPDialAttempt(Self.interleaved(addresses), on: loop, completion: completion)
    loop.execute { attempt.startNext() }
    return attempt
  }

  /// The addresses with their families taking turns, beginning with the first one's (RFC 8305 §4).
  package static func interleaved(_ addresses: [SocketAddress]) -> [SocketAddress] {
    let preferred = addresses.filter { $0.family == addresses[0].family }
    let others = addresses.filter { $0.family != addresses[0].family }
    var order: [SocketAddress] = []
    for index in 0..<max(preferred.count, others.count) {
      if index < preferred.count { order.append(preferred[index]) }
      if index < others.count { order.append(others[index]) }
    }
    return order
  }
}

/// The sockets that race for one connection; all but the winner are closed.
private final class TCPDialAttempt: DialAttempt {
  typealias Completion = @Sendable (Result<any Transport, TransportError>) -> Void

  private struct State: Sendable {
    var remaining: ArraySlice<SocketAddress>
    var candidates: [Candidate] = []
    var timer: LoopTimer?
    /// Why the last address failed.
    var failure = TransportError.resolution(host: "", reason: "no address")
    /// Nil once the attempt is over.
    var completion: Completion?
  }

  private let loop: EpollEventLoop
  private let state: Lock<State>

  init(_ addresses: [SocketAddress], on loop: EpollEventLoop, completion: @escaping Completion) {
    self.loop = loop
    state = Lock(State(remaining: addresses[...], completion: completion))
  }

  func cancel() {
    state.withLock { state in
      state.completion = nil
      giveBack(&state)
    }
  }

  /// Starts with the next address, on the loop's thread; ends the attempt where none is left and none is under way.
  func startNext() {
    let outcome = state.withLock { state -> (() -> Void)? in
      cancelTimer(&state)
      while state.completion != nil, let address = state.remaining.popFirst() {
        do throws(TransportError) {
          let candidate = Candidate(try Socket.open(family: address.family), address, of: self)
          if try candidate.connect(on: loop) { return succeed(candidate, &state) }
          state.candidates.append(candidate)
          if !state.remaining.isEmpty {
            state.timer = loop.schedule(after: TCPDialer.headStart) { [self] in startNext() }
          }
          return nil
        } catch {
          state.failure = error
        }
      }
      return failIfOver(&state)
    }
    outcome?()
  }

  /// A candidate is connected or has failed.
  fileprivate func isDecided(_ candidate: Candidate) {
    var mustGoOn = false
    let outcome = state.withLock { state -> (() -> Void)? in
      guard let index = state.candidates.firstIndex(where: { $0 === candidate }) else { return nil }
      guard let error = candidate.error else { return succeed(candidate, &state) }
      state.candidates.remove(at: index)
      candidate.close(on: loop)
      state.failure = error
      mustGoOn = !state.remaining.isEmpty
      return mustGoOn ? nil : failIfOver(&state)
    }
    outcome?()
    if mustGoOn { startNext() }
  }

  /// Hands the connected socket over; what is returned runs outside the lock.
  private func succeed(_ candidate: Candidate, _ state: inout State) -> (() -> Void)? {
    guard let completion = state.completion.take() else { return nil }
    state.candidates.removeAll { $0 === candidate }
    let transport = candidate.takeTransport(on: loop)
    giveBack(&state)
    return transport.map { transport in { completion(.success(transport)) } }
  }

  private func failIfOver(_ state: inout State) -> (() -> Void)? {
    guard state.remaining.isEmpty, state.candidates.isEmpty, let completion = state.completion.take() else {
      return nil
    }
    let failure = state.failure
    return { completion(.failure(failure)) }
  }

  private func giveBack(_ state: inout State) {
    cancelTimer(&state)
    for candidate in state.candidates { candidate.close(on: loop) }
    state.candidates = []
    state.remaining = []
  }

  private func cancelTimer(_ state: inout State) {
    if let timer = state.timer.take() { loop.cancel(timer) }
  }
}

/// One socket of the race; used under the attempt's lock.
private final class Candidate: ReadinessHandler {
  private struct State: ~Copyable, Sendable {
    var descriptor: FileDescriptor?
    var registration: Registration?
  }

  private let address: SocketAddress
  private let attempt: TCPDialAttempt
  private let state: Lock<State>

  init(_ descriptor: consuming FileDescriptor, _ address: SocketAddress, of attempt: TCPDialAttempt) {
    self.address = address
    self.attempt = attempt
    state = Lock(State(descriptor: descriptor))
  }

  /// Starts to connect: true where it is done, false where readiness will tell.
  func connect(on loop: EpollEventLoop) throws(TransportError) -> Bool {
    try state.withLock { state throws(TransportError) in
      guard let descriptor = state.descriptor.take() else { return false }
      let isConnected = try Socket.connect(descriptor, to: address)
      if !isConnected { state.registration = try loop.register(descriptor.rawValue, self) }
      state.descriptor = consume descriptor
      return isConnected
    }
  }

  /// Why it could not connect; nil where it is connected.
  var error: TransportError? {
    state.withLock { state in
      guard let descriptor = state.descriptor.take() else { return nil }
      let errorNumber = Socket.pendingError(descriptor)
      state.descriptor = consume descriptor
      return errorNumber == 0 ? nil : .connect(address: address.description, errorNumber: errorNumber)
    }
  }

  func isReady(readable: Bool, writable: Bool, hungUp: Bool) {
    if writable { attempt.isDecided(self) }
  }

  /// The socket as a transport; this candidate has none any more.
  func takeTransport(on loop: EpollEventLoop) -> TCPTransport? {
    state.withLock { state in
      guard let descriptor = state.descriptor.take() else { return nil }
      return TCPTransport(descriptor, on: loop, registration: state.registration.take())
    }
  }

  /// Closes the socket.
  func close(on loop: EpollEventLoop) {
    state.withLock { state in
      guard let descriptor = state.descriptor.take() else { return }
      if let registration = state.registration.take() {
        loop.deregister(registration, descriptor: descriptor.rawValue)
      }
      _ = consume descriptor
    }
  }
}
