import ActionCable
import WebSocketCore
import WebSocketHandling
import WebSocketServing
import WebSocketTransport

/// The connections and subscriptions of a ``CableLoopbackServer``.
final class CableHub: Sendable {
  private struct Client: Sendable {
    let connection: ServerConnection
    var channels: [String: LoopbackChannel] = [:]
  }

  private struct State: Sendable {
    var clients: [ObjectIdentifier: Client] = [:]
    var confirmations = CableLoopbackServer.Confirmations.atOnce
    var isPinging = true
    var isStopped = false
    var pings = 0
    var subscribeCount = 0
  }

  private let channels: [String: CableLoopbackServer.Channel]
  private let authorize: @Sendable (HTTPRequestHead) -> Bool
  private let loop = Environment.system.makeLoop()
  private let state = Lock(State())

  init(
    channels: [String: CableLoopbackServer.Channel], authorize: @escaping @Sendable (HTTPRequestHead) -> Bool
  ) {
    self.channels = channels
    self.authorize = authorize
  }

  var subscriptions: [String] { state.withLock { $0.clients.values.flatMap(\.channels.keys).sorted() } }
  var subscribeCount: Int { state.withLock { $0.subscribeCount } }

  func set(_ confirmations: CableLoopbackServer.Confirmations) { state.withLock { $0.confirmations = confirmations } }
  func set(isPinging: Bool) { state.withLock { $0.isPinging = isPinging } }
  func stop() { state.withLock { $0.isStopped = true } }

  // MARK: Connections

  func connected(_ connection: ServerConnection) {
    guard authorize(connection.head) else {
      return Self.disconnect(connection, .unauthorized, reconnect: false)
    }
    let id = ObjectIdentifier(connection)
    state.withLock { $0.clients[id] = Client(connection: connection) }
    connection.onClose { [weak self] _ in self?.closed(id) }
    connection.onMessage { [weak self] message in
      if let text = message.text { self?.received(text, from: id) }
    }
    connection.send(.text(#"{"type":"welcome"}"#))
  }

  private func closed(_ id: ObjectIdentifier) {
    let client = state.withLock { $0.clients.removeValue(forKey: id) }
    for channel in client?.channels.values.map({ $0 }) ?? [] { channel.ended() }
  }

  static func disconnect(_ connection: ServerConnection, _ reason: DisconnectReason?, reconnect: Bool?) {
    let word = reason.map { CanonicalJSON.quoted($0.word) } ?? "null"
    let rest = reconnect.map { ",\"reconnect\":\($0)" } ?? ""
    connection.send(.text("{\"type\":\"disconnect\",\"reason\":\(word)\(rest)}"))
    connection.close()
  }

  // MARK: Sending

  func send(_ text: String) {
    for connection in state.withLock({ $0.clients.values.map(\.connection) }) { connection.send(.text(text)) }
  }

  func broadcast(to stream: String, _ json: String) {
    for channel in state.withLock({ $0.clients.values.flatMap(\.channels.values) }) where channel.streams(from: stream)
    {
      channel.transmit(json: json)
    }
  }

  func startPinging(every interval: Duration) {
    _ = loop.schedule(after: interval) { [weak self] in
      guard let self, ping() else { return }
      startPinging(every: interval)
    }
  }

  /// Pings, unless that is off; false where the server is stopped.
  private func ping() -> Bool {
    let number = state.withLock { state -> Int? in
      state.pings += 1
      return state.isStopped || !state.isPinging ? nil : state.pings
    }
    if let number { send("{\"type\":\"ping\",\"message\":\(number)}") }
    return !state.withLock { $0.isStopped }
  }

  static func confirmation(_ identifier: String) -> String {
    "{\"identifier\":\(CanonicalJSON.quoted(identifier)),\"type\":\"confirm_subscription\"}"
  }

  static func rejection(_ identifier: String) -> String {
    "{\"identifier\":\(CanonicalJSON.quoted(identifier)),\"type\":\"reject_subscription\"}"
  }

  // MARK: Commands

  private func received(_ text: String, from id: ObjectIdentifier) {
    guard let command = try? JSONValue(parsing: text), case .string(let name)? = command["command"],
      case .string(let identifier)? = command["identifier"]
    else { return }
    switch name {
    case "subscribe": subscribe(identifier, id)
    case "unsubscribe": state.withLock { $0.clients[id]?.channels.removeValue(forKey: identifier) }?.ended()
    case "message":
      guard case .string(let data)? = command["data"], let value = try? JSONValue(parsing: data) else { return }
      state.withLock { $0.clients[id]?.channels[identifier] }?.perform(value)
    default: break
    }
  }

  private func subscribe(_ identifier: String, _ id: ObjectIdentifier) {
    guard case .object(var parameters)? = try? JSONValue(parsing: identifier),
      case .string(let name)? = parameters.removeValue(forKey: "channel")
    else { return }
    let subscribed = channels[name]
    let begun = state.withLock { state -> (channel: LoopbackChannel, delay: Duration?)? in
      state.subscribeCount += 1
      // Not a copy of the client: each subscription would copy all that it has.
      guard let connection = state.clients[id]?.connection, state.clients[id]?.channels[identifier] == nil,
        subscribed != nil
      else { return nil }
      let channel = LoopbackChannel(
        name: name, identifier: identifier, parameters: parameters, connection: connection, hub: self)
      let delay: Duration?
      switch state.confirmations {
      case .missing: return nil
      case .atOnce: delay = nil
      case .delayed(let duration): delay = duration
      }
      state.clients[id]?.channels[identifier] = channel
      return (channel, delay)
    }
    guard let begun else { return }
    guard let delay = begun.delay else { return answer(begun.channel, id, subscribed) }
    _ = loop.schedule(after: delay) { [weak self] in self?.answer(begun.channel, id, subscribed) }
  }

  private func answer(_ channel: LoopbackChannel, _ id: ObjectIdentifier, _ subscribed: CableLoopbackServer.Channel?) {
    // The client may have gone, or have unsubscribed, before a delayed answer.
    guard state.withLock({ $0.clients[id]?.channels[channel.identifier] === channel }) else { return }
    subscribed?(channel)
    guard !channel.isRejected else {
      _ = state.withLock { $0.clients[id]?.channels.removeValue(forKey: channel.identifier) }
      return channel.send(Self.rejection(channel.identifier))
    }
    channel.send(Self.confirmation(channel.identifier))
  }
}
