public import WebSocketHandling

/// How an ``ActionCableClient`` works.
public struct CableConfiguration: Sendable {
  /// How long things may take.
  ///
  /// The client's own `staleAfter` goes before the one in here.
  public var timing = CableTiming()
  /// When to connect again.
  ///
  /// Default: `ReconnectPolicy.actionCable`. What a `disconnect` frame, silence or a wrong
  /// subprotocol mean is the protocol's own affair and not asked of the policy.
  public var policy = ReconnectPolicy.actionCable
  /// Makes the request of each attempt, from one that has URL, headers, `Origin` and subprotocols already.
  ///
  /// Default: nil, that one is used. With a provider a `disconnect` frame that says `unauthorized` or `token_expired` is
  /// tried again once per outage, whatever it says about reconnecting.
  public var requestProvider: RequestProvider?
  /// The `Origin` header, where ``ActionCableClient/headers`` has none.
  ///
  /// Default: nil, the URL's own: Rails refuses a connection without one.
  public var origin: String?
  /// Subprotocols to offer behind Action Cable's own, such as one that carries a token.
  public var subprotocols: [String] = []
  /// How values become JSON and back.
  public var coding = CableCoding()
  /// What a subscription may keep that its receiver has not taken.
  public var backlog = Backlog()
  /// What may wait for a confirmation, where a subscription lets its messages wait.
  public var performBuffer = PerformBuffer()
  /// How long an attempt may take until the WebSocket is open.
  ///
  /// Default: 10 s.
  public var connectTimeout = Duration.seconds(10)
  /// How long the closing handshake may take.
  ///
  /// Default: 2 s, since a connection that was given up as dead is not going to answer, and the next waits for it.
  public var closeTimeout = Duration.seconds(2)

  /// The defaults.
  public init() {}
}

extension ReconnectPolicy {
  /// The standard policy, but that a close with 1000 is tried again.
  ///
  /// Rails closes with 1000 whatever the reason; whether to come back is said by its `disconnect` frame.
  public static let actionCable = ReconnectPolicy { cause in
    if case .closed(let record) = cause.failure, record.code == .normalClosure { return .retry() }
    return standard(cause)
  }
}

/// What a subscription keeps that its receiver has not taken, and what happens to more.
public struct Backlog: Sendable, Hashable {
  /// What happens to a message that is too much.
  public enum Overflow: Sendable, Hashable {
    /// It is kept, and the socket is not read until no more than half of the backlog is left, of its messages and of
    /// its bytes: TCP holds the server back, and with it every subscription of the client. Nothing is lost.
    case holdBack
    /// The oldest message goes, and a ``Gap`` stands in its place.
    case dropOldest
    /// It goes itself, and a ``Gap`` stands in its place.
    case dropNewest
  }

  /// The most messages that are kept.
  ///
  /// Default: 1,000.
  public var messages: Int
  /// The most that is kept, in bytes: each message's frame plus 64.
  ///
  /// Default: 1 MiB, as much as a connection keeps unread. The message that reaches the limit may pass it, so that one
  /// of any size is kept.
  public var bytes: Int
  /// What happens to more.
  ///
  /// Default: ``Overflow/holdBack``.
  public var overflow: Overflow

  /// A backlog.
  public init(messages: Int = 1_000, bytes: Int = 1 << 20, overflow: Overflow = .holdBack) {
    self.messages = messages
    self.bytes = bytes
    self.overflow = overflow
  }
}
