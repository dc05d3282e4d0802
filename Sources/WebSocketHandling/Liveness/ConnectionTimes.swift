/// The times of one connection.
package struct ConnectionTimes: Sendable {
  /// From the call of `connect` to the server's answer.
  package var connectTimeout: Duration
  /// From the first Close frame to the end of TCP.
  package var closeTimeout: Duration
  /// Nil: the handler's configuration says.
  package var keepalive: Keepalive?
  /// Nil: never.
  package var idleTimeout: Duration?

  package init(
    connectTimeout: Duration = .seconds(10), closeTimeout: Duration = .seconds(5), keepalive: Keepalive? = nil,
    idleTimeout: Duration? = nil
  ) {
    self.connectTimeout = connectTimeout
    self.closeTimeout = closeTimeout
    self.keepalive = keepalive
    self.idleTimeout = idleTimeout
  }
}
