/// The client's side of the opening handshake (RFC 6455 §4.1): the request to write, then the answer's bytes in, a
/// verdict out.
package struct ClientHandshake: Sendable {
  /// What a client asks for.
  package struct Request: Sendable {
    /// Path and query, as they go into the request line.
    package var target: String
    /// The value of `Host`.
    package var host: String
    package var subprotocols: [String]
    /// The caller's own fields, validated.
    ///
    /// A `Host` among them replaces ours.
    package var fields: HTTPFields

    package init(target: String, host: String, subprotocols: [String] = [], fields: HTTPFields = []) {
      self.target = target
      self.host = host
      self.subprotocols = subprotocols
      self.fields = fields
    }
  }

  /// How the handshake stands.
  package enum Verdict: Sendable, Hashable {
    case needsMore
    /// The connection is open; frames begin at `end` of the last input.
    case accepted(HTTPResponseHead, subprotocol: String?, end: Int)
    /// Any other status than 101, with the start of the body.
    case refused(HTTPResponseHead, body: [UInt8])
  }

  private let request: Request
  private let key: HandshakeKey
  private let parserModel: HTTPHeadParser
  private let maximumBodyBytes: Int
  private var phase: Phase

  private enum Phase: Sendable {
    case head(HTTPHeadParser)
    case refusal(HTTPResponseHead, BodyReader)
    case done
  }

  /// - Parameter maximumBodyBytes: how much of a refusal's body is kept.
  package init(
    _ request: Request, key: HandshakeKey, maximumHeadBytes: Int = 64 << 10, maximumFields: Int = 128,
    maximumBodyBytes: Int = 64 << 10
  ) {
    self.request = request
    self.key = key
    self.maximumBodyBytes = maximumBodyBytes
    parserModel = HTTPHeadParser(.response, maximumBytes: maximumHeadBytes, maximumFields: maximumFields)
    phase = .head(parserModel)
  }

  /// Fields that the handshake itself writes; a caller may not set them.
  package static let reservedNames: Set<String> = [
    "upgrade", "connection", "sec-websocket-key", "sec-websocket-version", "sec-websocket-accept",
    "sec-websocket-protocol", "sec-websocket-extensions", "content-length", "transfer-encoding", "content-type",
    "expect", "te", "trailer",
  ]

  /// The request as it goes over the wire.
  ///
  /// It has no body, so no field speaks of one.
  package var requestBytes: [UInt8] {
    var fields = HTTPFields()
    fields.append("Host", request.fields["Host"] ?? request.host)
    fields.append("Upgrade", "websocket")
    fields.append("Connection", "Upgrade")
    fields.append("Sec-WebSocket-Key", key.value)
    fields.append("Sec-WebSocket-Version", "13")
    if !request.subprotocols.isEmpty {
      fields.append("Sec-WebSocket-Protocol", request.subprotocols.joined(separator: ", "))
    }
    for field in request.fields where !field.name.equalsIgnoringCase("Host") { fields.append(field.name, field.value) }
    return HTTPRequestHead(target: request.target, fields: fields).encoded
  }

  /// Whether a refusal's head is here and its body is being collected.
  package var isReadingRefusal: Bool {
    if case .refusal = phase { return true }
    return false
  }

  /// Takes the next bytes of the answer.
  package mutating func receive(_ input: RawSpan) throws(HandshakeFailure) -> Verdict {
    var offset = 0
    while true {
      // What has come is moved out and back: kept in two places it would be copied for each piece.
      var current = Phase.done
      swap(&current, &phase)
      switch consume current {
      case .head(var parser):
        let taken: Int?
        do throws(HTTPHeadParser.Failure) {
          taken = try parser.take(input.extracting(offset..<input.byteCount))
        } catch { throw HandshakeFailure(error) }
        guard let taken else {
          phase = .head(parser)
          return .needsMore
        }
        offset += taken
        let head: HTTPResponseHead
        do throws(HTTPHeadParser.Failure) { head = try parser.responseHead() } catch { throw HandshakeFailure(error) }
        if head.status == 101 {
          phase = .done
          return .accepted(head, subprotocol: try check(head), end: offset)
        }
        // RFC 7231 §6.2: interim answers come before the final one and are passed over.
        phase = head.status < 200 ? .head(parserModel) : .refusal(head, BodyReader(head, limit: maximumBodyBytes))
      case .refusal(let head, var body):
        body.take(input.extracting(offset..<input.byteCount))
        phase = .refusal(head, body)
        return body.isComplete ? .refused(head, body: body.body) : .needsMore
      case .done: return .needsMore
      }
    }
  }

  /// The stream ended, or time ran out while a refusal's body came in: what is known is the verdict.
  package func streamEnded() throws(HandshakeFailure) -> Verdict {
    guard case .refusal(let head, let body) = phase else { throw .connectionEnded }
    return .refused(head, body: body.body)
  }

  /// Checks a 101 (RFC 6455 §4.1, the numbered list) and returns the subprotocol.
  private func check(_ head: HTTPResponseHead) throws(HandshakeFailure) -> String? {
    guard head.minorVersion >= 1 else { throw .httpVersion }
    let fields = head.fields
    guard fields.list("Upgrade", contains: "websocket") else { throw .upgradeHeader }
    guard fields.list("Connection", contains: "upgrade") else { throw .connectionHeader }
    // Octet by octet: two strings are also equal where only their Unicode normal forms are.
    let accepts = fields.values(of: "Sec-WebSocket-Accept")
    guard accepts.count == 1, Array(accepts[0].utf8) == Array(key.accept.utf8) else { throw .acceptHeader }
    guard !fields.contains(name: "Transfer-Encoding"),
      fields.values(of: "Content-Length").allSatisfy({ !$0.isEmpty && $0.utf8.allSatisfy { $0 == 0x30 } })
    else { throw .unexpectedBody }
    if let offered = fields.list("Sec-WebSocket-Extensions").first { throw .extension(offered) }
    let chosen = fields.values(of: "Sec-WebSocket-Protocol")
    guard let subprotocol = chosen.first else { return nil }
    guard chosen.count == 1, request.subprotocols.contains(where: { $0.utf8.elementsEqual(subprotocol.utf8) }) else {
      throw .subprotocol(chosen.joined(separator: ", "))
    }
    return subprotocol
  }
}
