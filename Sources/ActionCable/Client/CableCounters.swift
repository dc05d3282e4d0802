/// What an ``ActionCableClient`` has seen since it was made.
public struct CableCounters: Sendable, Hashable {
  /// Frames of the server's, of any kind.
  public package(set) var frames: UInt64 = 0
  /// Messages of channels that somebody subscribed to, each counted once.
  public package(set) var messages: UInt64 = 0
  /// Messages that were dropped because a backlog was full.
  public package(set) var dropped: UInt64 = 0
  /// Messages and answers for identifiers that nobody subscribes to: late ones after an unsubscribe, mostly.
  public package(set) var unclaimed: UInt64 = 0
  /// Frames that are no JSON object.
  public package(set) var malformed: UInt64 = 0
  /// Frames that mean nothing to this client, or nothing now.
  public package(set) var unexpected: UInt64 = 0
  /// The server's pings.
  public package(set) var pings: UInt64 = 0
  /// Connections on which the server said `welcome`.
  public package(set) var connections: UInt64 = 0
  /// Commands that were given to a connection.
  public package(set) var commands: UInt64 = 0

  package init() {}
}
