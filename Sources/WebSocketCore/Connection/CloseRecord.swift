/// How a connection ended: the full account, made once TCP has ended.
public struct CloseRecord: Sendable, Hashable {
  /// One of the two ends of the connection.
  public enum Side: Sendable, Hashable {
    /// This endpoint.
    case local
    /// The other end.
    case peer
  }

  /// The close code (RFC 6455 §7.1.5): the peer's; ``CloseCode/noStatusReceived`` where its Close frame was empty;
  /// ``CloseCode/abnormalClosure`` where none came; after a violation of the peer's the code that this endpoint sent.
  public var code: CloseCode
  /// The close reason (§7.1.6), empty where there was none.
  public var reason: String
  /// Who began: sent the first Close frame, found the violation, or ended TCP.
  public var initiator: Side
  /// Whether the closing handshake was completed (§7.1.4).
  public var isClean: Bool
  /// How TCP ended.
  public var transportEnd: TransportEnd
  /// What the peer did wrong, where that is why the connection ended.
  public var violation: ProtocolViolation?

  package init(
    code: CloseCode, reason: String = "", initiator: Side, isClean: Bool, transportEnd: TransportEnd,
    violation: ProtocolViolation? = nil
  ) {
    self.code = code
    self.reason = reason
    self.initiator = initiator
    self.isClean = isClean
    self.transportEnd = transportEnd
    self.violation = violation
  }
}

extension CloseRecord: CustomStringConvertible {
  /// The record in one line.
  public var description: String {
    var text = isClean ? "closed" : "ended without a closing handshake"
    text += " by \(initiator == .local ? "this endpoint" : "the peer"), code \(code)"
    if !reason.isEmpty { text += " \(reason.debugDescription)" }
    if let violation { text += ": \(violation)" }
    if transportEnd != .finished { text += " (\(transportEnd))" }
    return text
  }
}

/// How the transport under a connection ended.
public enum TransportEnd: Sendable, Hashable {
  /// The peer ended its stream in order (TCP FIN).
  case finished
  /// The peer reset the connection (TCP RST).
  case reset
  /// This endpoint ended it, because the peer did not in time.
  case timedOut
  /// This endpoint ended it at once, without waiting for the peer.
  case aborted
  /// The stream was cut before its own end mark (TLS without `close_notify`).
  case truncated
  /// TLS found something wrong with the stream, such as a record that was altered.
  case tls(TLSFailure)
  /// A system call failed with that error number.
  case failed(errorNumber: Int32)
}

extension TransportEnd: CustomStringConvertible {
  /// The end in a few words.
  public var description: String {
    switch self {
    case .finished: "the peer ended TCP"
    case .reset: "the peer reset TCP"
    case .timedOut: "the peer did not end TCP in time"
    case .aborted: "ended at once"
    case .truncated: "the stream was cut"
    case .tls(let failure): "TLS failed: \(failure)"
    case .failed(let errorNumber): "TCP failed with error \(errorNumber)"
    }
  }
}
