import WebSocketHandling

/// What happens when an instance of a channel ends by itself.
public enum Restart: Sendable, Hashable {
  /// Nothing: the channel stays closed until its reset key changes, or it is desired anew.
  case never
  /// A new instance opens after a while, each time later.
  ///
  /// The wait is drawn evenly between zero and a bound, so that clients which lost their server together do not come
  /// back together. The bound is `initial` at first, doubles up to `max`, and begins anew after an instance that lasted
  /// for five seconds.
  case backoff(initial: Duration = .seconds(1), max: Duration = .seconds(30))

  /// The schedule of the waits; nil: there are none.
  var schedule: Backoff? {
    switch self {
    case .never: nil
    case .backoff(let initial, let max): Backoff(first: min(initial, max), base: initial + initial, maximum: max)
    }
  }
}
