/// Why an opening handshake failed although the other end answered (RFC 6455 §4.1, §4.2).
public enum HandshakeFailure: Error, Sendable, Hashable {
  /// The first bytes are not HTTP/1.
  case notHTTP
  /// The head breaks the grammar of HTTP (RFC 7230); the text says how.
  case malformedHead(String)
  /// The head is longer than `limit` bytes.
  case headTooLong(limit: Int)
  /// The head has more than `limit` fields.
  case tooManyFields(limit: Int)
  /// The answer's version is below HTTP/1.1.
  case httpVersion
  /// `Upgrade` does not name `websocket`.
  case upgradeHeader
  /// `Connection` does not name `Upgrade`.
  case connectionHeader
  /// `Sec-WebSocket-Accept` is missing, repeated, or not the answer to our key.
  case acceptHeader
  /// The answer has a body, which a 101 cannot have.
  case unexpectedBody
  /// A subprotocol that was not offered, or more than one.
  case subprotocol(String)
  /// An extension that was not offered.
  case `extension`(String)
  /// The connection ended before the answer was complete.
  case connectionEnded
}

extension HandshakeFailure: CustomStringConvertible {
  /// A short sentence.
  public var description: String {
    switch self {
    case .notHTTP: "the answer is not HTTP/1.1, so this is no WebSocket server"
    case .malformedHead(let how): "the answer's head is malformed: \(how)"
    case .headTooLong(let limit): "the answer's head is longer than the limit of \(limit) bytes"
    case .tooManyFields(let limit): "the answer has more than the limit of \(limit) header fields"
    case .httpVersion: "the answer's version is below HTTP/1.1"
    case .upgradeHeader: "the answer's Upgrade header does not name websocket"
    case .connectionHeader: "the answer's Connection header does not name Upgrade"
    case .acceptHeader: "the answer's Sec-WebSocket-Accept header is missing or wrong"
    case .unexpectedBody: "the answer announces a body"
    case .subprotocol: "the server chose a subprotocol that was not offered, or more than one"
    case .extension: "the server chose an extension that was not offered"
    case .connectionEnded: "the connection was closed during the handshake"
    }
  }

  init(_ failure: HTTPHeadParser.Failure) {
    self =
      switch failure {
      case .notHTTP: .notHTTP
      case .malformed(let how): .malformedHead("\(how)")
      case .tooLong(let limit): .headTooLong(limit: limit)
      case .tooManyFields(let limit): .tooManyFields(limit: limit)
      }
  }
}
