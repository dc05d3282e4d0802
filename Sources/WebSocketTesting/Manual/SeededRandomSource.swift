import WebSocketTransport

/// Bytes that look random and are the same in each run.
///
/// For tests only; keys made of it can be foretold.
final class SeededRandomSource: RandomSource {
  private let generator: Lock<SeededGenerator>

  init(seed: UInt64) { generator = Lock(SeededGenerator(seed: seed)) }

  func fill(_ buffer: UnsafeMutableRawBufferPointer) {
    generator.withLock { generator in
      for index in buffer.indices { buffer[index] = UInt8.random(in: .min ... .max, using: &generator) }
    }
  }
}
