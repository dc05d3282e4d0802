/// What becomes of a value that is broadcast to a channel.
public enum BroadcastOutcome: Sendable, Hashable {
  /// It goes to the channel's instance now.
  case delivered
  /// It waits for the channel's pace, and is delivered then unless a newer one replaces it.
  case paced
  /// It is dropped: the channel's pace takes nothing now, and nothing that trails.
  case dropped
  /// No instance is open: the channel is absent, settling, waiting for its restart, or closed.
  case noSuchChannel
  /// The channel takes values of another type.
  case typeMismatch
}
