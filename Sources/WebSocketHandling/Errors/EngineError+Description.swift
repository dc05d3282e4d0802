extension EngineError.WebSocketError: CustomStringConvertible {
  /// A sentence for people.
  ///
  /// Holds no header value, credential or query string.
  public var description: String {
    switch self {
    case .connectionFailed(let text), .messageSendFailed(let text), .messageReceiveFailed(let text): text
    case .invalidRequest(let what): "the request is invalid: \(what)"
    case .resolutionFailed(let host, let reason): "cannot resolve \(host): \(reason)"
    case .unreachable(let address, _, let reason): "cannot connect to \(address): \(reason)"
    case .handshakeRefused(let refusal): "the server refused the handshake with status \(refusal.status)"
    case .handshakeFailed(let failure): "the handshake failed: \(failure)"
    case .closed(let record): "the connection is closed: \(record)"
    case .closing: "the connection is closing"
    case .timedOut(let what): "timed out: \(what)"
    case .cancelled: "cancelled"
    case .tls(let failure): "TLS failed: \(failure)"
    case .limitExceeded(let limit, let size, let allowed): "\(limit): \(size), the limit is \(allowed)"
    case .undecodable(_, let reason, _): "the message cannot be decoded: \(reason)"
    case .unencodable(let reason, _): "the message cannot be encoded: \(reason)"
    case .proxy(let status, let reason): "the proxy failed with status \(status): \(reason)"
    case .misuse(let what): "misuse: \(what)"
    case .unsupported(let what): "the handler does not support \(what)"
    }
  }
}

extension InvalidRequest: CustomStringConvertible {
  /// A few words.
  public var description: String {
    switch self {
    case .scheme(let scheme): "the scheme \(scheme ?? "(none)") is none of ws, wss, http, https"
    case .host: "the URL names no host"
    case .fragment: "the URL has a fragment"
    case .port(let port): "the port \(port) is not 1 to 65535"
    case .headerName(let name): "the header name \(name.debugDescription) is not allowed"
    case .headerValue(let name): "the value of the header \(name) contains a control character"
    // Not shown: programs put credentials there.
    case .subprotocol: "a subprotocol is not a token or comes twice"
    }
  }
}

extension TimeOut: CustomStringConvertible {
  /// A few words.
  public var description: String {
    switch self {
    case .connect: "no connection within the connect time-out"
    case .close: "no closing handshake within the close time-out"
    case .pong: "no pong within its deadline"
    case .idle: "nothing received within the idle time-out"
    case .outbox: "no connection as long as the message may wait for one"
    }
  }
}

extension Limit: CustomStringConvertible {
  /// A few words.
  public var description: String {
    switch self {
    case .message: "bytes in one message"
    case .sendQueue: "bytes waiting to be sent"
    case .pings: "pings without a pong"
    case .closeReason: "bytes in the close reason"
    case .receives: "receives that wait"
    }
  }
}

extension Misuse: CustomStringConvertible {
  /// A few words.
  public var description: String {
    switch self {
    case .receiverInstalled: "receive while a standing receiver is installed"
    case .closeCode(let code): "the close code \(code) must not be sent"
    case .pingPayload(let bytes): "a ping payload of \(bytes) bytes, 125 are allowed"
    }
  }
}
