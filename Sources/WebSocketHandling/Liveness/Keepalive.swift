/// Pings that find a dead connection: one that neither delivers nor reports an error (RFC 6455 §5.5.2).
///
/// A dead connection is noticed at most ``interval`` plus ``deadline`` after its last sign of life, and is then torn
/// down at once, since a closing handshake would have nobody to answer it: the record of the end says
/// ``CloseCode/abnormalClosure`` and ``TransportEnd/timedOut``.
///
/// Any received byte is a sign of life, not the pong alone; so is room in a socket that was full. While this endpoint
/// itself does not read, because messages wait for the application, nothing is concluded.
public struct Keepalive: Sendable, Hashable {
  /// The time between two pings.
  ///
  /// Default: 20 s, below the 30 s to 60 s after which common proxies drop a silent connection. Less than 1 ms counts as
  /// 1 ms.
  public var interval: Duration
  /// How long after a ping the first sign of life may take.
  ///
  /// Default: 20 s. Less than 1 ms counts as 1 ms.
  public var deadline: Duration

  /// Pings each `interval`, with `deadline` for an answer.
  public init(interval: Duration = .seconds(20), deadline: Duration = .seconds(20)) {
    self.interval = interval
    self.deadline = deadline
  }
}
