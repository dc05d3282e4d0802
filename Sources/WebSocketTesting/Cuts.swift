/// Random numbers that are the same in every run (splitmix64).
package struct SeededGenerator: RandomNumberGenerator, Sendable {
  private var state: UInt64

  package init(seed: UInt64) { state = seed }

  package mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var mixed = state
    mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
    mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
    return mixed ^ (mixed >> 31)
  }
}

/// The same bytes in pieces: what is made of them must not depend on where they are cut.
extension Array where Element == UInt8 {
  /// The pieces between the offsets in `cuts`, which are in order.
  package func pieces(cutAt cuts: [Int]) -> [[UInt8]] {
    let bounds = [0] + cuts + [count]
    return zip(bounds, bounds.dropFirst()).map { Array(self[$0..<$1]) }
  }

  /// Each byte alone.
  package var singleBytes: [[UInt8]] { map { [$0] } }

  /// Pieces cut at seeded random places, some of them empty.
  package func pieces(cutWithSeed seed: UInt64) -> [[UInt8]] {
    var generator = SeededGenerator(seed: seed)
    let cuts = (0..<Int.random(in: 1...6, using: &generator)).map { _ in Int.random(in: 0...count, using: &generator) }
    return pieces(cutAt: cuts.sorted())
  }
}
