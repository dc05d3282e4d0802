/// Why a server says that it ends a connection.
public enum DisconnectReason: Sendable, Hashable {
  /// The connection was not accepted: who is there?
  case unauthorized
  /// The request was not a valid one.
  case invalidRequest
  /// The server is going down and comes back.
  case serverRestart
  /// The application ended this connection on purpose (Rails 7.1 and later).
  case remote
  /// Nothing was said for too long (AnyCable).
  case idleTimeout
  /// No pong came for the server's pings (AnyCable).
  case noPong
  /// The client does not read fast enough (AnyCable).
  case tooSlow
  /// The token is no longer valid (AnyCable).
  case tokenExpired
  /// Any other reason, in the server's words.
  case other(String)

  /// The reason with that word.
  public init(_ word: String) { self = Self.known.first { $0.word == word } ?? .other(word) }

  /// The word as it travels.
  public var word: String {
    switch self {
    case .unauthorized: "unauthorized"
    case .invalidRequest: "invalid_request"
    case .serverRestart: "server_restart"
    case .remote: "remote"
    case .idleTimeout: "idle_timeout"
    case .noPong: "no_pong"
    case .tooSlow: "too_slow"
    case .tokenExpired: "token_expired"
    case .other(let word): word
    }
  }

  private static let known: [DisconnectReason] = [
    .unauthorized, .invalidRequest, .serverRestart, .remote, .idleTimeout, .noPong, .tooSlow, .tokenExpired,
  ]
}

extension DisconnectReason: CustomStringConvertible {
  /// The word as it travels.
  public var description: String { word }
}
