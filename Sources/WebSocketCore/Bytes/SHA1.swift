/// SHA-1 (RFC 3174), which the opening handshake asks for as a proof of understanding, not of safety (RFC 6455 §10.8).
package enum SHA1 {
  private struct State {
    var a: UInt32 = 0x6745_2301
    var b: UInt32 = 0xEFCD_AB89
    var c: UInt32 = 0x98BA_DCFE
    var d: UInt32 = 0x1032_5476
    var e: UInt32 = 0xC3D2_E1F0
  }

  /// The 20-byte digest of `message`.
  package static func digest(_ message: [UInt8]) -> [UInt8] {
    let paddedCount = (message.count + 9 + 63) / 64 * 64
    var padded = message
    padded.reserveCapacity(paddedCount)
    padded.append(0x80)
    padded.append(contentsOf: repeatElement(0, count: paddedCount - padded.count - 8))
    append(UInt64(message.count) * 8, to: &padded)
    var state = State()
    padded.withUnsafeBytes { bytes in
      for start in stride(from: 0, to: paddedCount, by: 64) { mix(bytes, from: start, into: &state) }
    }
    var digest: [UInt8] = []
    digest.reserveCapacity(20)
    for word in [state.a, state.b, state.c, state.d, state.e] { append(word, to: &digest) }
    return digest
  }

  /// The 80 rounds on one block (RFC 3174 §6.1, steps a to e).
  private static func mix(_ padded: UnsafeRawBufferPointer, from start: Int, into state: inout State) {
    var words = InlineArray<80, UInt32>(repeating: 0)
    for index in 0..<16 {
      words[index] = UInt32(bigEndian: padded.loadUnaligned(fromByteOffset: start + index * 4, as: UInt32.self))
    }
    for index in 16..<80 {
      words[index] = rotated(words[index - 3] ^ words[index - 8] ^ words[index - 14] ^ words[index - 16], by: 1)
    }
    var (a, b, c, d, e) = (state.a, state.b, state.c, state.d, state.e)
    func round(_ function: UInt32, _ constant: UInt32, _ word: UInt32) {
      let next = rotated(a, by: 5) &+ function &+ e &+ word &+ constant
      (a, b, c, d, e) = (next, a, rotated(b, by: 30), c, d)
    }
    for index in 0..<20 { round((b & c) | (~b & d), 0x5A82_7999, words[index]) }
    for index in 20..<40 { round(b ^ c ^ d, 0x6ED9_EBA1, words[index]) }
    for index in 40..<60 { round((b & c) | (b & d) | (c & d), 0x8F1B_BCDC, words[index]) }
    for index in 60..<80 { round(b ^ c ^ d, 0xCA62_C1D6, words[index]) }
    state.a &+= a
    state.b &+= b
    state.c &+= c
    state.d &+= d
    state.e &+= e
  }

  @inline(__always)
  private static func rotated(_ word: UInt32, by count: UInt32) -> UInt32 { word &<< count | word &>> (32 &- count) }

  private static func append(_ word: some FixedWidthInteger, to bytes: inout [UInt8]) {
    withUnsafeBytes(of: word.bigEndian) { bytes.append(contentsOf: $0) }
  }
}
