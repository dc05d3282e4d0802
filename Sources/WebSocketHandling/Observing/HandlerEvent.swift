public import WebSocketCore

/// What a handler tells the tap of ``HandlerConfiguration/onEvent``.
///
/// Events come in order, on the callbacks' thread. With ``HandlerConfiguration/Callbacks/eventLoop`` and a standing
/// receiver those of one read come behind the messages of that read; otherwise a message's event comes before it.
public enum HandlerEvent: Sendable, Hashable {
  /// A connect has begun; path and query are left out, since they may hold secrets.
  case opening(host: String, port: Int, isSecure: Bool)
  /// The opening handshake is done: the server's whole answer, and how long it took to come here.
  case opened(HandshakeAnswer, ConnectPhases)
  /// A connect has failed.
  case failed(EngineError.WebSocketError)
  /// A message came, of so many payload bytes.
  case messageReceived(MessageKind, bytes: Int)
  /// A message was taken to be sent, of so many payload bytes; its completion tells when it is written.
  case messageSent(MessageKind, bytes: Int)
  /// The peer's ping came.
  case pingReceived(bytes: Int)
  /// The peer's pong came, so long after its ping; nil where no ping waited for it.
  case pongReceived(bytes: Int, roundTrip: Duration?)
  /// A ping was taken to be sent: the caller's or the keepalive's.
  case pingSent(bytes: Int)
  /// A pong was taken to be sent.
  case pongSent(bytes: Int)
  /// A closing handshake has begun, by the side that sent the first Close frame.
  case closing(CloseRecord.Side)
  /// The connection has ended.
  case closed(CloseRecord)
}

/// How long a connect spent in each phase, of those that it went through.
public struct ConnectPhases: Sendable, Hashable {
  /// From the call to the addresses.
  public var resolve: Duration?
  /// From the addresses to the TCP connection.
  public var tcp: Duration?
  /// The proxy's part; nil, as there are no proxies yet.
  public var proxy: Duration?
  /// The TLS handshake, and where it is the first one, loading OpenSSL and the authorities.
  public var tls: Duration?
  /// From the connection to the server's answer.
  public var handshake: Duration?

  /// No phase yet.
  public init() {}

  /// All of them together.
  public var total: Duration { [resolve, tcp, proxy, tls, handshake].compactMap(\.self).reduce(.zero, +) }
}
