import Testing
import WebSocketCore
import WebSocketTesting

@Suite("HTTP heads (RFC 7230 §3)")
struct HTTPHeadParserTests {
  /// What parsing came to; `rest` is what follows the head.
  enum Outcome: Equatable {
    case needsMore
    case request(HTTPRequestHead, rest: [UInt8])
    case response(HTTPResponseHead, rest: [UInt8])
    case failure(HTTPHeadParser.Failure)
  }

  private func parse(_ pieces: [[UInt8]], _ parser: HTTPHeadParser, _ kind: HTTPHeadParser.Kind) -> Outcome {
    var parser = parser
    do throws(HTTPHeadParser.Failure) {
      for (index, piece) in pieces.enumerated() {
        guard let end = try parser.take(piece.span.bytes) else { continue }
        let rest = Array(piece[end...]) + pieces[(index + 1)...].joined()
        switch kind {
        case .request: return .request(try parser.requestHead(), rest: rest)
        case .response: return .response(try parser.responseHead(), rest: rest)
        }
      }
      return .needsMore
    } catch {
      return .failure(error)
    }
  }

  /// The outcome for the whole text, after checking that every cut and single bytes give the same.
  private func parse(
    _ text: String, _ kind: HTTPHeadParser.Kind, maximumBytes: Int = 64 << 10, maximumFields: Int = 128,
    sourceLocation: SourceLocation = #_sourceLocation
  ) -> Outcome {
    let bytes = Array(text.utf8)
    let parser = HTTPHeadParser(kind, maximumBytes: maximumBytes, maximumFields: maximumFields)
    let whole = parse([bytes], parser, kind)
    for cut in stride(from: 0, through: bytes.count, by: max(1, bytes.count / 200)) {
      #expect(parse(bytes.pieces(cutAt: [cut]), parser, kind) == whole, sourceLocation: sourceLocation)
    }
    #expect(parse(bytes.singleBytes, parser, kind) == whole, sourceLocation: sourceLocation)
    return whole
  }

  @Test func `a request is read and what follows it is left`() {
    let fields: HTTPFields = [HTTPField(name: "Host", value: "a.example"), HTTPField(name: "X-Empty", value: "")]
    #expect(
      parse("GET /a?b=c%20d HTTP/1.1\r\nHost:  a.example\t \r\nX-Empty:\r\n\r\nrest", .request)
        == .request(HTTPRequestHead(target: "/a?b=c%20d", fields: fields), rest: Array("rest".utf8)))
  }

  @Test func `a response is read and what follows it is left`() {
    let fields: HTTPFields = [HTTPField(name: "Server", value: "é")]
    #expect(
      parse("HTTP/1.0 404 Not Found here\r\nServer: é\r\n\r\n\u{1}\u{2}", .response)
        == .response(
          HTTPResponseHead(status: 404, reason: "Not Found here", minorVersion: 0, fields: fields), rest: [1, 2]))
  }

  @Test(arguments: ["HTTP/1.1 101\r\n\r\n", "HTTP/1.1 101 \r\n\r\n"])
  func `a response may lack its reason`(text: String) {
    #expect(parse(text, .response) == .response(HTTPResponseHead(status: 101), rest: []))
  }

  @Test func `a head survives its own encoding`() {
    let head = HTTPResponseHead(status: 429, reason: "Slow Down", fields: [HTTPField(name: "Retry-After", value: "3")])
    #expect(parse(String(decoding: head.encoded, as: UTF8.self), .response) == .response(head, rest: []))
  }

  @Test func `an unfinished head needs more`() {
    #expect(parse("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n", .response) == .needsMore)
    #expect(parse("", .request) == .needsMore)
  }

  @Test func `empty lines before a request are passed over`() {
    #expect(parse("\r\n\r\nGET / HTTP/1.1\r\n\r\n", .request) == .request(HTTPRequestHead(target: "/"), rest: []))
  }

  @Test(arguments: ["HTTP/2 200\r\n\r\n", "SSH-2.0-x\r\n", "\u{1}", "http/1.1 200 OK\r\n", "\r\n", "\n"])
  func `an answer that does not begin as HTTP/1 is refused as such`(text: String) {
    #expect(parse(text, .response) == .failure(.notHTTP))
  }

  @Test(arguments: [
    "HTTP/1.1 20 OK", "HTTP/1.1 2000 OK", "HTTP/1.1 099 OK", "HTTP/1.1 +10 OK", "HTTP/1.1  200 OK", "HTTP/1.1",
    "HTTP/1.x 200 OK", "HTTP/1.10 200 OK",
  ])
  func `a malformed status line is refused`(line: String) {
    #expect(parse(line + "\r\n\r\n", .response) == .failure(.malformed(.startLine)))
  }

  @Test(arguments: [
    "GET / HTTP/2.0", "GET /", "GET  / HTTP/1.1", "GET / HTTP/1.1 ", "G@T / HTTP/1.1", " / HTTP/1.1",
    "GET /a b HTTP/1.1",
    "GET /\u{7F} HTTP/1.1", "GET /\t HTTP/1.1", "GET / http/1.1",
  ])
  func `a malformed request line is refused`(line: String) {
    #expect(parse(line + "\r\n\r\n", .request) == .failure(.malformed(.startLine)))
  }

  // R34
  @Test(
    arguments: [
      ("Upgrade : websocket", .fieldName), ("Upgrade\t: websocket", .fieldName), (": x", .fieldName),
      ("word", .fieldName),
      ("Na me: x", .fieldName), ("É: x", .fieldName), ("X: a\u{1}b", .fieldValue), ("X: a\u{7F}", .fieldValue),
      ("X: a\0b", .nul), ("X: a\rb", .bareCarriageReturn), ("X: a\r\r", .bareCarriageReturn),
      ("X: a\nY: b", .bareLineFeed),
    ] as [(String, HTTPHeadParser.Malformation)])
  func `a malformed field is refused with its cause in either kind`(
    line: String, malformation: HTTPHeadParser.Malformation
  ) {
    #expect(parse("HTTP/1.1 101 x\r\n\(line)\r\n\r\n", .response) == .failure(.malformed(malformation)))
    #expect(parse("GET / HTTP/1.1\r\n\(line)\r\n\r\n", .request) == .failure(.malformed(malformation)))
  }

  // R34
  @Test func `a response's folded field becomes one line with single spaces`() {
    #expect(
      parse("HTTP/1.1 101 x\r\nX-A: 1\r\n  2\r\n\t3 \r\nX-B:\r\n 4\r\n\r\n", .response)
        == .response(
          HTTPResponseHead(
            status: 101, reason: "x",
            fields: [HTTPField(name: "X-A", value: "1 2 3"), HTTPField(name: "X-B", value: "4")]), rest: []))
  }

  // R34
  @Test func `a request's folded field, and a fold with nothing before it, are refused`() {
    #expect(parse("GET / HTTP/1.1\r\nX-A: 1\r\n 2\r\n\r\n", .request) == .failure(.malformed(.foldedField)))
    #expect(parse("HTTP/1.1 101 x\r\n X-A: 1\r\n\r\n", .response) == .failure(.malformed(.foldedField)))
  }

  // R14
  @Test func `a head of exactly the limit is read and one byte more is refused`() {
    let head = HTTPResponseHead(status: 200, fields: [HTTPField(name: "X", value: "abc")])
    let text = String(decoding: head.encoded, as: UTF8.self)
    #expect(parse(text, .response, maximumBytes: text.utf8.count) == .response(head, rest: []))
    #expect(
      parse(text, .response, maximumBytes: text.utf8.count - 1) == .failure(.tooLong(limit: text.utf8.count - 1)))
  }

  // R13
  @Test func `an endless header is refused at the limit, not later`() throws {
    var parser = HTTPHeadParser(.response, maximumBytes: 1000)
    let start = Array("HTTP/1.1 101 x\r\nX: ".utf8)
    var taken = try parser.take(start.span.bytes)
    let piece = [UInt8](repeating: 0x61, count: 1000 - start.count)
    taken = try parser.take(piece.span.bytes)
    #expect(taken == nil)
    let more: [UInt8] = [0x61]
    #expect(throws: HTTPHeadParser.Failure.tooLong(limit: 1000)) { try parser.take(more.span.bytes) }
  }

  // R13
  @Test func `fields up to the limit are read and one more is refused`() {
    let text = "HTTP/1.1 101 x\r\n" + (0..<4).map { "X-\($0): \($0)\r\n" }.joined() + "\r\n"
    let fields = HTTPFields((0..<4).map { HTTPField(name: "X-\($0)", value: "\($0)") })
    let head = HTTPResponseHead(status: 101, reason: "x", fields: fields)
    #expect(parse(text, .response, maximumFields: 4) == .response(head, rest: []))
    #expect(parse(text, .response, maximumFields: 3) == .failure(.tooManyFields(limit: 3)))
  }
}

@Suite("Header fields (RFC 7230 §3.2, §7)")
struct HTTPFieldsTests {
  private let fields: HTTPFields = [
    HTTPField(name: "Connection", value: "keep-alive, , Upgrade"), HTTPField(name: "X", value: "1"),
    HTTPField(name: "CONNECTION", value: #"a="x, \" y", b"#),
  ]

  @Test func `names are compared without regard to case`() {
    #expect(fields["connection"] == "keep-alive, , Upgrade")
    #expect(fields.values(of: "cOnnection") == ["keep-alive, , Upgrade", #"a="x, \" y", b"#])
    #expect(!fields.contains(name: "Connectio"))
  }

  @Test func `a list spans fields, and neither empty members nor quoted commas count`() {
    #expect(fields.list("Connection") == ["keep-alive", "Upgrade", #"a="x, \" y""#, "b"])
  }

  @Test func `setting a name replaces every field with it`() {
    var changed = fields
    changed["Connection"] = "close"
    #expect(changed == [HTTPField(name: "X", value: "1"), HTTPField(name: "Connection", value: "close")])
    changed["connection"] = nil
    #expect(changed == [HTTPField(name: "X", value: "1")])
  }

  @Test(arguments: [("X", "a\r\nY: b", false), ("X\r\n", "a", false), ("", "a", false), ("X", "a\tb é", true)])
  func `only a field that cannot begin a new line is valid`(name: String, value: String, isValid: Bool) {
    #expect(HTTPField(name: name, value: value).isValid == isValid)
  }

  @Test(arguments: [("/a?b", "/a"), ("/a", "/a"), ("/a?", "/a"), ("/a?\u{301}b?c", "/a"), ("/é?x", "/é")])
  func `a path ends at the first question mark, whatever follows it`(target: String, path: String) {
    #expect(HTTPRequestHead(target: target).path == path)
  }
}
