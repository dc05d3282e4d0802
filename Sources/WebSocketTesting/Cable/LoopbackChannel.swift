public import ActionCable
package import WebSocketHandling
import WebSocketServing
import WebSocketTransport

/// One client's subscription to a channel of a ``CableLoopbackServer``.
public final class LoopbackChannel: Sendable {
  private struct State: Sendable {
    var streams: Set<String> = []
    var actions: [String: @Sendable (JSONValue) -> Void] = [:]
    var onUnsubscribe: (@Sendable () -> Void)?
    var isRejected = false
  }

  /// The channel's name.
  public let name: String
  /// The identifier as the client wrote it.
  public let identifier: String
  /// The parameters beside the name.
  public let parameters: [String: JSONValue]
  private let connection: ServerConnection
  private weak let hub: CableHub?
  private let state = Lock(State())

  init(
    name: String, identifier: String, parameters: [String: JSONValue], connection: ServerConnection, hub: CableHub
  ) {
    self.name = name
    self.identifier = identifier
    self.parameters = parameters
    self.connection = connection
    self.hub = hub
  }

  // MARK: What a channel does when it is subscribed to

  /// Passes on what is broadcast there.
  public func stream(from stream: String) { _ = state.withLock { $0.streams.insert(stream) } }

  /// Rejects the subscription; what was transmitted before arrives before.
  public func reject() { state.withLock { $0.isRejected = true } }

  /// Has an action done: `body` gets the data, its `action` included.
  ///
  /// Data without an action is that of `receive`.
  public func on(_ action: String, _ body: @escaping @Sendable (JSONValue) -> Void) {
    state.withLock { $0.actions[action] = body }
  }

  /// Hears when the subscription is over.
  public func onUnsubscribe(_ body: @escaping @Sendable () -> Void) { state.withLock { $0.onUnsubscribe = body } }

  // MARK: What a channel does at any time

  /// Sends a message to this subscriber.
  public func transmit(_ message: JSONValue) { transmit(json: message.description) }

  /// Sends a message to all who stream from there.
  public func broadcast(to stream: String, _ message: JSONValue) { hub?.broadcast(to: stream, message.description) }

  /// Sends a message whose JSON text is as it is, and hears when the operating system has taken it or why not: so that
  /// a flood waits for its client.
  package func transmit(
    json: String, completion: @escaping @Sendable (Result<Void, EngineError.WebSocketError>) -> Void
  ) {
    connection.send(.text(frame(of: json)), completion: completion)
  }

  // MARK: For the server

  var isRejected: Bool { state.withLock { $0.isRejected } }

  func streams(from stream: String) -> Bool { state.withLock { $0.streams.contains(stream) } }

  func transmit(json: String) { send(frame(of: json)) }

  private func frame(of json: String) -> String {
    "{\"identifier\":\(CanonicalJSON.quoted(identifier)),\"message\":\(json)}"
  }

  func send(_ text: String) { connection.send(.text(text)) }

  func perform(_ data: JSONValue) {
    let action: String
    if case .string(let name)? = data["action"] { action = name } else { action = "receive" }
    state.withLock { $0.actions[action] }?(data)
  }

  func ended() {
    state.withLock { state in
      state.streams = []
      return state.onUnsubscribe.take()
    }?()
  }
}
