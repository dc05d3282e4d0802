/// What a channel is given of the state.
public enum Broadcasting<Value: Hashable & Sendable>: Sendable, Hashable {
  /// Nothing; the channel hears only what is broadcast to it.
  case nothing
  /// This value: when an instance opens, and from then on whenever it differs from the last one that the instance was
  /// given of the state.
  case onChange(Value)
}
