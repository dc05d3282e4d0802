import Foundation
import Testing
import WebSocketCore
import WebSocketHandling
import WebSocketTesting
import WebSocketTransport

typealias Failure = EngineError.WebSocketError

/// Where callbacks run: on a queue, which is the manual executor here, or on the event loop.
enum Place: CaseIterable, CustomTestStringConvertible {
  case queue
  case eventLoop

  var testDescription: String {
    switch self {
    case .queue: "callbacks on a queue"
    case .eventLoop: "callbacks on the event loop"
    }
  }
}

/// What a callback said.
enum Event: Sendable, Hashable, CustomStringConvertible {
  case ok(String)
  case failed(String, Failure)
  case message(WebSocketMessage)
  case pong(after: Duration)
  /// A step of the test's own.
  case step(String)

  var description: String {
    switch self {
    case .ok(let name): "\(name) ok"
    case .failed(let name, let failure): "\(name) failed: \(failure)"
    case .message(.text(let text)): "received \(text.prefix(40))"
    case .message(.binary(let data)): "received \(data.count) bytes"
    case .pong(let duration): "pong after \(duration)"
    case .step(let text): text
    }
  }
}

/// An event and its time.
struct Timed: Sendable, Hashable, CustomStringConvertible {
  var milliseconds: Int
  var event: Event

  init(_ milliseconds: Int, _ event: Event) {
    self.milliseconds = milliseconds
    self.event = event
  }

  var description: String { "\(milliseconds) ms: \(event)" }
}

/// What all callbacks of a test said, in order.
final class Journal: Sendable {
  private let manual: ManualEnvironment
  private let entries = Lock<[Timed]>([])

  init(_ manual: ManualEnvironment) { self.manual = manual }

  func note(_ event: Event) {
    let milliseconds = Int(manual.elapsed.nanoseconds / 1_000_000)
    entries.withLock { $0.append(Timed(milliseconds, event)) }
  }

  func note(_ name: String, _ result: Result<Void, Failure>) {
    switch result {
    case .success: note(.ok(name))
    case .failure(let failure): note(.failed(name, failure))
    }
  }

  var timeline: [Timed] { entries.withLock { $0 } }

  /// Everything said so far.
  var all: [Event] { timeline.map(\.event) }

  /// What was said since the last call.
  func take() -> [Event] {
    entries.withLock { entries in
      defer { entries = [] }
      return entries.map(\.event)
    }
  }
}

/// A handler in a manual environment, and the journal of its callbacks.
final class Client {
  let manual: ManualEnvironment
  let journal: Journal
  /// Nil once it was released.
  var handler: DefaultWebSocketHandler?
  /// Whether anything of the handler's is still there: it, or what works for it.
  private weak var logger: RecordingLogger?

  init(
    _ place: Place, manual: ManualEnvironment = ManualEnvironment(), logger: RecordingLogger = RecordingLogger(),
    _ change: (inout HandlerConfiguration) -> Void = { _ in }
  ) {
    self.manual = manual
    journal = Journal(manual)
    var configuration = HandlerConfiguration()
    configuration.callbacks = place == .queue ? .privateQueue : .eventLoop
    change(&configuration)
    self.logger = logger
    handler = DefaultWebSocketHandler(logger: logger, configuration: configuration, environment: manual.environment)
  }

  var isGone: Bool { handler == nil && logger == nil }

  /// A request to a name, so that the resolver has its part too.
  static func request(
    _ url: String = "ws://chat.example/", _ change: (inout NetworkRequest) -> Void = { _ in }
  ) -> NetworkRequest {
    var request = NetworkRequest(url: URL(string: url) ?? URL(filePath: "/"))
    change(&request)
    return request
  }

  func connect(_ request: NetworkRequest = request()) {
    handler?.connect(request: request) { [journal] in journal.note("connect", $0) }
  }

  func send(_ text: String) {
    handler?.send(message: WebSocketMessage.text(text)) { [journal] in journal.note("send \(text.prefix(20))", $0) }
  }

  func receive() {
    handler?.receive { [journal] (result: Result<WebSocketMessage, Failure>) in
      switch result {
      case .success(let message): journal.note(.message(message))
      case .failure(let failure): journal.note(.failed("receive", failure))
      }
    }
  }

  func ping() {
    handler?.ping { [journal] result in
      switch result {
      case .success(let duration): journal.note(.pong(after: duration))
      case .failure(let failure): journal.note(.failed("ping", failure))
      }
    }
  }

  func disconnect(_ name: String = "disconnect") {
    handler?.disconnect { [journal] in journal.note(name, $0) }
  }

  /// Opens the connection and forgets that in the journal.
  func open(
    _ request: NetworkRequest = request(), with bytes: [UInt8] = [], sourceLocation: SourceLocation = #_sourceLocation
  ) throws -> MemoryConnection {
    connect(request)
    let server = try manual.nextConnection()
    try server.open(with: bytes)
    manual.settle()
    #expect(journal.take() == [.ok("connect")], sourceLocation: sourceLocation)
    return server
  }
}

/// An end without a closing handshake.
func lost(_ end: TransportEnd, by initiator: CloseRecord.Side = .peer) -> Failure {
  .closed(CloseRecord(code: .abnormalClosure, initiator: initiator, isClean: false, transportEnd: end))
}

/// An end with a closing handshake.
func closed(
  _ code: CloseCode, by initiator: CloseRecord.Side, reason: String = "", end: TransportEnd = .finished
) -> Failure {
  .closed(CloseRecord(code: code, reason: reason, initiator: initiator, isClean: true, transportEnd: end))
}

extension ManualEnvironment {
  /// Whether the client has closed every connection and given up every attempt.
  var everythingIsClosed: Bool { pendingDials == 0 && connections.allSatisfy { $0.clientHasClosed } }
}
