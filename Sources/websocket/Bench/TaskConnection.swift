import Synchronization
import WebSocketHandling
import WebSocketTransport

/// Sends and receives in one task, by the async layer: `messages(of:)`, and `send` awaited where one message at a time
/// is on its way.
final class TaskConnection: EchoConnection {
  private let handler: DefaultWebSocketHandler
  private let workload: EchoWorkload
  private let observer: EchoObserver
  private let echoes = Atomic<Int>(0)

  init(_ workload: EchoWorkload, _ configuration: HandlerConfiguration, observer: EchoObserver) {
    self.workload = workload
    self.observer = observer
    handler = DefaultWebSocketHandler(logger: SilentLogger(), configuration: configuration)
  }

  var received: Int { echoes.load(ordering: .relaxed) }

  func connect(_ request: NetworkRequest, completion: @escaping @Sendable () -> Void) {
    attempt { [handler] in
      try await handler.connect(request: request)
      completion()
    }
  }

  func start() {
    attempt { [self] in
      switch workload.body {
      case .message(let message): try await exchange(message, isEcho: workload.isEcho) { handler.send(message) }
      case .note(let note):
        try await exchange(note) { echo, _ in
          workload.isBody(echo)
        } sendWithoutWaiting: {
          handler.send(message: note) { _ in }
        }
      }
    }
  }

  func close(completion: @escaping @Sendable () -> Void) {
    attempt { [handler] in
      try await handler.disconnect()
      completion()
    }
  }

  func explainSilence() {
    attempt { [self] in
      _ = try await handler.ping()
      observer.failed("an echo is missing")
    }
  }

  private func attempt(_ body: @escaping @Sendable () async throws -> Void) {
    Task { [observer] in
      do { try await body() } catch { observer.failed("\(error)") }
    }
  }

  private func exchange<Message: Codable & Sendable>(
    _ message: Message, isEcho: (Message, Int) -> Bool, sendWithoutWaiting: () -> Void
  ) async throws {
    var echoes = handler.messages(of: Message.self).makeAsyncIterator()
    var trips: [Int64] = []
    if workload.isPingPong { trips.reserveCapacity(workload.messages) }
    if workload.warmUp == 0 { observer.began() }
    var sent = 0
    while received < workload.total {
      let sentAt = workload.isPingPong ? Instant.now : Instant(nanoseconds: 0)
      // All that may be on their way at first, one for each echo then.
      while sent < min(workload.total, received + workload.inFlight) {
        sent += 1
        if workload.isPingPong { try await handler.send(message: message) } else { sendWithoutWaiting() }
      }
      let echo = try await echoes.next()
      guard let echo, isEcho(echo, received) else {
        return observer.failed("an echo is not what was sent")
      }
      self.echoes.store(received + 1, ordering: .relaxed)
      if workload.isPingPong, received > workload.warmUp { trips.append(Instant.now.nanoseconds - sentAt.nanoseconds) }
      if received == workload.warmUp { observer.began() }
    }
    observer.ended(trips)
  }
}
