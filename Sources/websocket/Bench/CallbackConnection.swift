import Synchronization
import WebSocketHandling
import WebSocketTransport

/// Sends and receives by callbacks.
final class CallbackConnection: EchoConnection {
  private struct Progress {
    var sent = 0
    var completed = 0
    var sentAt = Instant.now
    var trips: [Int64] = []
  }

  private let handler: DefaultWebSocketHandler
  /// The same, as services hold it.
  private let anyHandler: any WebSocketHandler
  private let workload: EchoWorkload
  /// The workload's message, read where it stands: taken out of the workload, each copy would count references.
  private let message: WebSocketMessage
  private let isNote: Bool
  private let api: BenchAPI
  private let observer: EchoObserver
  private let echoes = Atomic<Int>(0)
  // Safe: used by the handler's callbacks alone, which come one after the other. A pointer and no stored property, so
  // that no exclusivity check of ours is measured.
  private nonisolated(unsafe) let progress: UnsafeMutablePointer<Progress>

  init(_ workload: EchoWorkload, _ configuration: HandlerConfiguration, api: BenchAPI, observer: EchoObserver) {
    self.workload = workload
    self.api = api
    self.observer = observer
    handler = DefaultWebSocketHandler(logger: SilentLogger(), configuration: configuration)
    anyHandler = handler
    if case .message(let message) = workload.body {
      (self.message, isNote) = (message, false)
    } else {
      (message, isNote) = (.text(""), true)
    }
    progress = .allocate(capacity: 1)
    progress.initialize(to: Progress())
    if workload.isPingPong { progress.pointee.trips.reserveCapacity(workload.messages) }
  }

  deinit {
    progress.deinitialize(count: 1)
    progress.deallocate()
  }

  var received: Int { echoes.load(ordering: .relaxed) }

  func connect(_ request: NetworkRequest, completion: @escaping @Sendable () -> Void) {
    handler.connect(request: request) { [observer] result in
      if case .failure(let error) = result { return observer.failed("\(error)") }
      completion()
    }
  }

  /// Begins in a callback, so that the first messages are written together.
  func start() {
    handler.ping { [self] result in
      if case .failure(let error) = result { return observer.failed("\(error)") }
      if workload.warmUp == 0 { observer.began() }
      switch api {
      case .bytes, .string: handler.onMessage { [self] message in count(isEcho(message)) }
      case .receive: receive()
      }
      for _ in 0..<min(workload.inFlight, workload.total) { send() }
    }
  }

  func close(completion: @escaping @Sendable () -> Void) {
    handler.onMessage(nil)
    handler.disconnect { [self] result in
      if case .failure(let error) = result { return observer.failed("\(error)") }
      let completed = progress.pointee.completed
      guard completed == workload.total else {
        return observer.failed("\(workload.total) messages were sent, \(completed) completed")
      }
      completion()
    }
  }

  func explainSilence() {
    handler.ping { [observer] result in
      switch result {
      case .success: observer.failed("an echo is missing")
      case .failure(let error): observer.failed("\(error)")
      }
    }
  }

  // MARK: - Out

  private func send() {
    progress.pointee.sent += 1
    if workload.isPingPong { progress.pointee.sentAt = .now }
    switch api {
    case _ where isNote: if case .note(let note) = workload.body { send(note) }
    case .receive: send(message)
    case .bytes, .string:
      progress.pointee.completed += 1
      handler.send(message)
    }
  }

  private func send(_ message: some Encodable) {
    anyHandler.send(message: message) { [self] result in
      switch result {
      case .success: progress.pointee.completed += 1
      case .failure(let error): observer.failed("\(error)")
      }
    }
  }

  // MARK: - In

  private func isEcho(_ message: borrowing BorrowedMessage) -> Bool {
    if isNote { return (try? message.decode(BenchNote.self)).map(workload.isBody) ?? false }
    guard message.kind == workload.kind, message.count == workload.payload.count else { return false }
    guard workload.comparesEcho(received) else { return true }
    if api == .string, var text = message.text {
      return text.withUTF8 { workload.isPayload(UnsafeRawBufferPointer($0)) }
    }
    return message.withUnsafeBytes { workload.isPayload($0) }
  }

  private func receive() {
    if isNote { receiveNote() } else { receiveMessage() }
  }

  private func receiveMessage() {
    anyHandler.receive { [self] (result: Result<WebSocketMessage, EngineError.WebSocketError>) in
      switch result {
      case .success(let message):
        if received + 1 < workload.total { receiveMessage() }
        count(workload.isEcho(message, received))
      case .failure(let error): observer.failed("\(error)")
      }
    }
  }

  private func receiveNote() {
    anyHandler.receive { [self] (result: Result<BenchNote, EngineError.WebSocketError>) in
      switch result {
      case .success(let note):
        if received + 1 < workload.total { receiveNote() }
        count(workload.isBody(note))
      case .failure(let error): observer.failed("\(error)")
      }
    }
  }

  /// Counts an echo, and sends the next message or ends.
  private func count(_ isEcho: Bool) {
    guard isEcho else { return observer.failed("an echo is not what was sent") }
    let number = received + 1
    echoes.store(number, ordering: .relaxed)
    if workload.isPingPong, number > workload.warmUp {
      progress.pointee.trips.append(Instant.now.nanoseconds - progress.pointee.sentAt.nanoseconds)
    }
    if number == workload.warmUp { observer.began() }
    if progress.pointee.sent < workload.total {
      send()
    } else if number == workload.total {
      observer.ended(progress.pointee.trips)
    } else if number > workload.total {
      observer.failed("more came than was sent")
    }
  }
}
