import Dispatch
import Foundation
import Testing
import WebSocketChat
import WebSocketHandling
import WebSocketTesting
import WebSocketTransport

typealias Failure = EngineError.WebSocketError

/// Collects values in order; a test takes them one by one, waiting at most two minutes for each.
final class Recorder<Value: Sendable>: Sendable {
  private let values = Lock<[Value]>([])
  private let arrived = DispatchSemaphore(value: 0)

  func record(_ value: Value) {
    values.withLock { $0.append(value) }
    arrived.signal()
  }

  /// The next value.
  func next(sourceLocation: SourceLocation = #_sourceLocation) throws -> Value {
    try #require(
      arrived.wait(timeout: .now() + 120) == .success, "nothing came within two minutes",
      sourceLocation: sourceLocation)
    return values.withLock { $0.removeFirst() }
  }

  /// The next `count` values.
  func next(_ count: Int, sourceLocation: SourceLocation = #_sourceLocation) throws -> [Value] {
    try (0..<count).map { _ in try next(sourceLocation: sourceLocation) }
  }

  /// What came and was not taken.
  var rest: [Value] { values.withLock { $0 } }
}

/// Time that passes when the test says so; jitter is always the whole bound.
final class ManualTime: EventLoop {
  private struct State: Sendable {
    var now = Instant(nanoseconds: 0)
    var timers = TimerQueue()
  }

  /// Jitter that is always the whole bound.
  struct WholeBound: RandomSource {
    func fill(_ buffer: UnsafeMutableRawBufferPointer) { for index in buffer.indices { buffer[index] = .max } }
  }

  private let state = Lock(State())
  /// The delay of each timer when it is set, but for those that watch the age of lines that wait.
  let delays = Recorder<Duration>()

  var environment: Environment {
    var environment = Environment.system
    environment.makeLoop = { self }
    environment.random = WholeBound()
    return environment
  }

  func advance(_ duration: Duration) { state.withLock { $0.now = $0.now + duration } }

  var hasTimers: Bool { state.withLock { !$0.timers.isEmpty } }

  /// Runs every timer that is set.
  func fire() {
    let works = state.withLock { state in
      var works: [@Sendable () -> Void] = []
      while let work = state.timers.popDue(at: Instant(nanoseconds: .max)) { works.append(work) }
      return works
    }
    for work in works { work() }
  }

  // MARK: EventLoop

  var now: Instant { state.withLock { $0.now } }
  var isCurrent: Bool { false }
  var readBuffer: UnsafeMutableRawBufferPointer { UnsafeMutableRawBufferPointer(start: nil, count: 0) }

  func execute(_ task: @escaping @Sendable () -> Void) { task() }

  func schedule(at deadline: Instant, _ task: @escaping @Sendable () -> Void) -> LoopTimer {
    let (timer, delay) = state.withLock { ($0.timers.add(at: deadline, task), deadline - $0.now) }
    if delay <= Backoff().maximum { delays.record(delay) }
    return timer
  }

  func cancel(_ timer: LoopTimer) { state.withLock { $0.timers.cancel(timer) } }
}

/// A model on a mock, with what it says.
struct Chat {
  let mock: MockWebSocketHandler
  /// One for each call of `send` that reached the mock.
  let sends = Recorder<Void>()
  let time = ManualTime()
  let events = Recorder<ChatEvent>()
  let results = Recorder<String>()
  let model: ChatViewModel

  init(outboxLimit: Int = 100) throws {
    mock = MockWebSocketHandler(onCall: { [sends] method in if method == .send { sends.record(()) } })
    model = ChatViewModel(
      webSocketHandler: mock, request: NetworkRequest(url: try #require(URL(string: "ws://chat.example/"))),
      sender: "Ann", outbox: OutboxLimits(messages: outboxLimit, age: .seconds(300)), logger: RecordingLogger(),
      environment: time.environment, onEvent: { [events] in events.record($0) })
  }

  func connect(sourceLocation: SourceLocation = #_sourceLocation) throws {
    model.connectToChat()
    try expect(.stateChanged(.connecting), .stateChanged(.connected), sourceLocation: sourceLocation)
  }

  /// The next events are these.
  func expect(_ expected: ChatEvent..., sourceLocation: SourceLocation = #_sourceLocation) throws {
    let found = try events.next(expected.count, sourceLocation: sourceLocation)
    #expect(found == expected, sourceLocation: sourceLocation)
  }

  /// Sends; the result comes as a line of its name and what became of it.
  func send(_ content: String) {
    model.sendMessage(content) { [results] result in
      switch result {
      case .success: results.record("\(content) sent")
      case .failure(let failure): results.record("\(content) failed: \(failure)")
      }
    }
  }

  /// What the server got.
  var sentContents: [String] {
    get throws { try mock.decodedSent(as: ChatMessage.self).map(\.content) }
  }

  /// Nothing was left over, and the mock was used as it should be.
  func finish(sourceLocation: SourceLocation = #_sourceLocation) {
    #expect(events.rest == [], sourceLocation: sourceLocation)
    #expect(results.rest == [], sourceLocation: sourceLocation)
    #expect(mock.misuses == [], sourceLocation: sourceLocation)
  }
}

/// Completes every call within the call, as the protocol does not allow but others may do.
final class SynchronousHandler: WebSocketHandler {
  private let remaining: Lock<Int>
  init(messages: Int) { remaining = Lock(messages) }

  func connect(request: NetworkRequest, completion: @escaping @Sendable (Result<Void, Failure>) -> Void) {
    completion(.success(()))
  }

  func disconnect(completion: @escaping @Sendable (Result<Void, Failure>) -> Void) { completion(.success(())) }

  func send<T: Encodable>(message: T, completion: @escaping @Sendable (Result<Void, Failure>) -> Void) {
    completion(.success(()))
  }

  func receive<T: Decodable>(completion: @escaping @Sendable (Result<T, Failure>) -> Void) {
    let isLeft = remaining.withLock { count in
      count -= 1
      return count >= 0
    }
    if isLeft, let message = WebSocketMessage.text(#"{"sender":"Bob","content":"x"}"#) as? T {
      completion(.success(message))
    }
  }
}
