public import Dispatch
public import WebSocketCore
public import WebSocketTransport

/// How a ``DefaultWebSocketHandler`` works, beyond what a request says.
public struct HandlerConfiguration: Sendable {
  /// Where a handler's callbacks run.
  ///
  /// They are serial and in order in each case.
  public enum Callbacks: Sendable {
    /// On a serial queue of the handler's own.
    case privateQueue
    /// On a serial queue of the handler's own that runs on this one.
    case queue(DispatchQueue)
    /// On the connection's event loop: fastest, must not block.
    case eventLoop
  }

  /// Where callbacks run.
  ///
  /// Default: a private serial queue.
  public var callbacks = Callbacks.privateQueue
  /// What an incoming message may cost.
  public var limits = ConnectionLimits()
  /// The most that may wait to be sent, in bytes: payload plus 64 for each message.
  ///
  /// Default: 16 MiB, as much as the largest message that a peer with the same limits takes.
  ///
  /// A send is refused as ``EngineError/WebSocketError/limitExceeded(_:size:limit:)`` when something waits and the
  /// limit would be passed; one message up to the message limit always fits an empty queue.
  public var sendQueueLimit = 16 << 20
  /// The amount at which a send queue that had grown above it is told to have room again, in bytes as above.
  ///
  /// Default: 4 MiB, a quarter of the limit: enough is still queued to keep the network busy meanwhile.
  ///
  /// See ``DefaultWebSocketHandler/onSendQueueLow(_:)``; async sends that wait for room go on then.
  public var sendQueueLowMark = 4 << 20
  /// The most that is kept of complete messages nobody has asked for, in bytes: payload plus 64 each.
  ///
  /// Default: 1 MiB, what a fast local network delivers in about ten milliseconds: enough to keep the application busy.
  ///
  /// Above it the socket is not read until half of it is consumed, so that TCP holds the peer back. What is in a
  /// callback that has not returned counts too. As many receives may wait as 64 bytes go into it: 16,384; one more
  /// fails as ``Limit/receives``.
  public var receiveBufferLimit = 1 << 20
  /// The most pings that wait for their pong.
  ///
  /// Default: 16, so that a peer which never answers costs little memory; one more fails as ``Limit/pings``.
  ///
  /// Pings of the keepalive count for themselves.
  public var maximumPingsOutstanding = 16
  /// Pings that find dead connections, where a request does not bring its own.
  ///
  /// Default: nil, none.
  public var keepalive: Keepalive?
  /// Whether JSON goes out as text messages.
  ///
  /// Default: true; false: binary.
  public var sendsJSONAsText = true
  /// How `wss` connections are secured.
  ///
  /// Default: the server's certificate is verified against the system's authorities and the URL's host.
  public var tls = TLSConfiguration()
  /// Hears of the peer's pings and pongs, on the callbacks' thread.
  ///
  /// When they are read, which may be while messages before them still wait for their `receive`. Pings are answered
  /// without it.
  public var onControlFrame: (@Sendable (ControlFrameEvent) -> Void)?
  /// Hears of everything that happens, on the callbacks' thread.
  ///
  /// Default: nil. Without it, and without ``countsTraffic``, a message costs one comparison for it. An event that waits
  /// for the callbacks' thread counts towards ``receiveBufferLimit`` like an empty message.
  public var onEvent: (@Sendable (HandlerEvent) -> Void)?
  /// Whether ``DefaultWebSocketHandler/metrics`` are kept.
  ///
  /// Default: false; they are kept as well where ``onEvent`` is set.
  public var countsTraffic = false

  /// The defaults.
  public init() {}
}

/// A ping or a pong of the peer's.
public enum ControlFrameEvent: Sendable, Hashable {
  /// A ping with its payload; its pong is on its way.
  case ping([UInt8])
  /// A pong with its payload, and the time since its ping; nil where no ping waited for it.
  case pong([UInt8], roundTrip: Duration?)
}

/// What a message costs in a queue beside its payload, in bytes.
package let messageOverhead = 64
