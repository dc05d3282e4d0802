/// Decides what a quote client does: inputs change it, outputs are to be performed in order.
///
/// A value: it does nothing itself.
struct QuoteClientMachine: Sendable {
  enum Output: Sendable, Hashable {
    case connect
    /// Wait for the next message.
    case receive
    case send(ClientMessage)
    case disconnect
    /// The connection is closed as its owner wished.
    case closed
    /// A price for a subscription.
    case price(UInt64, String)
    /// A subscription has failed and is over.
    case failed(UInt64)
    /// A subscription is over as its owner wished.
    case finished(UInt64)
  }

  private enum Link: Sendable {
    case closed
    case connecting
    /// Connected; the server may not have greeted yet.
    case open(isGreeted: Bool)
    /// The handler closes; whether somebody subscribed meanwhile decides what follows.
    case closing
    /// The handler has closed, but not answered the connect that was given up.
    case abandoned
  }

  private struct Subscription: Sendable {
    let id: UInt64
    let product: String
  }

  private var link = Link.closed
  /// Whether the handler has not answered the last connect.
  private var owesConnect = false
  private var lastID: UInt64 = 0
  private var subscriptions: [Subscription] = []
  /// The products that the server was asked for on this connection.
  private var requested: Set<String> = []
  /// The server's id for this connection.
  private(set) var connectionID: Int?

  var isOpen: Bool {
    if case .open = link { return true }
    return false
  }

  /// Whether the handler has a connection, or is about to.
  var usesHandler: Bool {
    switch link {
    case .connecting, .open: true
    case .closed, .closing, .abandoned: false
    }
  }

  func isSubscribed(_ id: UInt64) -> Bool { subscriptions.contains { $0.id == id } }

  mutating func subscribe(to product: String) -> (id: UInt64, outputs: [Output]) {
    lastID += 1
    subscriptions.append(Subscription(id: lastID, product: product))
    switch link {
    case .closed: return (lastID, connect())
    case .open(isGreeted: true): return (lastID, request(product))
    case .open(isGreeted: false), .connecting, .closing, .abandoned: return (lastID, [])
    }
  }

  /// Ends one subscription; the connection is closed with the last.
  mutating func cancel(_ id: UInt64) -> [Output] {
    guard subscriptions.contains(where: { $0.id == id }) else { return [] }
    subscriptions.removeAll { $0.id == id }
    return [.finished(id)] + (subscriptions.isEmpty ? close() : [])
  }

  /// Ends all subscriptions and the connection.
  mutating func close() -> [Output] {
    var outputs = subscriptions.map { Output.finished($0.id) }
    subscriptions = []
    switch link {
    case .closed, .abandoned: return outputs + [.closed]
    case .closing: return outputs
    case .connecting, .open: break
    }
    if let connectionID { outputs.append(.send(.unsubscribe(connectionID: connectionID))) }
    forgetConnection()
    link = .closing
    return outputs + [.disconnect]
  }

  mutating func connected() -> [Output] {
    owesConnect = false
    switch link {
    case .connecting:
      link = .open(isGreeted: false)
      return [.receive]
    case .closing, .abandoned:
      // A handler whose connect cannot be cancelled has a connection that nobody wants.
      link = .closing
      return [.disconnect]
    case .closed, .open: return []
    }
  }

  /// No connection came about.
  mutating func connectFailed() -> [Output] {
    owesConnect = false
    if case .abandoned = link { return free() }
    return ended(isClosed: true)
  }

  mutating func received(_ message: ServerMessage) -> [Output] {
    guard case .open(let isGreeted) = link else { return [] }
    switch message {
    case .connected:
      // A session that connects again by itself is greeted again.
      forgetConnection()
      link = .open(isGreeted: true)
      return subscriptions.flatMap { request($0.product) } + [.receive]
    case .ack(let connectionID):
      self.connectionID = connectionID
    case .quote(let product, let price):
      return subscriptions.filter { $0.product == product }.map { .price($0.id, price) } + [.receive]
    case .failed(let topic):
      guard isGreeted else { break }
      let failed = fail { topic == nil || Wire.topic(of: $0.product) == topic }
      return failed + (subscriptions.isEmpty ? close() : [.receive])
    case .unknown: break
    }
    return [.receive]
  }

  /// The connection has ended.
  ///
  /// - Parameter isClosed: whether the handler says so; where not, it may still hold one.
  mutating func ended(isClosed: Bool) -> [Output] {
    switch link {
    // The answer to our own close tells more.
    case .closed, .closing, .abandoned: return []
    case .connecting, .open: break
    }
    forgetConnection()
    link = isClosed ? .closed : .closing
    return fail { _ in true } + (isClosed ? [] : [.disconnect])
  }

  /// The handler has closed, as we wished.
  mutating func disconnected() -> [Output] {
    guard case .closing = link else { return [] }
    link = .abandoned
    return [.closed] + (owesConnect ? [] : free())
  }

  /// The handler can connect again.
  private mutating func free() -> [Output] {
    link = .closed
    return subscriptions.isEmpty ? [] : connect()
  }

  private mutating func connect() -> [Output] {
    link = .connecting
    owesConnect = true
    return [.connect]
  }

  private mutating func request(_ product: String) -> [Output] {
    requested.insert(product).inserted ? [.send(.subscribe(topic: Wire.topic(of: product)))] : []
  }

  private mutating func fail(where isMeant: (Subscription) -> Bool) -> [Output] {
    let failed = subscriptions.filter(isMeant)
    subscriptions.removeAll(where: isMeant)
    for subscription in failed { requested.remove(subscription.product) }
    return failed.map { .failed($0.id) }
  }

  private mutating func forgetConnection() {
    requested = []
    connectionID = nil
  }
}
