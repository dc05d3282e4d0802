public import WebSocketHandling
import WebSocketTransport

/// A broadcast room: every message of a member goes to every member, the sender included, in the same order.
///
/// A member that takes its messages too slowly, so that its send queue is full, is dropped: it would miss some.
public final class Room: Sendable {
  private let members = Lock<[ObjectIdentifier: ServerConnection]>([:])

  /// An empty room.
  public init() {}

  /// The number of members.
  public var count: Int { members.withLock { $0.count } }

  /// Adds a member until its connection ends.
  ///
  /// Its receiver belongs to the room.
  public func join(_ connection: ServerConnection) {
    add(connection)
    connection.onMessage { [weak self] message in self?.relay(message) }
  }

  /// Adds a member whose receiver is not the room's.
  package func add(_ connection: ServerConnection) {
    let id = ObjectIdentifier(connection)
    members.withLock { $0[id] = connection }
    connection.onClose { [weak self] _ in _ = self?.members.withLock { $0.removeValue(forKey: id) } }
  }

  /// Sends a member's message to every member.
  package func relay(_ message: borrowing BorrowedMessage) {
    broadcast(message.kind, message.text.map(Payload.string) ?? .bytes(message.bytes))
  }

  /// Sends a message to every member.
  public func send(_ message: WebSocketMessage) { broadcast(message.kind, message.payload) }

  private func broadcast(_ kind: MessageKind, _ payload: Payload) {
    // Sent under the lock, so that all members see the same order; a send never calls back before it returns.
    members.withLock { members in
      for member in members.values {
        member.send(kind, payload) { [weak member] result in
          if case .failure(.limitExceeded(.sendQueue, size: _, limit: _)) = result { member?.drop() }
        }
      }
    }
  }
}
