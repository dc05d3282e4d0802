public import Foundation
public import WebSocketCore

/// What to connect to, and how.
public struct NetworkRequest: Sendable, Hashable {
  /// The server: `ws`, `wss`, or their aliases `http` and `https`.
  ///
  /// Path and query travel as the URL holds them; a user and a password become `Authorization: Basic` unless
  /// ``headers`` has that field.
  public var url: URL
  /// Further header fields.
  ///
  /// Those of the handshake itself cannot be set; `Host` can.
  public var headers: HTTPFields
  /// The subprotocols to offer, the preferred one first (RFC 6455 §1.9).
  public var subprotocols: [String]
  /// How long `connect` may take in all, names, TCP and handshake together.
  ///
  /// Default: 10 s.
  public var connectTimeout: Duration
  /// How long the closing handshake may take.
  ///
  /// Default: 5 s.
  public var closeTimeout: Duration
  /// Pings that find a dead connection.
  ///
  /// Default: nil, as the handler's configuration says.
  public var keepalive: Keepalive?
  /// After how long without a message in either direction the connection is closed, with 1001.
  ///
  /// Default: nil, never.
  ///
  /// Pings and pongs do not count. While this endpoint does not read, because messages wait for the application, the
  /// connection is not idle. Less than 1 ms counts as 1 ms.
  public var idleTimeout: Duration?

  /// A request; nothing is checked before `connect`.
  public init(
    url: URL, headers: HTTPFields = [], subprotocols: [String] = [], connectTimeout: Duration = .seconds(10),
    closeTimeout: Duration = .seconds(5), keepalive: Keepalive? = nil, idleTimeout: Duration? = nil
  ) {
    self.url = url
    self.headers = headers
    self.subprotocols = subprotocols
    self.connectTimeout = connectTimeout
    self.closeTimeout = closeTimeout
    self.keepalive = keepalive
    self.idleTimeout = idleTimeout
  }

  package var times: ConnectionTimes {
    ConnectionTimes(
      connectTimeout: connectTimeout, closeTimeout: closeTimeout, keepalive: keepalive, idleTimeout: idleTimeout)
  }
}
