import Dispatch
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
      --count N             close after N messages
      --json                one JSON object per event on standard output
    """

  private struct State: Sendable {
    var received = 0
    var isOpen = false
    var isClosing = false
  }

  /// Lines that may be on their way at once.
  private static let linesOutstanding = 64

  private let request: NetworkRequest
  private let handler: DefaultWebSocketHandler
  private let isBinary: Bool
  private let isJSON: Bool
  private let count: Int?
  private let state = Lock(State())

  init(_ arguments: some Sequence<String>) throws(UsageError) {
    let options = try CommandLineOptions(
      arguments, flags: ["--binary", "--json", "--insecure"],
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
    handler = DefaultWebSocketHandler(logger: SilentLogger(), configuration: configuration)
  }

  func run() {
    Terminal.onTermination { [self] in close() }
    handler.connect(request: request) { [self] result in
      switch result {
      case .success:
        state.withLock { $0.isOpen = true }
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

  private func receive() {
    handler.receive { [self] (result: Result<WebSocketMessage, EngineError.WebSocketError>) in
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
    guard case .closed(let record) = error else {
      report(.error(error), "\(error)")
      exit(1)
    }
    report(.close(record), "\(record)")
    exit(record.isClean && record.violation == nil ? 0 : 1)
  }

  // MARK: - Out

  private func sendLines() {
    let room = DispatchSemaphore(value: Self.linesOutstanding)
    while let line = readLine() {
      guard let message = message(line) else {
        Terminal.complain("not Base64, left out: \(line)")
        continue
      }
      room.wait()
      handler.send(message: message) { [isJSON] result in
        if case .failure(let error) = result, !error.isEnd, !isJSON { Terminal.complain("not sent: \(error)") }
        room.signal()
      }
    }
    if count == nil { close() }
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
    if isFirst { handler.disconnect { _ in } }
  }
}

extension EngineError.WebSocketError {
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
