public import WebSocketCore
public import WebSocketTransport

/// The namespace of the errors of this library.
public enum EngineError {
  /// Why an operation failed.
  ///
  /// Branch on the case and its values; text is for people, never for matching.
  public enum WebSocketError: Error, Sendable, Hashable {
    /// No connection came about, or there is none to end; the text says why.
    case connectionFailed(String)
    /// The message was not sent, because the handler was never connected.
    case messageSendFailed(String)
    /// Nothing can be received, because the handler was never connected.
    case messageReceiveFailed(String)
    /// The request cannot be made as it is: its URL, a header or a subprotocol.
    case invalidRequest(InvalidRequest)
    /// The name could not be resolved.
    case resolutionFailed(host: String, reason: String)
    /// No address answered; the last one tried and the system's error number and words.
    case unreachable(address: String, errorNumber: Int32, reason: String)
    /// The server answered with another status than 101.
    case handshakeRefused(HandshakeRefusal)
    /// The server's answer breaks the protocol of the opening handshake (RFC 6455 §4.1).
    case handshakeFailed(HandshakeFailure)
    /// The connection was closed; the record says how.
    case closed(CloseRecord)
    /// The connection is being closed: nothing more can be sent.
    case closing
    /// Something took longer than its time-out.
    case timedOut(TimeOut)
    /// Given up by the caller: a disconnect while connecting, a cancelled task, a released handler.
    case cancelled
    /// TLS came to no agreement, or the certificate was not accepted.
    case tls(TLSFailure)
    /// A limit of this endpoint would be passed: `size` bytes or things where `limit` are allowed.
    case limitExceeded(Limit, size: Int, limit: Int)
    /// A message arrived that the type asked for cannot be decoded from. The connection goes on.
    case undecodable(WebSocketMessage, reason: String, errorType: String)
    /// The message could not be encoded. Nothing was sent; the connection goes on.
    case unencodable(reason: String, errorType: String)
    /// The proxy refused or failed; status 0 where it gave none.
    case proxy(status: Int, reason: String)
    /// The call does not fit the handler's state or its arguments.
    case misuse(Misuse)
    /// The implementation does not offer the operation of that name.
    case unsupported(String)
  }
}

extension EngineError.WebSocketError {
  /// Whether a receive loop ends with this error.
  ///
  /// A message that cannot be coded, a limit or a misuse does not end it.
  public var endsConnection: Bool {
    switch self {
    case .undecodable, .unencodable, .limitExceeded, .misuse, .unsupported: false
    case .connectionFailed, .messageSendFailed, .messageReceiveFailed, .invalidRequest, .resolutionFailed,
      .unreachable, .handshakeRefused, .handshakeFailed, .closed, .closing, .timedOut, .cancelled, .tls, .proxy:
      true
    }
  }
}

/// What is wrong with a request.
public enum InvalidRequest: Sendable, Hashable {
  /// The scheme is none of ws, wss, http, https.
  case scheme(String?)
  /// The URL names no host.
  case host
  /// The URL has a fragment (RFC 6455 §3 forbids it).
  case fragment
  /// The port is not 1 to 65535.
  case port(Int)
  /// Not a header name, or one that belongs to the handshake.
  case headerName(String)
  /// The value of that header contains a control character.
  case headerValue(name: String)
  /// Not a token, or offered twice.
  case subprotocol(String)
}

/// What took too long.
public enum TimeOut: Sendable, Hashable {
  /// The connect deadline: from the call of `connect` to the server's answer.
  case connect
  /// The close time-out: the peer did not complete the closing handshake.
  case close
  /// The pong deadline.
  case pong
  /// The idle time-out.
  case idle
  /// The time that a message may wait for a connection.
  case outbox
}

/// A limit of this endpoint.
public enum Limit: Sendable, Hashable {
  /// Bytes of one outgoing message.
  case message
  /// Bytes queued to be sent.
  case sendQueue
  /// Pings without their pong.
  case pings
  /// Bytes of a close reason.
  case closeReason
  /// Receives that wait while connecting or connected.
  case receives
}

/// A call that does not fit.
public enum Misuse: Sendable, Hashable {
  /// `receive` while a standing receiver is installed.
  case receiverInstalled
  /// A close code that may not be sent (RFC 6455 §7.4).
  case closeCode(UInt16)
  /// A ping payload of more than 125 bytes.
  case pingPayload(bytes: Int)
}

/// An answer to the opening handshake other than 101.
public struct HandshakeRefusal: Sendable, Hashable {
  /// The status code.
  public let status: Int
  /// The header fields.
  public let headers: HTTPFields
  /// The start of the body, at most 64 KiB.
  public let body: [UInt8]

  package init(status: Int, headers: HTTPFields, body: [UInt8]) {
    self.status = status
    self.headers = headers
    self.body = body
  }
}

/// The server's answer to an opening handshake that succeeded.
public struct HandshakeAnswer: Sendable, Hashable {
  /// Always 101.
  public let status: Int
  /// The header fields.
  public let headers: HTTPFields
  /// The subprotocol that the server chose; nil where it chose none.
  public let subprotocol: String?
  /// What TLS agreed on; nil without TLS.
  public let tls: TLSAgreement?

  /// An answer, for handlers of one's own.
  public init(
    status: Int = 101, headers: HTTPFields = [], subprotocol: String? = nil, tls: TLSAgreement? = nil
  ) {
    self.status = status
    self.headers = headers
    self.subprotocol = subprotocol
    self.tls = tls
  }
}
