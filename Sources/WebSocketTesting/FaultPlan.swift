/// What a ``LoopbackServer`` does wrong, drawn from a seed.
///
/// The fate of each opening handshake depends on the seed and on how many came before it, on nothing else: a test that
/// failed fails again with its seed.
public struct FaultPlan: Sendable, Hashable {
  /// What becomes of one client.
  public enum Fate: Sendable, Hashable {
    /// The opening handshake is refused with that status.
    case refused(status: Int)
    /// The opening handshake is never answered.
    case stalled
    /// The opening handshake is answered so much later; TCP is cut in place of answering the message behind so many,
    /// nil: never.
    case served(after: Duration, lostAfter: Int?)
  }

  /// Decides everything.
  public var seed: UInt64
  /// The part of the opening handshakes that is refused with 503, from 0 to 1.
  public var refusals: Double
  /// The part of the opening handshakes that is never answered, from 0 to 1.
  public var stalls: Double
  /// The part of the connections that is lost, from 0 to 1.
  public var losses: Double
  /// The most messages that a connection which is lost answers before; less than none is none.
  public var messagesBeforeLoss: Int
  /// The longest that an opening handshake waits for its answer; each waits for a part of it.
  public var delay: Duration

  /// A plan; by default one without a fault.
  public init(
    seed: UInt64, refusals: Double = 0, stalls: Double = 0, losses: Double = 0, messagesBeforeLoss: Int = 10,
    delay: Duration = .zero
  ) {
    self.seed = seed
    self.refusals = refusals
    self.stalls = stalls
    self.losses = losses
    self.messagesBeforeLoss = messagesBeforeLoss
    self.delay = delay
  }

  /// What becomes of that opening handshake, the first being 0.
  public func fate(of handshake: Int) -> Fate {
    var chance = SeededGenerator(seed: seed &+ UInt64(truncatingIfNeeded: handshake) &* 0x9E37_79B9_7F4A_7C15)
    let kind = Double.random(in: 0..<1, using: &chance)
    let wait = Double.random(in: 0..<1, using: &chance)
    let isLost = Double.random(in: 0..<1, using: &chance) < losses
    let answered = Int.random(in: 0...max(0, messagesBeforeLoss), using: &chance)
    if kind < refusals { return .refused(status: 503) }
    if kind < refusals + stalls { return .stalled }
    return .served(after: delay * wait, lostAfter: isLost ? answered : nil)
  }
}
