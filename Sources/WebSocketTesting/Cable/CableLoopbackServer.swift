public import ActionCable
public import Foundation
public import WebSocketCore
public import WebSocketHandling
import WebSocketServing
import WebSocketTransport

/// An Action Cable server on this machine's loopback interface for tests: channels are closures, faults come on command.
///
///     let server = try CableLoopbackServer(channels: [
///       "ChatChannel": { channel in
///         guard let room = channel.parameters["room_id"] else { return channel.reject() }
///         channel.stream(from: "chat_\(room)")
///         channel.on("speak") { data in channel.broadcast(to: "chat_\(room)", data) }
///       }
///     ])
///
/// It behaves as Rails does: a second `subscribe` of an identifier is ignored, an `unsubscribe` is not answered, and an
/// unknown channel is not answered either. Closures run on the connection's event loop and must not block.
public final class CableLoopbackServer: Sendable {
  /// What a channel does when it is subscribed to.
  public typealias Channel = @Sendable (LoopbackChannel) -> Void

  /// What happens to confirmations.
  public enum Confirmations: Sendable, Hashable {
    /// They are sent at once.
    case atOnce
    /// They are sent so much later, to who is still subscribed then.
    case delayed(Duration)
    /// They are not sent, and nothing is subscribed.
    case missing
  }

  private let server: WebSocketServer
  private let hub: CableHub

  /// Listens on a port of 127.0.0.1.
  ///
  /// - Parameters:
  ///   - channels: by their names.
  ///   - port: 0: the system picks one, see ``url``.
  ///   - origin: the only `Origin` that is let in, others get 404 as from Rails; nil: any, and none too.
  ///   - pingInterval: how often the server pings. Default: 3 s.
  ///   - authorize: whether a request is let in; where not, it is told `unauthorized`.
  public init(
    channels: [String: Channel] = [:], port: Int = 0, origin: String? = nil, pingInterval: Duration = .seconds(3),
    authorize: @escaping @Sendable (HTTPRequestHead) -> Bool = { _ in true }
  ) throws(EngineError.WebSocketError) {
    let hub = CableHub(channels: channels, authorize: authorize)
    self.hub = hub
    server = try WebSocketServer(
      host: "127.0.0.1", port: port, subprotocols: [actionCableSubprotocol, "actioncable-unsupported"],
      configuration: WebSocketServer.defaultConfiguration, environment: .system, openingDeadline: patience,
      admit: { origin == nil || $0.fields["Origin"] == origin ? .accept : .refuse(status: 404) },
      onConnection: { hub.connected($0) })
    hub.startPinging(every: pingInterval)
  }

  deinit { shutDown() }

  /// Where clients connect to.
  public var url: URL { server.url.appending(path: "cable") }

  /// How many clients are connected.
  public var connectionCount: Int { server.connections.count }

  /// The identifiers of all subscriptions of all clients, sorted.
  public var subscriptions: [String] { hub.subscriptions }

  /// How many `subscribe` commands have arrived.
  public var subscribeCount: Int { hub.subscribeCount }

  /// Sends a message to all who stream from there.
  public func broadcast(to stream: String, _ message: JSONValue) { hub.broadcast(to: stream, message.description) }

  /// Sends a message whose JSON text is as it is.
  public func broadcast(to stream: String, json: String) { hub.broadcast(to: stream, json) }

  /// Says what happens to confirmations from now on.
  public func setConfirmations(_ confirmations: Confirmations) { hub.set(confirmations) }

  /// Says whether the server pings; without pings, and without anything else, a client takes it for dead.
  public func setPinging(_ isPinging: Bool) { hub.set(isPinging: isPinging) }

  /// Sends a frame's text to every client, whatever it is.
  public func send(frame text: String) { hub.send(text) }

  /// Confirms an identifier to every client that nobody has subscribed to.
  public func sendGhost(_ identifier: ChannelIdentifier) { hub.send(CableHub.confirmation(identifier.text)) }

  /// Sends every client a `disconnect` frame and closes its connection with 1000, as Rails does.
  ///
  /// - Parameters:
  ///   - reason: nil: `null`.
  ///   - reconnect: nil: the frame does not say.
  public func disconnectAll(reason: DisconnectReason?, reconnect: Bool?) {
    for connection in server.connections { CableHub.disconnect(connection, reason, reconnect: reconnect) }
  }

  /// Closes every connection without a `disconnect` frame.
  public func closeAll(code: CloseCode = .normalClosure) {
    for connection in server.connections { connection.close(code: code) }
  }

  /// Cuts TCP of every client.
  public func dropAll() { server.dropAll() }

  /// Stops listening and closes every connection.
  public func shutDown() {
    hub.stop()
    server.shutDown()
  }
}
