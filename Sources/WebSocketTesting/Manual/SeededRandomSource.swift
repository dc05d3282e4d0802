import WebSocketTransport

/// Bytes that look random and are the same in each run: those of a ``SeededGenerator``.
///
/// For tests only; keys made of it can be foretold.
final class SeededRandomSource: RandomSource {
  private let generator: Lock<SeededGenerator>

  init(seed: UInt64) { generator = Lock(SeededGenerator(seed: seed)) }

  func fill(_ buffer: UnsafeMutableRawBufferPointer) {
    generator.withLock { generator in
      var word: UInt64 = 0
      for index in buffer.indices {
        if index % 8 == 0 { word = generator.next() }
        buffer[index] = UInt8(truncatingIfNeeded: word)
        word >>= 8
      }
    }
  }
}
