/// The pace at which an instance of a channel is given values after it opened.
///
/// The value that an instance opens with is never held back. A value of the state is never lost: what is held back is
/// replaced by a newer one, and the newest is delivered in the end. Of values that are broadcast the newest is kept,
/// beside that of the state.
public enum ChannelDelivery: Sendable, Hashable {
  /// Each value at once.
  case immediate
  /// One value at once, then nothing for that long, then the newest that came meanwhile.
  ///
  /// - Parameter trailing: false: of the values that come meanwhile, those that are broadcast are dropped.
  case throttle(Duration, trailing: Bool = true)
  /// The newest value once none has come for that long.
  ///
  /// - Parameter maxWait: how long a value waits at most. Default: nil, as long as values keep coming.
  case debounce(Duration, maxWait: Duration? = nil)
}
