import Dispatch
import Foundation
import WebSocketHandling
import WebSocketTransport

/// `websocket autobahn URL`: runs the cases of the Autobahn test suite's fuzzing server.
final class AutobahnCommand: Sendable {
  static let usage = """
    usage: websocket autobahn [options] URL
      --ca FILE    the authorities to trust, in PEM, instead of the system's
      --insecure   accept any certificate
    """

  /// The name under which the fuzzing server keeps the report.
  static let agent = "swift-websocket-handler"

  private let base: String
  private let tls: TLSConfiguration

  init(_ arguments: some Sequence<String>) throws(UsageError) {
    let options = try CommandLineOptions(arguments, flags: ["--insecure"], valued: ["--ca"])
    tls = try options.tls()
    let text = try options.operand("URL")
    guard URL(string: text) != nil else { throw UsageError(message: "\(text) is not a URL") }
    base = text.hasSuffix("/") ? String(text.dropLast()) : text
  }

  func run() {
    Terminal.onTermination { exit(1) }
    let thread = Thread { [self] in
      do {
        try runCases()
        exit(0)
      } catch {
        Terminal.complain("\(error)")
        exit(1)
      }
    }
    thread.start()
  }

  private func runCases() throws(EngineError.WebSocketError) {
    let answer = Lock("")
    try session("/getCaseCount") { _, message in
      let text = message.text ?? ""
      answer.withLock { $0 = text }
    }
    guard let count = Int(answer.withLock { $0 }) else {
      throw .connectionFailed("the server did not tell the number of cases")
    }
    for number in 1...max(1, count) where number <= count {
      // A case may refuse or break the connection on purpose; the server judges.
      do throws(EngineError.WebSocketError) {
        try session("/runCase?case=\(number)&agent=\(Self.agent)") { driver, message in driver.send(message) }
      } catch {
        Terminal.complain("case \(number): \(error)")
      }
      if number % 50 == 0 || number == count { Terminal.print("\(number) of \(count)") }
    }
    try session("/updateReports?agent=\(Self.agent)") { _, _ in }
  }

  /// Connects, hands every message to the receiver, and returns when the connection has ended.
  private func session(
    _ target: String, _ receive: @escaping @Sendable (ConnectionDriver, borrowing BorrowedMessage) -> Void
  ) throws(EngineError.WebSocketError) {
    guard let url = URL(string: base + target) else { throw .invalidRequest(.host) }
    let request = NetworkRequest(url: url)
    var configuration = HandlerConfiguration()
    configuration.callbacks = .eventLoop
    configuration.tls = tls
    let environment = Environment.system
    let driver = ConnectionDriver(
      role: .client, configuration: configuration, environment: environment, loop: environment.makeLoop(),
      logger: SilentLogger())
    let ended = DispatchSemaphore(value: 0)
    let failure = Lock<EngineError.WebSocketError?>(nil)
    driver.onEnd { _ in ended.signal() }
    driver.onMessage { [unowned driver] message in receive(driver, message) }
    driver.connect(
      try Endpoint(request), times: request.times
    ) { result in
      if case .failure(let error) = result {
        failure.withLock { $0 = error }
        ended.signal()
      }
    }
    ended.wait()
    withExtendedLifetime(driver) {}
    if let error = failure.withLock({ $0 }) { throw error }
  }
}
