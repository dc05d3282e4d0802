/// When to connect again after a failure, how long to wait, and when to stop trying.
///
/// A policy is a schedule, two limits and one rule. The rule sees the whole ``ReconnectCause`` and can be replaced; one
/// of your own falls back on ``standard(_:)`` for what it does not care about:
///
///     policy.rule = { cause in
///       if case .closed(let record) = cause.failure, record.code == CloseCode(4009) { return .retry() }
///       return ReconnectPolicy.standard(cause)
///     }
public struct ReconnectPolicy: Sendable {
  /// The waits between attempts.
  public var backoff: Backoff
  /// The most failures in a row; with the next one the session has given up.
  ///
  /// Default: nil, any number.
  ///
  /// A connection that lasted for ``Backoff/resetAfter`` ends the row; a shorter one counts as a failure.
  public var maximumFailures: Int?
  /// How long after the first failure of a row the last attempt may begin.
  ///
  /// Default: nil, no end.
  ///
  /// When the next attempt would begin later, the session has given up.
  public var maximumTime: Duration?
  /// Decides for each cause whether to try again.
  ///
  /// Default: ``standard(_:)``.
  ///
  /// Called on the session's queue; must not block.
  public var rule: @Sendable (ReconnectCause) -> ReconnectDecision

  /// A policy; by default one that tries for ever where trying again may help.
  public init(
    backoff: Backoff = Backoff(), maximumFailures: Int? = nil, maximumTime: Duration? = nil,
    rule: @escaping @Sendable (ReconnectCause) -> ReconnectDecision = ReconnectPolicy.standard
  ) {
    self.backoff = backoff
    self.maximumFailures = maximumFailures
    self.maximumTime = maximumTime
    self.rule = rule
  }

  /// Tries again after what may pass, and stops after what a new attempt would only repeat.
  ///
  /// - Close codes: 1000, the application's (3000 to 4999), and those by which the peer calls this endpoint's messages
  ///   wrong (1002, 1003, 1007 to 1010) stop; all others are tried again, also a violation by the peer.
  /// - Refusals: after 401 and 403 the request provider is asked once more, where there is one; a second such refusal
  ///   before a connection stops. 429 and 5xx are tried again, after `Retry-After` where the server sends it. Every
  ///   other status stops.
  /// - TLS stops, but where the peer merely ended the connection, or told nothing that is known here.
  /// - A request that can never succeed and an operation that the handler does not have stop; so does a proxy's 4xx.
  /// - Everything else, names and networks above all, is tried again, and so are errors of the provider's own.
  public static func standard(_ cause: ReconnectCause) -> ReconnectDecision {
    switch cause.failure {
    case .closed(let record): afterClose(record)
    case .handshakeRefused(let refusal): afterRefusal(refusal, mayAskProvider: cause.mayAskProvider)
    case .tls(.connectionEnded), .tls(.other): .retry()
    case .tls: .stop
    case .proxy(let status, _): (400..<500).contains(status) ? .stop : .retry()
    case .invalidRequest, .misuse, .unsupported, .limitExceeded, .undecodable, .unencodable: .stop
    case .connectionFailed, .messageSendFailed, .messageReceiveFailed, .resolutionFailed, .unreachable,
      .handshakeFailed, .closing, .timedOut, .cancelled:
      .retry()
    }
  }

  private static func afterClose(_ record: CloseRecord) -> ReconnectDecision {
    // The code is this endpoint's own where it found the violation.
    guard record.violation == nil else { return .retry() }
    switch record.code.rawValue {
    case 1000, 3000...4999: return .stop
    case 1002, 1003, 1007...1010: return record.initiator == .peer ? .stop : .retry()
    default: return .retry()
    }
  }

  private static func afterRefusal(_ refusal: HandshakeRefusal, mayAskProvider: Bool) -> ReconnectDecision {
    switch refusal.status {
    case 401, 403: mayAskProvider ? .retry() : .stop
    case 429, 500...: .retry(notBefore: refusal.retryAfter ?? .zero)
    default: .stop
    }
  }
}

/// Why there is no connection any more, or not yet.
public struct ReconnectCause: Sendable {
  /// What was going on.
  public enum Phase: Sendable, Hashable {
    /// The request provider was asked.
    case request
    /// An attempt to connect was under way.
    case attempt
    /// There was a connection, for so long.
    case connection(uptime: Duration)
  }

  /// What was going on.
  public var phase: Phase
  /// What went wrong.
  ///
  /// A ``EngineError/WebSocketError``, unless the request provider threw something else.
  public var error: any Error
  /// How many failures in a row there were, with this one.
  public var failures: Int
  /// Whether the request provider can be asked for other credentials: there is one, and no request of its was refused
  /// with 401 or 403 since the last connection.
  public var mayAskProvider: Bool

  /// A cause, for tests of a rule.
  public init(phase: Phase, error: any Error, failures: Int = 1, mayAskProvider: Bool = false) {
    self.phase = phase
    self.error = error
    self.failures = failures
    self.mayAskProvider = mayAskProvider
  }

  /// What went wrong, in this library's terms: a provider's own error becomes a `connectionFailed` with its words.
  public var failure: EngineError.WebSocketError {
    error as? EngineError.WebSocketError ?? .connectionFailed("the request provider failed: \(error)")
  }
}

/// What to do after a failure.
public enum ReconnectDecision: Sendable, Hashable {
  /// Try again when the schedule says so, counted from the end of that time.
  ///
  /// The schedule's delay comes on top, so that clients that were told the same do not come back together.
  case retry(notBefore: Duration = .zero)
  /// Stop.
  case stop
}
