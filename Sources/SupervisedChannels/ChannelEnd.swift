/// An instance of a channel that ended by itself.
public struct ChannelEnd: Sendable {
  /// The channel's id.
  public let id: any Hashable & Sendable
  /// Why it ended; nil where nothing went wrong.
  public let error: (any Error)?
  /// After how long another instance opens; nil where none does.
  public let restartAfter: Duration?
}
