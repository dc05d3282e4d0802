import Dispatch
import WebSocketHandling
import WebSocketTransport

/// One measurement of one scenario.
///
/// Failures end the process with status 1.
struct BenchRun: Sendable {
  var scenario: BenchScenario
  var mode: BenchMode
  var api: BenchAPI
  var connections: Int
  var messages: Int?
  var request: NetworkRequest
  var tls: TLSConfiguration

  /// Measures, and returns when it is over; not for a loop's thread.
  func measure() -> BenchResult {
    if let workload = scenario.workload(messages: messages) { exchange(workload) } else { openIdle() }
  }

  private var configuration: HandlerConfiguration {
    var configuration = HandlerConfiguration()
    configuration.tls = tls
    if mode == .loop { configuration.callbacks = .eventLoop }
    return configuration
  }

  // MARK: - Echoes

  private struct Progress: Sendable {
    var start: BenchMark?
    var end: BenchMark?
    var running: Int
    var trips: [Int64] = []
  }

  /// How long a run may stand still before it is given up.
  private static let patience = DispatchTimeInterval.seconds(20)

  private func exchange(_ workload: EchoWorkload) -> BenchResult {
    let progress = Lock(Progress(running: connections))
    let ended = DispatchSemaphore(value: 0)
    let observer = EchoObserver(
      began: { progress.withLock { if $0.start == nil { $0.start = BenchMark() } } },
      ended: { trips in
        let isLast = progress.withLock { progress in
          progress.trips += trips
          progress.running -= 1
          if progress.running == 0 { progress.end = BenchMark() }
          return progress.running == 0
        }
        if isLast { ended.signal() }
      },
      failed: { BenchCommand.fail($0) })
    let clients = (0..<connections).map { _ in client(workload, observer) }
    Self.forEach(clients) { $0.connect(request, completion: $1) }
    for client in clients { client.start() }
    var echoes = 0
    while ended.wait(timeout: .now() + Self.patience) == .timedOut {
      let now = clients.reduce(0) { $0 + $1.received }
      if now == echoes { clients.first { $0.received < workload.total }?.explainSilence() }
      echoes = now
    }
    Self.forEach(clients) { $0.close(completion: $1) }
    return progress.withLock { progress in
      guard let start = progress.start, let end = progress.end else { BenchCommand.fail("nothing was measured") }
      return BenchResult(
        scenario, count: connections * workload.messages, bytesPerMessage: workload.payload.count, from: start,
        to: end, trips: progress.trips)
    }
  }

  private func client(_ workload: EchoWorkload, _ observer: EchoObserver) -> any EchoConnection {
    switch mode {
    case .loop, .queue: CallbackConnection(workload, configuration, api: api, observer: observer)
    case .async: TaskConnection(workload, configuration, observer: observer)
    }
  }

  /// Does a thing with each element and returns when all have completed.
  private static func forEach<Element>(_ elements: [Element], _ body: (Element, @escaping @Sendable () -> Void) -> Void)
  {
    let done = DispatchSemaphore(value: 0)
    for element in elements { body(element) { done.signal() } }
    for _ in elements { done.wait() }
  }

  // MARK: - Idle connections

  /// How many connections are being opened at a time, so that not the way of each to the server and back is measured.
  private static let openings = 8
  /// The idle connections, open until the process ends, so that their end is not measured.
  private static let handlers = Lock([DefaultWebSocketHandler]())

  private func openIdle() -> BenchResult {
    // Loops and resolver are there before the first connection counts.
    Self.forEach([1]) { open($0, completion: $1) }
    let before = BenchResult.residentKibibytes()
    let start = BenchMark()
    let shares = (0..<Self.openings).map { (connections + $0) / Self.openings }
    Self.forEach(shares) { open($0, completion: $1) }
    let end = BenchMark()
    let kibibytes = (BenchResult.residentKibibytes() - before) / Double(connections)
    return BenchResult(
      scenario, count: connections, bytesPerMessage: 0, from: start, to: end, kibibytesPerConnection: kibibytes)
  }

  /// Opens connections one after the other, each from the completion of the one before.
  private func open(_ count: Int, completion: @escaping @Sendable () -> Void) {
    guard count > 0 else { return completion() }
    let handler = DefaultWebSocketHandler(logger: SilentLogger(), configuration: configuration)
    Self.handlers.withLock { $0.append(handler) }
    handler.connect(request: request) { result in
      if case .failure(let error) = result { BenchCommand.fail("\(error)") }
      open(count - 1, completion: completion)
    }
  }
}
