import Testing
import WebSocketCore
import WebSocketTesting

@Suite("The client's opening handshake (RFC 6455 §4.1)")
struct ClientHandshakeTests {
  /// What an answer came to; `frames` is what follows the head.
  enum Outcome: Equatable {
    case needsMore
    case accepted(HTTPResponseHead, subprotocol: String?, frames: [UInt8])
    case refused(HTTPResponseHead, body: String)
    case failed(HandshakeFailure)
  }

  private static let key = HandshakeKey(randomBytes: Array("the sample nonce".utf8))
  private static let accept = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
  private static let good: [String] = ["Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Accept: " + accept]

  private func handshake(
    offering subprotocols: [String] = [], fields: HTTPFields = [], maximumBodyBytes: Int = 64 << 10
  ) -> ClientHandshake {
    ClientHandshake(
      ClientHandshake.Request(target: "/chat?a=b", host: "h.example:81", subprotocols: subprotocols, fields: fields),
      key: Self.key, maximumBodyBytes: maximumBodyBytes)
  }

  private func run(_ pieces: [[UInt8]], _ handshake: ClientHandshake, ends: Bool) -> Outcome {
    var handshake = handshake
    do throws(HandshakeFailure) {
      for (index, piece) in pieces.enumerated() {
        switch try handshake.receive(piece.span.bytes) {
        case .needsMore: continue
        case .accepted(let head, let subprotocol, let end):
          let frames = Array(piece[end...]) + pieces[(index + 1)...].joined()
          return .accepted(head, subprotocol: subprotocol, frames: frames)
        case .refused(let head, let body): return .refused(head, body: String(decoding: body, as: UTF8.self))
        }
      }
      guard ends else { return .needsMore }
      switch try handshake.streamEnded() {
      case .refused(let head, let body): return .refused(head, body: String(decoding: body, as: UTF8.self))
      case .needsMore, .accepted: return .needsMore
      }
    } catch {
      return .failed(error)
    }
  }

  /// The outcome of an answer, after checking that single bytes and every cut (or 200 of them) give the same.
  private func answer(
    _ bytes: [UInt8], to handshake: ClientHandshake? = nil, ends: Bool = false,
    sourceLocation: SourceLocation = #_sourceLocation
  ) -> Outcome {
    let handshake = handshake ?? self.handshake()
    let whole = run([bytes], handshake, ends: ends)
    for cut in stride(from: 0, through: bytes.count, by: max(1, bytes.count / 200)) {
      #expect(run(bytes.pieces(cutAt: [cut]), handshake, ends: ends) == whole, sourceLocation: sourceLocation)
    }
    #expect(run(bytes.singleBytes, handshake, ends: ends) == whole, sourceLocation: sourceLocation)
    return whole
  }

  private func bytes(_ status: String, _ lines: [String], body: String = "") -> [UInt8] {
    Array(("HTTP/1.1 \(status)\r\n" + lines.map { $0 + "\r\n" }.joined() + "\r\n" + body).utf8)
  }

  private func bytes101(_ lines: [String], body: String = "") -> [UInt8] {
    bytes("101 Switching Protocols", lines, body: body)
  }

  private func field(_ line: String) -> HTTPField {
    let parts = line.split(separator: ":", maxSplits: 1)
    return HTTPField(name: String(parts[0]), value: parts.count > 1 ? String(parts[1].drop { $0 == " " }) : "")
  }

  private func head(_ status: Int, _ reason: String, _ lines: [String]) -> HTTPResponseHead {
    HTTPResponseHead(status: status, reason: reason, fields: HTTPFields(lines.map(field)))
  }

  private func accepted(_ lines: [String], subprotocol: String? = nil, frames: [UInt8] = []) -> Outcome {
    .accepted(head(101, "Switching Protocols", lines), subprotocol: subprotocol, frames: frames)
  }

  // MARK: - The request

  // R22
  @Test func `the request has no body and no field that speaks of one`() {
    let request = String(decoding: handshake().requestBytes, as: UTF8.self)
    #expect(
      request == """
        GET /chat?a=b HTTP/1.1\r
        Host: h.example:81\r
        Upgrade: websocket\r
        Connection: Upgrade\r
        Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r
        Sec-WebSocket-Version: 13\r
        \r\n
        """)
  }

  // R19, R22, R23
  @Test func `offers and the caller's fields are written, and the caller's Host wins`() {
    let fields: HTTPFields = [
      HTTPField(name: "Authorization", value: "Bearer x"), HTTPField(name: "host", value: "other"),
      HTTPField(name: "X-A", value: "1"),
    ]
    let request = String(decoding: handshake(offering: ["a", "b"], fields: fields).requestBytes, as: UTF8.self)
    #expect(
      request == """
        GET /chat?a=b HTTP/1.1\r
        Host: other\r
        Upgrade: websocket\r
        Connection: Upgrade\r
        Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r
        Sec-WebSocket-Version: 13\r
        Sec-WebSocket-Protocol: a, b\r
        Authorization: Bearer x\r
        X-A: 1\r
        \r\n
        """)
  }

  // MARK: - A 101

  // R01
  @Test func `bytes that share a segment with the 101 are left for the frames`() {
    let frame: [UInt8] = [0x81, 0x02, 0x68, 0x69]
    #expect(answer(bytes101(Self.good) + frame) == accepted(Self.good, frames: frame))
  }

  // R03
  @Test(arguments: [
    ["upgrade: websocket", "connection: Upgrade", "sec-websocket-accept: " + accept],
    ["UPGRADE: websocket", "CONNECTION: Upgrade", "SEC-WEBSOCKET-ACCEPT: " + accept],
    ["uPgRaDe: websocket", "cOnNeCtIoN: Upgrade", "Sec-Websocket-aCCEPT: " + accept],
  ])
  func `header names are compared without regard to case`(lines: [String]) {
    #expect(answer(bytes101(lines)) == accepted(lines))
  }

  // R04
  @Test(arguments: [
    ["Connection: keep-alive, Upgrade"], ["Connection: upgrade, keep-alive"], ["Connection: UPGRADE"],
    ["Connection: keep-alive", "Connection: upgrade"], ["Connection: ,,Upgrade ,"],
  ])
  func `Connection is a list of tokens in any case over any number of headers`(connection: [String]) {
    let lines = ["Upgrade: websocket", Self.good[2]] + connection
    #expect(answer(bytes101(lines)) == accepted(lines.map { $0 }))
  }

  // R04
  @Test(arguments: [[], ["Connection: close"], ["Connection:"], ["Connection: Upgrades"], ["Connection: Up grade"]])
  func `a Connection header that does not name Upgrade is refused`(connection: [String]) {
    let lines = ["Upgrade: websocket", Self.good[2]] + connection
    #expect(answer(bytes101(lines)) == .failed(.connectionHeader))
  }

  // R05
  @Test(arguments: ["websocket", "WebSocket", "WEBSOCKET", "h2c, websocket"])
  func `the value of Upgrade is compared without regard to case`(value: String) {
    let lines = ["Upgrade: " + value, Self.good[1], Self.good[2]]
    #expect(answer(bytes101(lines)) == accepted(lines))
  }

  // R05
  @Test(arguments: [[], ["Upgrade: h2c"], ["Upgrade:"], ["Upgrade: websocket2"], ["Upgrade: web socket"]])
  func `an Upgrade header that does not name websocket is refused`(upgrade: [String]) {
    #expect(answer(bytes101([Self.good[1], Self.good[2]] + upgrade)) == .failed(.upgradeHeader))
  }

  // R03, R06
  @Test(arguments: [
    [],
    ["Sec-WebSocket-Accept:"],
    ["Sec-WebSocket-Accept: s3pplmbitxaq9kygzzhzrbk+xoo="],
    ["Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo"],
    ["Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=="],
    ["Sec-WebSocket-Accept: \"s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\""],
    ["Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRb\u{212A}+xOo="],
    ["Sec-WebSocket-Accept: dGhlIHNhbXBsZSBub25jZQ=="],
    ["Sec-WebSocket-Accept: HSmrc0sMlYUkAGmm5OPpG2HaGWk="],
    ["Sec-WebSocket-Accept: " + accept, "Sec-WebSocket-Accept: " + accept],
    ["Sec-WebSocket-Accept: x", "Sec-WebSocket-Accept: " + accept],
  ])
  func `an accept value that is missing, wrong or repeated is refused`(lines: [String]) {
    #expect(answer(bytes101([Self.good[0], Self.good[1]] + lines)) == .failed(.acceptHeader))
  }

  @Test func `an answer of HTTP 1.0 is refused`() {
    let text = "HTTP/1.0 101 x\r\n" + Self.good.joined(separator: "\r\n") + "\r\n\r\n"
    #expect(answer(Array(text.utf8)) == .failed(.httpVersion))
  }

  // R11
  @Test func `a 101 may announce a body of zero bytes`() {
    let lines = Self.good + ["Content-Length: 0"]
    let frame: [UInt8] = [0x82, 0x00]
    #expect(answer(bytes101(lines) + frame) == accepted(lines, frames: frame))
  }

  // R11
  @Test(arguments: [
    "Content-Length: 1", "Content-Length: 00x", "Content-Length:", "Content-Length: -0", "Transfer-Encoding: chunked",
  ])
  func `a 101 that announces a body is refused`(line: String) {
    #expect(answer(bytes101(Self.good + [line])) == .failed(.unexpectedBody))
  }

  // R14
  @Test func `a header of 7 KiB is accepted`() {
    let lines = Self.good + ["Set-Cookie: " + String(repeating: "c", count: 7 << 10)]
    #expect(answer(bytes101(lines)) == accepted(lines))
  }

  // R14
  @Test func `a header of 100 KiB is refused with the limit in the error`() {
    let lines = Self.good + ["Set-Cookie: " + String(repeating: "c", count: 100 << 10)]
    #expect(run([bytes101(lines)], handshake(), ends: false) == .failed(.headTooLong(limit: 64 << 10)))
    #expect(run(bytes101(lines).singleBytes, handshake(), ends: false) == .failed(.headTooLong(limit: 64 << 10)))
    #expect("\(HandshakeFailure.headTooLong(limit: 64 << 10))".contains("65536"))
  }

  // R15
  @Test func `4 KiB of other headers are passed over`() {
    let lines = Self.good + (0..<64).map { "X-\($0): " + String(repeating: "x", count: 56) }
    #expect(answer(bytes101(lines)) == accepted(lines))
  }

  @Test func `too many headers are refused with the limit in the error`() {
    let lines = Self.good + (0..<126).map { "X-\($0): x" }
    #expect(answer(bytes101(lines)) == .failed(.tooManyFields(limit: 128)))
  }

  // R19
  @Test(arguments: [("a", "a"), ("b", "b"), (" b ", "b"), ("\tb", "b")])
  func `an offered subprotocol is accepted without the spaces around it`(value: String, chosen: String) {
    let wire = Self.good + ["Sec-WebSocket-Protocol:" + value]
    let lines = Self.good + ["Sec-WebSocket-Protocol:" + chosen]
    #expect(answer(bytes101(wire), to: handshake(offering: ["a", "b"])) == accepted(lines, subprotocol: chosen))
  }

  // R19
  @Test func `a server may choose no subprotocol`() {
    #expect(answer(bytes101(Self.good), to: handshake(offering: ["a", "b"])) == accepted(Self.good))
  }

  // R19
  @Test(arguments: [
    (["c"], "c"), (["A"], "A"), (["a, b"], "a, b"), ([""], ""), (["a", "b"], "a, b"), (["a", "a"], "a, a"),
  ])
  func `a subprotocol that was not offered, or more than one, is refused`(values: [String], shown: String) {
    let lines = Self.good + values.map { "Sec-WebSocket-Protocol: " + $0 }
    #expect(answer(bytes101(lines), to: handshake(offering: ["a", "b"])) == .failed(.subprotocol(shown)))
  }

  // R19
  @Test func `a subprotocol is refused where none was offered`() {
    #expect(answer(bytes101(Self.good + ["Sec-WebSocket-Protocol: a"])) == .failed(.subprotocol("a")))
  }

  // R20
  @Test(arguments: [
    (["x-foo"], "x-foo"), (["permessage-deflate"], "permessage-deflate"),
    (["permessage-deflate; server_max_window_bits=10"], "permessage-deflate; server_max_window_bits=10"),
    (["x-foo", "x-bar"], "x-foo"), (["x-foo, x-foo"], "x-foo"),
  ])
  func `an extension that was not offered is refused`(values: [String], shown: String) {
    let lines = Self.good + values.map { "Sec-WebSocket-Extensions: " + $0 }
    #expect(answer(bytes101(lines)) == .failed(.extension(shown)))
  }

  // R34
  @Test func `a folded header is unfolded`() {
    let wire = ["Upgrade: websocket", "Connection: keep-alive,", " Upgrade", Self.good[2]]
    let lines = ["Upgrade: websocket", "Connection: keep-alive, Upgrade", Self.good[2]]
    #expect(answer(bytes101(wire)) == accepted(lines))
  }

  // R34
  @Test(arguments: [
    ("Upgrade : websocket", HTTPHeadParser.Malformation.fieldName), ("X: a\0b", .nul), ("X: a\nY: b", .bareLineFeed),
  ])
  func `a space before a colon, a NUL and a bare line feed are refused`(
    line: String, how: HTTPHeadParser.Malformation
  ) {
    #expect(answer(bytes101(Self.good + [line])) == .failed(.malformedHead("\(how)")))
  }

  @Test func `an answer that is not HTTP is refused at its first byte`() {
    #expect(answer([0x15, 0x03, 0x01]) == .failed(.notHTTP))
  }

  @Test func `interim answers before the 101 are passed over`() {
    let interim = bytes("103 Early Hints", ["Link: </x>"]) + bytes("100 Continue", [])
    #expect(answer(interim + bytes101(Self.good) + [0x82]) == accepted(Self.good, frames: [0x82]))
  }

  // R16
  @Test(arguments: ["", "HTT", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"])
  func `an end before the answer is complete is an end during the handshake`(text: String) {
    #expect(answer(Array(text.utf8), ends: true) == .failed(.connectionEnded))
  }

  // MARK: - Any other status

  // R07
  @Test(
    arguments: [
      (200, []), (301, []), (400, []), (401, ["WWW-Authenticate: Basic realm=x"]), (403, []), (404, []),
      (426, ["Sec-WebSocket-Version: 8"]), (429, ["Retry-After: 3"]), (500, []), (502, []), (503, []),
    ] as [(Int, [String])])
  func `only a 101 opens, and the error has status and headers`(status: Int, lines: [String]) {
    let all = Self.good + lines + ["Content-Length: 0"]
    #expect(answer(bytes("\(status) Reason", all)) == .refused(head(status, "Reason", all), body: ""))
  }

  // R08
  @Test func `a refusal's body is read as far as its length says`() {
    let lines = ["Content-Type: application/json", "Content-Length: 11"]
    #expect(
      answer(bytes("401 Unauthorized", lines, body: "{\"error\":1} and more"))
        == .refused(head(401, "Unauthorized", lines), body: "{\"error\":1}"))
  }

  // R08
  @Test func `a refusal's body is kept up to a limit`() {
    let lines = ["Content-Length: 10000000"]
    let wire = bytes("500 x", lines, body: String(repeating: "b", count: 300))
    #expect(
      answer(wire, to: handshake(maximumBodyBytes: 100))
        == .refused(head(500, "x", lines), body: String(repeating: "b", count: 100)))
    #expect(answer(wire) == .needsMore)
    #expect(answer(wire, ends: true) == .refused(head(500, "x", lines), body: String(repeating: "b", count: 300)))
  }

  // R08
  @Test func `a refusal's chunks are joined`() {
    let lines = ["Transfer-Encoding: chunked"]
    let body = "5;name=v\r\nhello\r\nA\r\n and world\r\n0\r\n\r\n"
    #expect(answer(bytes("403 No", lines, body: body)) == .refused(head(403, "No", lines), body: "hello and world"))
    #expect(
      answer(bytes("403 No", lines, body: "5\r\nhello\r\nzz")) == .refused(head(403, "No", lines), body: "hello"))
  }

  // R10
  @Test func `a refusal without a length is read to the end of the stream`() {
    let wire = bytes("500 Oops", ["X: 1"], body: "it broke")
    #expect(answer(wire) == .needsMore)
    #expect(answer(wire, ends: true) == .refused(head(500, "Oops", ["X: 1"]), body: "it broke"))
  }

  @Test(arguments: [204, 304])
  func `a status without a body does not wait for one`(status: Int) {
    #expect(answer(bytes("\(status) x", [])) == .refused(head(status, "x", []), body: ""))
  }
}
