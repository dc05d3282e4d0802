import Foundation
import WebSocketHandling
import WebSocketTransport

/// `websocket connect URL`: lines of standard input out, messages in.
final class ConnectCommand: Sendable {
  static let usage = """
    usage: websocket connect [options] URL
      --binary              standard input holds binary messages, one in Base64 per line
      --header 'K: V'       a further header field; may come more than once
      --subprotocol NAME    a subprotocol to offer; may come more than once
      --origin ORIGIN       the Origin header
      --ca FILE             the authorities to trust, in PEM, instead of the system's
      --insecure            accept any certificate
      --cert FILE           the certificate to show a server that asks for one, in PEM
      --key FILE            its private key
      --ping-interval S     seconds between pings, and for an answer to each; default: no pings
      --connect-timeout S   seconds until the connection must be open
      --max-message BYTES   the largest message to accept
      --reconnect           connect again after a loss, until the end is asked for; lines wait meanwhile
      --count N             close after N messages
      --json                one JSON object per event on standard output
    """

  private struct State: Sendable {
    /// The handler, or the session over it.
    var connection: any WebSocketHandler
    var received = 0
    /// Whether a connection was told to be open, and its end was not.
    var isOpen = false
    var isClosing = false
  }

  /// How the last connection ended.
  private final class LastEnd: Sendable {
    let record = Lock<CloseRecord?>(nil)
  }

  private let request: NetworkRequest
  private let handler: DefaultWebSocketHandler
  private let isBinary: Bool
  private let isJSON: Bool
  private let count: Int?
  private let reconnects: Bool
  private let state: Lock<State>
  private let lastEnd = LastEnd()
  private let lines = LinesOutstanding()

  init(_ arguments: some Sequence<String>) throws(UsageError) {
    let options = try CommandLineOptions(
      arguments, flags: ["--binary", "--json", "--insecure", "--reconnect"],
      valued: [
        "--header", "--subprotocol", "--origin", "--ping-interval", "--connect-timeout", "--max-message", "--count",
        "--ca", "--cert",
        "--key",
      ])
    let text = try options.operand("URL")
    guard let url = URL(string: text) else { throw UsageError(message: "\(text) is not a URL") }
    var request = NetworkRequest(url: url, subprotocols: options.all("--subprotocol"))
    for header in options.all("--header") {
      guard let colon = header.firstIndex(of: ":") else {
        throw UsageError(message: "--header takes 'Name: value'")
      }
      request.headers.append(
        String(header[..<colon]), header[header.index(after: colon)...].trimmingCharacters(in: .whitespaces))
    }
    if let origin = options.string("--origin") { request.headers["Origin"] = origin }
    if let timeout = try options.seconds("--connect-timeout") { request.connectTimeout = timeout }
    if let interval = try options.seconds("--ping-interval") {
      request.keepalive = Keepalive(interval: interval, deadline: interval)
    }
    self.request = request
    isBinary = options.has("--binary")
    isJSON = options.has("--json")
    count = try options.integer("--count", in: 1...Int.max)

    var configuration = HandlerConfiguration()
    configuration.tls = try options.tls()
    if let limit = try options.integer("--max-message", in: 0...Int.max) {
      configuration.limits.maximumMessageBytes = limit
      configuration.limits.maximumFrameBytes = limit
    }
    if isJSON { configuration.onControlFrame = { Terminal.print(JSONEvent.control($0).line) } }
    reconnects = options.has("--reconnect")
    if reconnects {
      configuration.onEvent = { [lastEnd] event in
        if case .closed(let record) = event { lastEnd.record.withLock { $0 = record } }
      }
    }
    handler = DefaultWebSocketHandler(logger: SilentLogger(), configuration: configuration)
    state = Lock(State(connection: handler))
  }

  func run() {
    // Only what was begun can be closed: a signal that comes before ends the process by itself.
    defer { Terminal.onTermination { [self] in close() } }
    if reconnects { return stayConnected() }
    handler.connect(request: request) { [self] result in
      switch result {
      case .success:
        report(handler.handshake.map { .open($0) }, "connected")
        receive()
        let thread = Thread { [self] in sendLines() }
        thread.start()
      case .failure(let error):
        report(.error(error), "\(error)")
        exit(1)
      }
    }
  }

  private func report(_ event: JSONEvent?, _ text: String) {
    if !isJSON {
      Terminal.complain(text)
    } else if let event {
      Terminal.print(event.line)
    }
  }

  // MARK: - In

  private var connection: any WebSocketHandler { state.withLock { $0.connection } }

  private func receive() {
    connection.receive { [self] (result: Result<WebSocketMessage, EngineError.WebSocketError>) in
      switch result {
      case .success(let message):
        show(message)
        receive()
      case .failure(let error): ended(error)
      }
    }
  }

  private func show(_ message: WebSocketMessage) {
    let number = state.withLock { state in
      state.received += 1
      return state.received
    }
    if let count, number > count { return }
    if isJSON {
      Terminal.print(JSONEvent.message(message).line)
    } else {
      switch message {
      case .text(let text): Terminal.print(text)
      case .binary(let data): Terminal.print(data.base64EncodedString())
      }
    }
    if number == count { close() }
  }

  private func ended(_ error: EngineError.WebSocketError) {
    // A session tells of ends itself, and of what follows.
    if reconnects { return }
    report(error)
    exit(error.status)
  }

  /// Tells how a connection or an attempt ended.
  private func report(_ error: EngineError.WebSocketError) {
    if case .closed(let record) = error {
      report(.close(record), "\(record)")
    } else {
      report(.error(error), "\(error)")
    }
  }

  // MARK: - Out

  private func sendLines() {
    while let line = readLine() {
      guard let message = message(line) else {
        Terminal.complain("not Base64, left out: \(line)")
        continue
      }
      lines.add()
      connection.send(message: message) { [reconnects, lines] result in
        if case .failure(let error) = result, reconnects || !error.isEnd {
          Terminal.complain("not sent, or not for certain: \(error): \(line)")
        }
        lines.remove()
      }
    }
    guard count == nil else { return }
    // A handler sends what it was given before it closes; a session gives up what waits for a connection.
    if reconnects { lines.whenNone { [self] in close() } } else { close() }
  }

  private func message(_ line: String) -> WebSocketMessage? {
    isBinary ? Data(base64Encoded: line).map(WebSocketMessage.binary) : .text(line)
  }

  /// Closes with 1000, once; what was sent before goes out first.
  ///
  /// The end is told to the pending receive.
  private func close() {
    let isFirst = state.withLock { state in
      defer { state.isClosing = true }
      return !state.isClosing
    }
    if isFirst { connection.disconnect { [self] in if reconnects { stopped($0) } } }
  }

  // MARK: - Again and again

  /// Connects, and connects again after each loss, as the session's policy says.
  private func stayConnected() {
    let session = ReconnectingSession(handler, logger: SilentLogger()) { [self] in heard($0) }
    state.withLock { $0.connection = session }
    session.connect(request: request) { [self] result in
      if case .success = result { receive() }
    }
    let thread = Thread { [self] in sendLines() }
    thread.start()
  }

  private func heard(_ event: SessionEvent) {
    switch event {
    case .stateChanged(.connected):
      state.withLock { $0.isOpen = true }
      report(handler.handshake.map { .open($0) }, "connected")
    case .problem(let error):
      state.withLock { $0.isOpen = false }
      report(error)
    case .stateChanged(.waiting(let attempt, let delay)):
      let milliseconds = Int((delay / .milliseconds(1)).rounded())
      report(.reconnecting(attempt: attempt, milliseconds), "attempt \(attempt) follows in \(milliseconds) ms")
    case .stateChanged(.stopped(.failed(let error))), .stateChanged(.stopped(.gaveUp(_, let error))):
      lines.whenNone { exit(error.status) }
    case .stateChanged(.idle), .stateChanged(.held), .stateChanged(.connecting), .stateChanged(.stopped(.requested)):
      break
    }
  }

  /// The session has stopped, as it was asked to.
  private func stopped(_ result: Result<Void, EngineError.WebSocketError>) {
    if state.withLock({ $0.isOpen }), let record = lastEnd.record.withLock({ $0 }) { report(.closed(record)) }
    switch result {
    case .success: exit(0)
    case .failure(let error): exit(error.status)
    }
  }
}

extension EngineError.WebSocketError {
  /// The exit status that says how the connection ended.
  var status: Int32 {
    if case .closed(let record) = self, record.isClean, record.violation == nil { 0 } else { 1 }
  }

  /// Whether the connection's end, told elsewhere, is the reason.
  fileprivate var isEnd: Bool {
    switch self {
    case .closed, .closing: true
    default: false
    }
  }
}

/// The tool tells what happens itself.
struct SilentLogger: Logger {
  func isEnabled(_ level: LogLevel) -> Bool { false }

  func log(
    file: String, function: String, line: Int, logLevel: LogLevel, _ message: @autoclosure () -> Any
  ) {}
}
