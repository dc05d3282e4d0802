/// How many values a store is given at once.
///
/// None of these ever drops a value, or changes the order.
public enum Batching: Sendable, Hashable {
  /// Each value by itself, at once.
  case immediate
  /// What comes within that time of the first value, or as many as that, whichever is earlier.
  case window(Duration, max: Int = 1_000)
  /// What has come when no value came for that long, or the first has waited for `maxWait`, or there are as many as
  /// that, whichever is earliest.
  case debounce(Duration, maxWait: Duration, max: Int = 1_000)
}
