/// The key of an opening handshake and its answer (RFC 6455 §4.1, §4.2.2, §11.3.1).
package struct HandshakeKey: Sendable, Hashable {
  /// The header value: 16 random bytes in Base64.
  package let value: String

  /// The octets that a key stands for.
  package static let byteCount = 16

  /// The key for 16 random bytes.
  package init(randomBytes: [UInt8]) {
    precondition(randomBytes.count == Self.byteCount, "a key is made of 16 bytes")
    value = Base64.encode(randomBytes)
  }

  /// The key that a client sent; nil where it does not stand for 16 bytes.
  package init?(received value: String) {
    guard Base64.decode(value)?.count == Self.byteCount else { return nil }
    self.value = value
  }

  /// The value that `Sec-WebSocket-Accept` must have.
  package var accept: String {
    Base64.encode(SHA1.digest(Array((value + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").utf8)))
  }
}
