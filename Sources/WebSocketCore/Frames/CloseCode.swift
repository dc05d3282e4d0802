/// Why a connection was closed, as a number (RFC 6455 §7.4).
///
/// Any number can be held; ``mayBeSent`` says which may travel.
public struct CloseCode: RawRepresentable, Sendable, Hashable {
  /// The number, as it travels.
  public var rawValue: UInt16

  /// A code by its number.
  public init(rawValue: UInt16) { self.rawValue = rawValue }

  /// A code by its number.
  public init(_ rawValue: UInt16) { self.rawValue = rawValue }

  /// 1000: the purpose of the connection is fulfilled.
  public static let normalClosure = CloseCode(1000)
  /// 1001: the endpoint goes away: a server shuts down, a client is released.
  public static let goingAway = CloseCode(1001)
  /// 1002: the peer broke the protocol.
  public static let protocolError = CloseCode(1002)
  /// 1003: a kind of data that the endpoint cannot take.
  public static let unsupportedData = CloseCode(1003)
  /// 1005: the Close frame held no code; never sent.
  public static let noStatusReceived = CloseCode(1005)
  /// 1006: TCP ended without a Close frame; never sent.
  public static let abnormalClosure = CloseCode(1006)
  /// 1007: text that is not UTF-8.
  public static let invalidPayload = CloseCode(1007)
  /// 1008: a message against the endpoint's policy.
  public static let policyViolation = CloseCode(1008)
  /// 1009: a message too big to process.
  public static let messageTooBig = CloseCode(1009)
  /// 1010: the server did not agree to an extension that the client needs.
  public static let mandatoryExtension = CloseCode(1010)
  /// 1011: the server met something unexpected.
  public static let internalError = CloseCode(1011)
  /// 1012: the server restarts.
  public static let serviceRestart = CloseCode(1012)
  /// 1013: the server is overloaded; try again later.
  public static let tryAgainLater = CloseCode(1013)
  /// 1014: a gateway got an invalid answer from its upstream.
  public static let badGateway = CloseCode(1014)
  /// 1015: the TLS handshake failed; never sent.
  public static let tlsHandshake = CloseCode(1015)

  /// Whether a Close frame may carry this code: 1000 to 1003, 1007 to 1014 and 3000 to 4999 (RFC 6455 §7.4.1 to 2 and
  /// the registry of codes that it founded).
  public var mayBeSent: Bool {
    switch rawValue {
    case 1000...1003, 1007...1014, 3000...4999: true
    default: false
    }
  }
}

extension CloseCode: CustomStringConvertible {
  /// The number in decimal.
  public var description: String { "\(rawValue)" }
}
