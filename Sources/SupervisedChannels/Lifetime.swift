/// How long an instance of a channel lives while the channel is desired.
public struct Lifetime: Sendable, Hashable {
  /// What a change of makes a new instance; nil: nothing does.
  package let resetKey: Key?
  /// How long the key must have been quiet before an instance opens; nil: not at all.
  package let settle: Duration?

  private init(resetKey: Key?, settle: Duration?) {
    self.resetKey = resetKey
    self.settle = settle
  }

  /// One instance for as long as the channel is desired.
  ///
  /// Its body is not called again, so that it keeps what it captured when it opened.
  public static let permanent = Lifetime(resetKey: nil, settle: nil)

  /// A new instance each time that the key changes: the old one is cancelled, then the new one opens.
  ///
  /// - Parameters:
  ///   - resetKey: compared by type and value.
  ///   - settle: how long the key must have been quiet before an instance opens, the first one too. The old one is
  ///     cancelled at once all the same. Default: nil, a new instance opens at once.
  public static func ephemeral(resetKey: some Hashable & Sendable, settle: Duration? = nil) -> Lifetime {
    Lifetime(resetKey: Key(resetKey), settle: settle.flatMap { $0 > .zero ? $0 : nil })
  }
}
