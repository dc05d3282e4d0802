/// The server's side of the opening handshake (RFC 6455 §4.2): the request's bytes in, a verdict out, then the answer
/// to write.
package struct ServerHandshake: Sendable {
  /// How the handshake stands.
  package enum Verdict: Sendable, Hashable {
    case needsMore
    /// A valid opening handshake; what follows `end` of the last input is kept for the frames.
    case upgrade(Offer, end: Int)
    /// A request that asks for no upgrade, such as a page.
    case plain(HTTPRequestHead)
    /// A request to answer with that head, and then to end the connection.
    case refuse(HTTPResponseHead)
  }

  /// A valid opening handshake of a client's.
  package struct Offer: Sendable, Hashable {
    package let head: HTTPRequestHead
    /// The subprotocols in the client's order of preference.
    package let subprotocols: [String]
    let key: HandshakeKey

    /// The answer that opens the connection (RFC 6455 §4.2.2).
    package func accepted(subprotocol: String? = nil, fields: HTTPFields = []) -> HTTPResponseHead {
      var answer = HTTPFields()
      answer.append("Upgrade", "websocket")
      answer.append("Connection", "Upgrade")
      answer.append("Sec-WebSocket-Accept", key.accept)
      if let subprotocol { answer.append("Sec-WebSocket-Protocol", subprotocol) }
      for field in fields { answer.append(field.name, field.value) }
      return HTTPResponseHead(status: 101, reason: "Switching Protocols", fields: answer)
    }
  }

  private var parser: HTTPHeadParser
  private var isDone = false

  package init(maximumHeadBytes: Int = 64 << 10, maximumFields: Int = 128) {
    parser = HTTPHeadParser(.request, maximumBytes: maximumHeadBytes, maximumFields: maximumFields)
  }

  /// Takes the next bytes of the request.
  package mutating func receive(_ input: RawSpan) -> Verdict {
    guard !isDone else { return .needsMore }
    do throws(HTTPHeadParser.Failure) {
      guard let end = try parser.take(input) else { return .needsMore }
      isDone = true
      return judge(try parser.requestHead(), end: end)
    } catch {
      isDone = true
      switch error {
      case .notHTTP, .malformed: return Self.refusal(400, "Bad Request")
      case .tooLong, .tooManyFields: return Self.refusal(431, "Request Header Fields Too Large")
      }
    }
  }

  /// Checks a request (RFC 6455 §4.2.1, the numbered list).
  private func judge(_ head: HTTPRequestHead, end: Int) -> Verdict {
    let fields = head.fields
    guard head.minorVersion >= 1, fields.values(of: "Host").count == 1 else { return Self.refusal(400, "Bad Request") }
    guard fields.list("Upgrade").contains(where: { $0.equalsIgnoringCase("websocket") }) else { return .plain(head) }
    guard head.method == "GET" else {
      return Self.refusal(405, "Method Not Allowed", [HTTPField(name: "Allow", value: "GET")])
    }
    guard fields.list("Connection").contains(where: { $0.equalsIgnoringCase("upgrade") }),
      !fields.contains(name: "Transfer-Encoding"), fields.values(of: "Content-Length").allSatisfy({ Int($0) == 0 })
    else { return Self.refusal(400, "Bad Request") }
    guard fields.values(of: "Sec-WebSocket-Version") == ["13"] else {
      return Self.refusal(426, "Upgrade Required", [HTTPField(name: "Sec-WebSocket-Version", value: "13")])
    }
    let keys = fields.values(of: "Sec-WebSocket-Key")
    guard keys.count == 1, let key = HandshakeKey(received: keys[0]) else { return Self.refusal(400, "Bad Request") }
    let subprotocols = fields.list("Sec-WebSocket-Protocol")
    guard subprotocols.allSatisfy(\.isToken), Set(subprotocols).count == subprotocols.count else {
      return Self.refusal(400, "Bad Request")
    }
    return .upgrade(Offer(head: head, subprotocols: subprotocols, key: key), end: end)
  }

  private static func refusal(_ status: Int, _ reason: String, _ fields: HTTPFields = []) -> Verdict {
    var all = fields
    all.append("Connection", "close")
    all.append("Content-Length", "0")
    return .refuse(HTTPResponseHead(status: status, reason: reason, fields: all))
  }
}
