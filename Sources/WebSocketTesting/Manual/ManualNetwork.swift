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
    let attempt = ManualDialAttempt(addresses, network: self, completion: completion)
    loop.execute { attempt.tryNext(after: .resolution(host: "", reason: "no address")) }
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

/// One address after the other; the first that accepts wins.
private final class ManualDialAttempt: DialAttempt {
  private struct State: Sendable {
    var remaining: [SocketAddress]
    /// Nil once the attempt is over.
    var completion: (@Sendable (Result<any Transport, TransportError>) -> Void)?
  }

  private let network: ManualNetwork
  private let state: Lock<State>

  init(
    _ addresses: [SocketAddress], network: ManualNetwork,
    completion: @escaping @Sendable (Result<any Transport, TransportError>) -> Void
  ) {
    self.network = network
    state = Lock(State(remaining: addresses, completion: completion))
  }

  func cancel() { _ = end() }

  func tryNext(after failure: TransportError) {
    let address = state.withLock { state -> SocketAddress? in
      guard state.completion != nil, !state.remaining.isEmpty else { return nil }
      return state.remaining.removeFirst()
    }
    guard let address else {
      end()?(.failure(failure))
      return
    }
    network.tryToConnect(to: address) { [self] result in
      switch result {
      case .failure(let failure): tryNext(after: failure)
      case .success(let transport):
        guard let completion = end() else { return }
        network.opened(transport, to: address)
        completion(.success(transport))
      }
    }
  }

  private func end() -> (@Sendable (Result<any Transport, TransportError>) -> Void)? {
    let completion = state.withLock { $0.completion.take() }
    if completion != nil { network.dialEnded() }
    return completion
  }
}
