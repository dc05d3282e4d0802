import Testing
import WebSocketCore

@Suite("SHA-1 (RFC 3174) and the accept key (RFC 6455 §4.2.2)")
struct SHA1Tests {
  @Test(arguments: [
    ("", "da39a3ee5e6b4b0d3255bfef95601890afd80709"),
    ("abc", "a9993e364706816aba3e25717850c26c9cd0d89d"),
    (
      "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", "84983e441c3bd26ebaae4aa1f95129e5e54670f1"
    ),
    ("The quick brown fox jumps over the lazy dog", "2fd4e1c67a2d28fced849ee1bb76e7391b93eb12"),
  ])
  func `published vectors hold`(message: String, digest: String) {
    #expect(SHA1.digest(Array(message.utf8)).hexadecimal == digest)
  }

  @Test func `a million letters hold`() {
    let message = [UInt8](repeating: 0x61, count: 1_000_000)
    #expect(SHA1.digest(message).hexadecimal == "34aa973cd4c4daa4f61eeb2bdbad27316534016f")
  }

  @Test(arguments: [
    (55, "c1c8bbdc22796e28c0e15163d20899b65621d65a"), (56, "c2db330f6083854c99d4b5bfb6e8f29f201be699"),
    (63, "03f09f5b158a7a8cdad920bddc29b81c18a551f5"), (64, "0098ba824b5c16427bd7a1122a5a442a25ec644d"),
    (65, "11655326c708d70319be2610e8a57d9a5b959d3b"),
  ])
  func `lengths around a block's end hold`(count: Int, digest: String) {
    #expect(SHA1.digest([UInt8](repeating: 0x61, count: count)).hexadecimal == digest)
  }

  @Test func `the example of RFC 6455 §1.3 gives its accept key`() {
    let key = HandshakeKey(randomBytes: Array("the sample nonce".utf8))
    #expect(key.value == "dGhlIHNhbXBsZSBub25jZQ==")
    #expect(key.accept == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")
  }

  @Test(arguments: ["", "dGhlIHNhbXBsZSBub25jZQ", "dGhlIHNhbXBsZSBub25j", "dGhlIHNhbXBsZSBub25jZR==", "not base64!"])
  func `a key that does not stand for 16 bytes is refused`(value: String) {
    #expect(HandshakeKey(received: value) == nil)
  }
}
