import WebSocketCore

/// What a client has sent and nobody has read yet, taken strictly: the opening handshake's request, then frames.
struct ClientBytes: Sendable {
  private var bytes: [UInt8] = []
  private var head = 0

  /// The bytes that nobody has taken.
  var rest: [UInt8] { Array(bytes[head...]) }

  /// Adds bytes behind the others.
  mutating func append(_ more: some Sequence<UInt8>) {
    if head > 0, head * 2 >= bytes.count {
      bytes.removeFirst(head)
      head = 0
    }
    bytes.append(contentsOf: more)
  }

  /// Takes the request's head, its empty line included; nil where it is not complete.
  mutating func takeRequest() -> String? {
    let unread = bytes[head...]
    let lineEnd = ASCII.lineFeed
    for index in unread.indices where unread[index] == lineEnd {
      let end = index + 1
      guard unread[..<end].suffix(4).elementsEqual("\r\n\r\n".utf8) else { continue }
      head = end
      return String(decoding: unread[..<end], as: UTF8.self)
    }
    return nil
  }

  /// Takes the next frame, which must be masked and minimal; nil where it is not complete.
  mutating func takeFrame() throws(ScriptFailure) -> Frame? { try takeMaskedFrame()?.frame }

  /// Takes the next frame like ``takeFrame()``, with the key that it was masked with.
  mutating func takeMaskedFrame() throws(ScriptFailure) -> (frame: Frame, key: MaskingKey)? {
    let parsed: (header: FrameHeader, length: Int)?
    do throws(ProtocolViolation) {
      parsed = try FrameHeader.parse(bytes.span.bytes, at: head, role: .server)
    } catch {
      throw .violation(error)
    }
    guard let (header, length) = parsed, let key = header.maskingKey,
      bytes.count - head - length >= header.payloadLength
    else { return nil }
    let start = head + length
    var payload = Array(bytes[start..<start + header.payloadLength])
    head = start + header.payloadLength
    var span = payload.mutableSpan
    var unmasked = span.mutableBytes
    key.apply(to: &unmasked, in: 0..<header.payloadLength)
    return (Frame(header.opcode, payload, isFinal: header.isFinal, reservedBits: header.reservedBits), key)
  }

  /// Forgets everything.
  mutating func removeAll() { self = ClientBytes() }

  /// A correct answer to a request, ready to be sent with whatever follows it.
  ///
  /// - Parameter fields: further lines of the head, each ending in CRLF.
  static func answer(to request: String, adding fields: String) throws(ScriptFailure) -> [UInt8] {
    var handshake = ServerHandshake()
    guard case .upgrade(let offer, _) = handshake.receive(Array(request.utf8).span.bytes) else { throw .notAHandshake }
    return offer.accepted().encoded.dropLast(2) + Array((fields + "\r\n").utf8)
  }
}
