import Foundation
import WebSocketChat
import WebSocketHandling
import WebSocketTransport

/// `websocket chat URL`: lines of standard input out, what others write on standard output, and the rest on standard
/// error.
final class ChatClient: Sendable {
  /// Lines that may be without an outcome at once.
  private static let linesOutstanding = 64

  private let model: ChatViewModel
  private let isClosing = Lock(false)

  /// - Parameter pingInterval: the time between pings, and for the answer to each; nil: the chat's own.
  init(url: URL, name: String, pingInterval: Duration?) {
    var request = NetworkRequest(url: url)
    request.keepalive = pingInterval.map { Keepalive(interval: $0, deadline: $0) }
    model = ChatViewModel(
      webSocketHandler: DefaultWebSocketHandler(logger: SilentLogger()), request: request, sender: name,
      logger: SilentLogger(), onEvent: Self.show)
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

  private func sendLines() {
    let room = DispatchSemaphore(value: Self.linesOutstanding)
    while let line = readLine() {
      room.wait()
      model.sendMessage(line) { _ in room.signal() }
    }
    // Each line has its outcome before the end.
    for _ in 0..<Self.linesOutstanding { room.wait() }
    // A semaphore must not end below its first value.
    for _ in 0..<Self.linesOutstanding { room.signal() }
    close()
  }

  /// Closes with 1000, once.
  private func close() {
    let isFirst = isClosing.withLock { isClosing in
      defer { isClosing = true }
      return !isClosing
    }
    guard isFirst else { return }
    model.disconnect { result in
      if case .failure(let error) = result { Terminal.complain("\(error)") }
      exit((try? result.get()) == nil ? 1 : 0)
    }
  }
}
