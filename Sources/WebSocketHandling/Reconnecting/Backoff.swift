/// How long to wait before each attempt to connect again.
///
/// Each delay is drawn evenly between zero and a bound ("full jitter"), so that clients that lost their server together
/// do not come back together (RFC 6455 §7.2.3). The bounds are, with the defaults, 5, 2, 4, 8, 16, 30, 30, … seconds.
public struct Backoff: Sendable, Hashable {
  /// The bound of the first delay.
  ///
  /// Default: 5 s, which RFC 6455 §7.2.3 calls a reasonable choice.
  public var first: Duration
  /// The bound of the second delay; it doubles from there.
  ///
  /// Default: 2 s, since the first delay has spread the clients.
  public var base: Duration
  /// The largest bound.
  ///
  /// Default: 30 s, about as long as a person waits for a server that is back.
  public var maximum: Duration
  /// How long a connection must have lasted for the schedule to begin anew.
  ///
  /// Default: 5 s.
  ///
  /// Without it a server that accepts and drops at once would be asked again at the pace of the first delays forever.
  public var resetAfter: Duration

  /// A schedule; negative durations count as zero.
  public init(
    first: Duration = .seconds(5), base: Duration = .seconds(2), maximum: Duration = .seconds(30),
    resetAfter: Duration = .seconds(5)
  ) {
    self.first = first
    self.base = base
    self.maximum = maximum
    self.resetAfter = resetAfter
  }

  /// The bound of the delay before that attempt, 1 being the first after a loss or a failure.
  public func bound(attempt: Int) -> Duration {
    guard attempt > 1 else { return max(.zero, first) }
    let ceiling = max(.zero, maximum)
    var bound = max(.zero, base)
    var step = 2
    while bound > .zero, ceiling > bound, attempt > step {
      bound = bound > ceiling - bound ? ceiling : bound + bound
      step += 1
    }
    return min(bound, ceiling)
  }

  /// The delay before that attempt: the share of its bound that the bits stand for, none set being zero.
  public func delay(attempt: Int, randomBits: UInt64) -> Duration {
    // 53 bits are what a Double holds exactly; more could round up to one.
    bound(attempt: attempt) * (Double(randomBits >> 11) / Double(UInt64.max >> 11))
  }
}
