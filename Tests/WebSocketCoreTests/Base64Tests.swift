import Testing
import WebSocketCore
import WebSocketTesting

@Suite("Base64 (RFC 4648 §4)")
struct Base64Tests {
  static let vectors: [(bytes: String, text: String)] = [
    ("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("fooba", "Zm9vYmE="),
    ("foobar", "Zm9vYmFy"),
  ]

  @Test(arguments: vectors)
  func `the vectors of RFC 4648 §10 hold both ways`(vector: (bytes: String, text: String)) {
    #expect(Base64.encode(vector.bytes.utf8) == vector.text)
    #expect(Base64.decode(vector.text) == Array(vector.bytes.utf8))
  }

  @Test func `all 64 letters are used, plus and slash among them`() {
    #expect(Base64.encode([0xFB, 0xEF, 0xBE, 0xFF, 0xFF, 0xFF]) == "++++////")
  }

  @Test func `every length up to 70 comes back as it went`() {
    var generator = SeededGenerator(seed: 1)
    for count in 0...70 {
      let bytes = (0..<count).map { _ in UInt8.random(in: 0...255, using: &generator) }
      #expect(Base64.decode(Base64.encode(bytes)) == bytes)
    }
  }

  @Test(arguments: [
    "Z", "Zg", "Zg=", "Zg===", "Z===", "====", "=", "Zg==Zg==", "Z=g=", "Zm9v ", " Zm9", "Zm9-", "Zm9_", "Zm\n9",
    "Zm9é",
    "Zh==", "Zm9=", "Zn==",
  ])
  func `text that is not canonical is refused`(text: String) {
    #expect(Base64.decode(text) == nil)
  }
}
