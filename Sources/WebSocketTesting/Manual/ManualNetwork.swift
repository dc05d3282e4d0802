import Glibc
import WebSocketTransport

/// What a ``ManualEnvironment`` answers when a name is looked up.
public enum NameAnswer: Sendable, Hashable {
  /// These numeric addresses, in this order, so much later.
  case addresses([String], after: Duration = .zero)
  /// An error in these words, so much later.
  case failure(String, after: Duration = .zero)
  /// Nothing, ever.
  case never
}

/// What a ``ManualEnvironment`` answers when an address is dialled.
public enum DialAnswer: Sendable, Hashable {
  /// A connection, so much later.
  case accepted(after: Duration = .zero)
  /// Connection refused, so much later.
  case refused(after: Duration = .zero)
  /// Nothing, ever: the way of a firewall that drops packets.
  case never
}

/// Names, addresses and connections of a manual environment.
final class ManualNetwork: Resolver, Dialer {
  private struct State: Sendable {
    var names: [String: NameAnswer] = [:]
    var addresses: [String: DialAnswer] = [:]
    var lookedUp: [String] = []
    var dialled: [String] = []
    var pendingDials = 0
    var connections: [MemoryConnection] = []
    var taken = 0
  }

  /// An address that stands for nobody (RFC 5737 §3).
  private static let defaultAddress = "192.0.2.1"

  private let loop: ManualLoop
  private let state = Lock(State())

  init(on loop: ManualLoop) { self.loop = loop }

  // MARK: What a test says and reads

  func script(name: String, _ answer: NameAnswer) { state.withLock { $0.names[name] = answer } }

  func script(address: String, _ answer: DialAnswer) { state.withLock { $0.addresses[address] = answer } }

  var lookedUp: [String] { state.withLock { $0.lookedUp } }
  var dialled: [String] { state.withLock { $0.dialled } }
  var pendingDials: Int { state.withLock { $0.pendingDials } }
  var connections: [MemoryConnection] { state.withLock { $0.connections } }

  /// The oldest connection that was not taken before.
  func takeConnection() -> MemoryConnection? {
    state.withLock { state in
      guard state.taken < state.connections.count else { return nil }
      defer { state.taken += 1 }
      return state.connections[state.taken]
    }
  }

  // MARK: Names

  func resolve(
    host: String, port: Int, completion: @escaping @Sendable (Result<[SocketAddress], TransportError>) -> Void
  ) {
    let script = state.withLock { state in
      state.lookedUp.append(host)
      return state.names[host]
    }
    // A literal is answered within the call, as the system's resolver does.
    if script == nil, let literal = SocketAddress.literal(host: host, port: port) {
      return completion(.success([literal]))
    }
    switch script ?? .addresses([Self.defaultAddress]) {
    case .addresses(let addresses, let delay):
      later(delay) {
        let found = addresses.compactMap { SocketAddress.literal(host: $0, port: port) }
        precondition(found.count == addresses.count, "a scripted address is numeric")
        completion(.success(found))
      }
    case .failure(let reason, let delay): later(delay) { completion(.failure(.resolution(host: host, reason: reason))) }
    case .never: break
    }
  }

  /// Names are resolved off the loop.
  private func later(_ delay: Duration, _ work: @escaping @Sendable () -> Void) {
    if delay > .zero {
      _ = loop.schedule(after: delay) { [loop] in loop.executeElsewhere(work) }
    } else {
      loop.executeElsewhere(work)
    }
  }

  // MARK: Addresses

  func dial(
    _ addresses: [SocketAddress], on loop: any EventLoop,
    completion: @escaping @Sendable (Result<any Transport, TransportError>) -> Void
  ) -> any DialAttempt {
    state.withLock { $0.pendingDials += 1 }
    let attempt = ManualDialAttempt(
      TCPDialer.interleaved(addresses), on: self.loop, network: self, completion: completion)
    loop.execute { attempt.startNext() }
    return attempt
  }

  fileprivate func dialEnded() { state.withLock { $0.pendingDials -= 1 } }

  fileprivate func tryToConnect(
    to address: SocketAddress, completion: @escaping @Sendable (Result<any Transport, TransportError>) -> Void
  ) {
    let script = state.withLock { state in
      state.dialled.append("\(address)")
      return state.addresses[address.host] ?? .accepted()
    }
    switch script {
    case .accepted(let delay):
      _ = loop.schedule(after: delay) { [loop] in completion(.success(MemoryTransport(on: loop))) }
    case .refused(let delay):
      _ = loop.schedule(after: delay) {
        completion(.failure(.connect(address: "\(address)", errorNumber: ECONNREFUSED)))
      }
    case .never: break
    }
  }

  fileprivate func opened(_ transport: any Transport, to address: SocketAddress) {
    guard let transport = transport as? MemoryTransport else { return }
    state.withLock { $0.connections.append(MemoryConnection(address: "\(address)", transport: transport)) }
  }
}

/// The first address that accepts wins; each gets a head start, as over TCP (``TCPDialer``).
private final class ManualDialAttempt: DialAttempt {
  private struct State: Sendable {
    var remaining: ArraySlice<SocketAddress>
    /// How many addresses have not answered.
    var underWay = 0
    var timer: LoopTimer?
    /// Why the last address failed.
    var failure = TransportError.resolution(host: "", reason: "no address")
    /// Nil once the attempt is over.
    var completion: (@Sendable (Result<any Transport, TransportError>) -> Void)?
  }

  private let loop: ManualLoop
  private let network: ManualNetwork
  private let state: Lock<State>

  init(
    _ addresses: [SocketAddress], on loop: ManualLoop, network: ManualNetwork,
    completion: @escaping @Sendable (Result<any Transport, TransportError>) -> Void
  ) {
    self.loop = loop
    self.network = network
    state = Lock(State(remaining: addresses[...], completion: completion))
  }

  func cancel() { _ = end() }

  /// Starts with the next address; ends the attempt where none is left and none is under way.
  func startNext() {
    let (address, failure) = state.withLock { state -> (SocketAddress?, TransportError?) in
      if let timer = state.timer.take() { loop.cancel(timer) }
      guard state.completion != nil else { return (nil, nil) }
      guard let address = state.remaining.popFirst() else { return (nil, state.underWay == 0 ? state.failure : nil) }
      state.underWay += 1
      if !state.remaining.isEmpty {
        state.timer = loop.schedule(after: TCPDialer.headStart) { [self] in startNext() }
      }
      return (address, nil)
    }
    if let failure { end()?(.failure(failure)) }
    guard let address else { return }
    network.tryToConnect(to: address) { [self] result in
      switch result {
      case .failure(let failure):
        state.withLock { state in
          state.underWay -= 1
          state.failure = failure
        }
        startNext()
      case .success(let transport):
        guard let completion = end() else { return }
        network.opened(transport, to: address)
        completion(.success(transport))
      }
    }
  }

  private func end() -> (@Sendable (Result<any Transport, TransportError>) -> Void)? {
    let completion = state.withLock { state in
      if let timer = state.timer.take() { loop.cancel(timer) }
      return state.completion.take()
    }
    if completion != nil { network.dialEnded() }
    return completion
  }
}
