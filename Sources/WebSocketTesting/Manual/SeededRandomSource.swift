import WebSocketTransport

/// Bytes that look random and are the same in each run: SplitMix64 from a seed.
///
/// For tests only; keys made of it can be foretold.
final class SeededRandomSource: RandomSource {
  private let state: Lock<UInt64>

  init(seed: UInt64) { state = Lock(seed) }

  func fill(_ buffer: UnsafeMutableRawBufferPointer) {
    state.withLock { state in
      var word: UInt64 = 0
      for index in buffer.indices {
        if index % 8 == 0 { word = Self.next(&state) }
        buffer[index] = UInt8(truncatingIfNeeded: word)
        word >>= 8
      }
    }
  }

  private static func next(_ state: inout UInt64) -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var mixed = state
    mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
    mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
    return mixed ^ (mixed >> 31)
  }
}
