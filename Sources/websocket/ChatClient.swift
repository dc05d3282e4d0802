import Foundation
import WebSocketChat
import WebSocketHandling
import WebSocketTransport

/// `websocket chat URL`: lines of standard input out, what others write on standard output, and the rest on standard
/// error.
///
/// It ends with its input, on a signal, and when the chat comes back no more.
final class ChatClient: Sendable {
  /// How the chat ends.
  private final class End: Sendable {
    /// The problem behind which nothing else has happened yet: where the chat stops then, it is why.
    let problem = Lock<EngineError.WebSocketError?>(nil)
    let isClosing = Lock(false)
  }

  private let model: ChatViewModel
  private let lines: LinesOutstanding
  private let end: End

  /// - Parameter pingInterval: the time between pings, and for the answer to each; nil: the chat's own.
  init(url: URL, name: String, pingInterval: Duration?) {
    var request = NetworkRequest(url: url)
    request.keepalive = pingInterval.map { Keepalive(interval: $0, deadline: $0) }
    let (lines, end) = (LinesOutstanding(), End())
    (self.lines, self.end) = (lines, end)
    model = ChatViewModel(
      webSocketHandler: DefaultWebSocketHandler(logger: SilentLogger()), request: request, sender: name,
      logger: SilentLogger()
    ) { event in
      Self.show(event)
      Self.note(event, end, lines)
    }
  }

  func run() {
    Terminal.onTermination { [self] in close() }
    model.connectToChat()
    let thread = Thread { [self] in sendLines() }
    thread.start()
  }

  private static func show(_ event: ChatEvent) {
    switch event {
    case .message(let message): Terminal.print("\(message.sender): \(message.content)")
    case .stateChanged(.connected): Terminal.complain("connected")
    case .stateChanged(.waiting(let attempt, let delay)):
      Terminal.complain("attempt \(attempt) follows in \(Int((delay / .milliseconds(1)).rounded())) ms")
    case .stateChanged(.stopped): Terminal.complain("stopped")
    case .stateChanged(.idle), .stateChanged(.connecting): break
    case .problem(let error): Terminal.complain("\(error)")
    case .messageDropped(let message, let error): Terminal.complain("not sent: \(message.content): \(error)")
    case .messageInDoubt(let message, let error): Terminal.complain("in doubt: \(message.content): \(error)")
    }
  }

  /// Ends the process when the chat has stopped by itself, as soon as each line has its outcome.
  private static func note(_ event: ChatEvent, _ end: End, _ lines: LinesOutstanding) {
    switch event {
    case .problem(let error) where error.endsConnection: end.problem.withLock { $0 = error }
    case .stateChanged(.stopped):
      if let error = end.problem.withLock({ $0 }) { lines.whenNone { exit(error.status) } }
    case .stateChanged: end.problem.withLock { $0 = nil }
    case .problem, .message, .messageDropped, .messageInDoubt: break
    }
  }

  private func sendLines() {
    while let line = readLine() {
      lines.add()
      model.sendMessage(line) { [lines] _ in lines.remove() }
    }
    lines.whenNone { [self] in close() }
  }

  /// Closes with 1000, once.
  private func close() {
    let isFirst = end.isClosing.withLock { isClosing in
      defer { isClosing = true }
      return !isClosing
    }
    guard isFirst else { return }
    model.disconnect { [end] result in
      // The chat may have stopped by itself before.
      if let error = end.problem.withLock({ $0 }) { exit(error.status) }
      if case .failure(let error) = result { Terminal.complain("\(error)") }
      exit((try? result.get()) == nil ? 1 : 0)
    }
  }
}
