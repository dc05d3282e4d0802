import Testing
import WebSocketCore

@Suite("Masking (RFC 6455 §5.3)")
struct MaskingTests {
  private let key = MaskingKey(0x37, 0xFA, 0x21, 0x3D)
  private let octets: [UInt8] = [0x37, 0xFA, 0x21, 0x3D]

  private func byteLoop(_ bytes: [UInt8], offset: Int) -> [UInt8] {
    bytes.enumerated().map { $0.element ^ octets[($0.offset + offset) % 4] }
  }

  private func bytes(_ count: Int) -> [UInt8] { (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 37 &+ 11) } }

  @Test(arguments: 0...70, 0...3)
  func `masking in place equals a loop over the bytes`(count: Int, offset: Int) {
    let plain = bytes(count)
    var masked = plain
    var span = masked.mutableSpan
    var raw = span.mutableBytes
    key.apply(to: &raw, in: 0..<count, offset: offset)
    #expect(masked == byteLoop(plain, offset: offset))
  }

  @Test(arguments: 0...70, 0...3)
  func `masking a range leaves what is around it alone`(count: Int, start: Int) {
    let plain = bytes(count + start + 5)
    var masked = plain
    var span = masked.mutableSpan
    var raw = span.mutableBytes
    key.apply(to: &raw, in: start..<(start + count))
    let expected =
      plain[..<start] + byteLoop(Array(plain[start..<(start + count)]), offset: 0) + plain[(start + count)...]
    #expect(masked == Array(expected))
  }

  @Test(arguments: 0...70, 0...3)
  func `masking while copying equals a loop over the bytes`(count: Int, offset: Int) {
    let plain = bytes(count)
    var target = [UInt8](repeating: 0xEE, count: count + 1)
    plain.withUnsafeBytes { source in
      target.withUnsafeMutableBytes { target in
        guard let from = source.baseAddress, let to = target.baseAddress else { return }
        key.copy(from: from, to: to, count: count, offset: offset)
      }
    }
    #expect(target == byteLoop(plain, offset: offset) + [0xEE])
  }

  @Test func `the key turns by one octet for each octet of payload`() {
    let turned = (0...4).map { offset in "\(key.advanced(by: offset))" }
    #expect(turned == ["37fa213d", "fa213d37", "213d37fa", "3d37fa21", "37fa213d"])
  }

  @Test func `the octets of a key are those it was made of`() {
    #expect(key.octets == (0x37, 0xFA, 0x21, 0x3D))
  }

  @Test func `the masked Hello of RFC 6455 §5.7 is reproduced`() {
    let wire: [UInt8] = [0x81, 0x85, 0x37, 0xFA, 0x21, 0x3D, 0x7F, 0x9F, 0x4D, 0x51, 0x58]
    #expect(Frame.text("Hello").encoded(maskingKey: key) == wire)
  }
}
