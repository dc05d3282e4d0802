public import WebSocketTransport

/// An environment that a test drives by hand: a clock that stands still, a network in memory, chance from a seed.
///
/// Handlers made with ``environment`` do nothing by themselves. ``advance(by:)`` moves the clock and runs, on the
/// caller's thread, whatever is due: the event loop's work, timers, and the callbacks of handlers whose configuration
/// says a queue. So a test of a ten-second time-out takes no time, and always goes the same way:
///
///     let manual = ManualEnvironment()
///     let handler = DefaultWebSocketHandler(environment: manual.environment)
///     handler.connect(request: request) { result in … }
///     let server = try manual.nextConnection()
///     try server.open()
///     server.send(.text("hello"))
///     manual.settle()
///
/// Methods of handlers may be called from any thread at any time; the environment runs on one thread at a time.
public final class ManualEnvironment: Sendable {
  /// What a handler is made with.
  public let environment: Environment

  private let loop: ManualLoop
  private let network: ManualNetwork

  /// An environment at time zero.
  ///
  /// - Parameters:
  ///   - seed: decides on the random bytes: keys, masks, jitter.
  ///   - readBufferBytes: the most that one read of a connection takes. Default: 64 KiB.
  public init(seed: UInt64 = 1, readBufferBytes: Int = 64 << 10) {
    let loop = ManualLoop(readBufferBytes: readBufferBytes)
    let network = ManualNetwork(on: loop)
    self.loop = loop
    self.network = network
    environment = Environment(
      makeLoop: { loop }, callbackExecutor: ManualCallbackExecutor(loop: loop),
      runBlocking: { loop.executeElsewhere($0) }, random: SeededRandomSource(seed: seed), resolver: network,
      dialer: network)
  }

  // MARK: Time

  /// How far the clock was moved.
  public var elapsed: Duration { loop.now - Instant(nanoseconds: 0) }

  /// Moves the clock and runs what is due, on this thread; returns when nothing is left to do at the new time.
  ///
  /// Time goes step by step: each timer runs at its exact time, in order, and what follows from it runs before time
  /// moves on. Not to be called from inside a callback.
  public func advance(by duration: Duration) { loop.advance(by: duration) }

  /// Runs what is due now: the clock stands still.
  public func settle() { loop.advance(by: .zero) }

  /// Whether a timer is set.
  public var hasTimers: Bool { loop.hasTimers }

  // MARK: The network

  /// Decides what a name resolves to from now on.
  ///
  /// Otherwise a numeric address is itself, and any name is 192.0.2.1.
  public func script(name: String, _ answer: NameAnswer) { network.script(name: name, answer) }

  /// Decides what happens to attempts to connect to a numeric address from now on.
  ///
  /// Otherwise each address accepts at once.
  public func script(address: String, _ answer: DialAnswer) { network.script(address: address, answer) }

  /// The names that were looked up, in order.
  public var lookedUp: [String] { network.lookedUp }

  /// The addresses that were dialled, with their ports, in order.
  public var dialled: [String] { network.dialled }

  /// How many attempts to connect are under way.
  public var pendingDials: Int { network.pendingDials }

  /// All connections that were ever accepted, in order.
  public var connections: [MemoryConnection] { network.connections }

  /// Runs what is due and returns the oldest accepted connection that this method has not returned before.
  ///
  /// - Throws: ``ScriptFailure/missing`` where there is none.
  public func nextConnection() throws -> MemoryConnection {
    settle()
    guard let connection = network.takeConnection() else { throw ScriptFailure.missing }
    return connection
  }
}
