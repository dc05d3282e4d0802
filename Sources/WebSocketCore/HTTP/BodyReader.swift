/// Collects the start of a response's body: as long as its length says, its chunks go on, or until the stream ends
/// (RFC 7230 §3.3.3), and never more than a limit.
package struct BodyReader: Sendable {
  /// The body so far.
  package private(set) var body: [UInt8] = []
  /// Whether nothing more is wanted.
  package private(set) var isComplete = false

  private let limit: Int
  private var framing: Framing

  private enum Framing: Sendable {
    case length(remaining: Int)
    case chunks(Chunk)
    case untilEnd
  }

  /// What the next octet of a chunked body belongs to (RFC 7230 §4.1).
  private enum Chunk: Sendable {
    case size(Int, digits: Int)
    case sizeLineEnd(Int)
    case data(remaining: Int)
    case dataEnd(octets: Int)
  }

  package init(_ head: HTTPResponseHead, limit: Int) {
    self.limit = limit
    if head.fields.list("Transfer-Encoding").last?.equalsIgnoringCase("chunked") == true {
      framing = .chunks(.size(0, digits: 0))
    } else if let text = head.fields["Content-Length"], let length = Int(text), length >= 0 {
      framing = .length(remaining: length)
      isComplete = length == 0
    } else {
      framing = .untilEnd
    }
    if head.status == 204 || head.status == 304 || limit <= 0 { isComplete = true }
  }

  /// Takes the next bytes; what lies beyond the body or the limit is ignored.
  package mutating func take(_ input: RawSpan) {
    for index in 0..<input.byteCount where !isComplete {
      take(input.unsafeLoad(fromByteOffset: index, as: UInt8.self))
    }
  }

  private mutating func take(_ octet: UInt8) {
    switch framing {
    case .untilEnd: keep(octet)
    case .length(let remaining):
      keep(octet)
      framing = .length(remaining: remaining - 1)
      if remaining == 1 { isComplete = true }
    case .chunks(let chunk): framing = .chunks(next(after: chunk, octet))
    }
  }

  private mutating func next(after chunk: Chunk, _ octet: UInt8) -> Chunk {
    switch chunk {
    case .size(let size, let digits):
      if let value = ASCII.hexadecimalValue(octet), digits < 8 { return .size(size << 4 | value, digits: digits + 1) }
      guard digits > 0, octet == ASCII.carriageReturn || octet == ASCII.semicolon || ASCII.isOptionalWhitespace(octet)
      else {
        isComplete = true  // not a chunk: what came before it is still worth showing
        return chunk
      }
      return .sizeLineEnd(size)
    case .sizeLineEnd(let size):
      guard octet == ASCII.lineFeed else { return chunk }
      if size == 0 { isComplete = true }
      return .data(remaining: size)
    case .data(let remaining):
      keep(octet)
      return remaining == 1 ? .dataEnd(octets: 0) : .data(remaining: remaining - 1)
    case .dataEnd(let octets): return octets == 1 ? .size(0, digits: 0) : .dataEnd(octets: octets + 1)
    }
  }

  private mutating func keep(_ octet: UInt8) {
    body.append(octet)
    if body.count >= limit { isComplete = true }
  }
}
