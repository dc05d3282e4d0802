import Testing
import WebSocketCore
import WebSocketTesting

@Suite("The server's opening handshake (RFC 6455 §4.2)")
struct ServerHandshakeTests {
  /// What a request came to; `frames` is what follows the head.
  enum Outcome: Equatable {
    case needsMore
    case upgrade(HTTPRequestHead, subprotocols: [String], answer: String, frames: [UInt8])
    case plain(HTTPRequestHead)
    case refuse(HTTPResponseHead)
  }

  private static let good = [
    "Host: h", "Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Version: 13",
  ]

  private static let plainAnswer = """
    HTTP/1.1 101 Switching Protocols\r
    Upgrade: websocket\r
    Connection: Upgrade\r
    Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r
    \r\n
    """

  private func run(_ pieces: [[UInt8]], _ handshake: ServerHandshake) -> Outcome {
    var handshake = handshake
    for (index, piece) in pieces.enumerated() {
      switch handshake.receive(piece.span.bytes) {
      case .needsMore: continue
      case .upgrade(let offer, let end):
        return .upgrade(
          offer.head, subprotocols: offer.subprotocols,
          answer: String(decoding: offer.accepted().encoded, as: UTF8.self),
          frames: Array(piece[end...]) + pieces[(index + 1)...].joined())
      case .plain(let head): return .plain(head)
      case .refuse(let head): return .refuse(head)
      }
    }
    return .needsMore
  }

  /// The outcome of a request, after checking that single bytes and every cut give the same.
  private func request(
    _ bytes: [UInt8], maximumHeadBytes: Int = 64 << 10, sourceLocation: SourceLocation = #_sourceLocation
  ) -> Outcome {
    let handshake = ServerHandshake(maximumHeadBytes: maximumHeadBytes, maximumFields: 16)
    let whole = run([bytes], handshake)
    for cut in 0...bytes.count {
      #expect(run(bytes.pieces(cutAt: [cut]), handshake) == whole, sourceLocation: sourceLocation)
    }
    #expect(run(bytes.singleBytes, handshake) == whole, sourceLocation: sourceLocation)
    return whole
  }

  private func bytes(_ lines: [String], _ start: String = "GET /x HTTP/1.1") -> [UInt8] {
    Array((start + "\r\n" + lines.map { $0 + "\r\n" }.joined() + "\r\n").utf8)
  }

  private func head(_ lines: [String], method: String = "GET") -> HTTPRequestHead {
    let fields = lines.map { line in
      let parts = line.split(separator: ":", maxSplits: 1)
      return HTTPField(name: String(parts[0]), value: String(parts[1].drop { $0 == " " }))
    }
    return HTTPRequestHead(method: method, target: "/x", fields: HTTPFields(fields))
  }

  private func refusal(_ status: Int, _ reason: String, _ fields: [HTTPField] = []) -> Outcome {
    .refuse(
      HTTPResponseHead(
        status: status, reason: reason,
        fields: HTTPFields(
          fields + [HTTPField(name: "Connection", value: "close"), HTTPField(name: "Content-Length", value: "0")])))
  }

  /// The good request without the line that starts so, and with others in its place.
  private func good(without prefix: String, with lines: [String] = []) -> [String] {
    Self.good.filter { !$0.hasPrefix(prefix) } + lines
  }

  @Test func `a valid request is answered with the accept value of RFC 6455 §1.3`() {
    #expect(
      request(bytes(Self.good)) == .upgrade(head(Self.good), subprotocols: [], answer: Self.plainAnswer, frames: []))
  }

  // R01
  @Test func `bytes behind the request are left for the frames`() {
    #expect(
      request(bytes(Self.good) + [0x81, 0x80, 1])
        == .upgrade(head(Self.good), subprotocols: [], answer: Self.plainAnswer, frames: [0x81, 0x80, 1]))
  }

  // R03, R04, R05
  @Test(arguments: [
    ["host: h", "UPGRADE: WebSocket", "connection: keep-alive, upgrade"],
    ["Host: h", "Upgrade: h2c, websocket", "Connection: keep-alive", "Connection: Upgrade"],
  ])
  func `names, Upgrade and Connection are compared without regard to case`(lines: [String]) {
    let all = lines + Self.good.suffix(2)
    #expect(request(bytes(all)) == .upgrade(head(all), subprotocols: [], answer: Self.plainAnswer, frames: []))
  }

  // R19
  @Test func `subprotocols keep the client's order over any number of headers`() {
    let all = Self.good + ["Sec-WebSocket-Protocol: b, a", "Sec-WebSocket-Protocol: c"]
    #expect(
      request(bytes(all))
        == .upgrade(head(all), subprotocols: ["b", "a", "c"], answer: Self.plainAnswer, frames: []))
  }

  // R19
  @Test(arguments: ["a, a", "a b", "a/b"])
  func `subprotocols that are repeated or no tokens are a bad request`(value: String) {
    #expect(request(bytes(Self.good + ["Sec-WebSocket-Protocol: " + value])) == refusal(400, "Bad Request"))
  }

  @Test func `the chosen subprotocol and further fields are in the answer`() {
    var handshake = ServerHandshake()
    let all = bytes(Self.good + ["Sec-WebSocket-Protocol: a, b"])
    guard case .upgrade(let offer, _) = handshake.receive(all.span.bytes) else {
      Issue.record("a valid request was refused")
      return
    }
    #expect(
      offer.accepted(subprotocol: "b", fields: [HTTPField(name: "X", value: "1")])
        == HTTPResponseHead(
          status: 101, reason: "Switching Protocols",
          fields: [
            HTTPField(name: "Upgrade", value: "websocket"), HTTPField(name: "Connection", value: "Upgrade"),
            HTTPField(name: "Sec-WebSocket-Accept", value: "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="),
            HTTPField(name: "Sec-WebSocket-Protocol", value: "b"), HTTPField(name: "X", value: "1"),
          ]))
  }

  @Test func `a request without Upgrade is a plain one`() {
    let lines = ["Host: h", "Accept: */*"]
    #expect(request(bytes(lines, "POST /x HTTP/1.1")) == .plain(head(lines, method: "POST")))
  }

  @Test func `another method than GET cannot upgrade`() {
    #expect(
      request(bytes(Self.good, "POST /x HTTP/1.1"))
        == refusal(405, "Method Not Allowed", [HTTPField(name: "Allow", value: "GET")]))
  }

  @Test(arguments: [[], ["Sec-WebSocket-Version: 8"], ["Sec-WebSocket-Version: 13", "Sec-WebSocket-Version: 8"]])
  func `another version than 13 is answered with 426 and ours`(lines: [String]) {
    #expect(
      request(bytes(good(without: "Sec-WebSocket-Version", with: lines)))
        == refusal(426, "Upgrade Required", [HTTPField(name: "Sec-WebSocket-Version", value: "13")]))
  }

  @Test(
    arguments: [
      ("Host", []), ("Host", ["Host: a", "Host: b"]), ("Connection", []), ("Connection", ["Connection: close"]),
      ("Sec-WebSocket-Key", []), ("Sec-WebSocket-Key", ["Sec-WebSocket-Key: dGhlIHNhbXBsZQ=="]),
      ("Sec-WebSocket-Key", ["Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZR=="]),
      (
        "Sec-WebSocket-Key",
        ["Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="]
      ),
      ("-", ["Content-Length: 5"]), ("-", ["Transfer-Encoding: chunked"]), ("-", ["X : 1"]),
      ("-", ["X: 1", " folded"]),
      ("-", ["X: a\0"]), ("-", ["X: a\nY: b"]),
    ] as [(String, [String])])
  func `a missing, repeated or malformed field is a bad request`(replaced: String, lines: [String]) {
    #expect(request(bytes(good(without: replaced, with: lines))) == refusal(400, "Bad Request"))
  }

  @Test(arguments: ["GET /x HTTP/1.0", "GET /x", "GET /x HTTP/2.0", "\u{16}\u{3}"])
  func `a malformed or old request line is a bad request`(line: String) {
    #expect(request(bytes(Self.good, line)) == refusal(400, "Bad Request"))
  }

  // R13
  @Test func `a head above a limit is refused as too large`() {
    let fields = Self.good + (0..<12).map { "X-\($0): 1" }
    #expect(request(bytes(fields)) == refusal(431, "Request Header Fields Too Large"))
    #expect(request(bytes(Self.good), maximumHeadBytes: 50) == refusal(431, "Request Header Fields Too Large"))
  }

  @Test func `an unfinished request needs more`() {
    #expect(request(Array(bytes(Self.good).dropLast())) == .needsMore)
  }
}
