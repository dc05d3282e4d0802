import Foundation
import Glibc
package import WebSocketCore
package import WebSocketTransport

/// Drives one connection at a time: feeds a ``ConnectionMachine``, performs what it asks, and answers everyone.
///
/// One lock guards all of it. Under it: decide, encode, write without blocking. The user's code runs outside, one
/// callback after the other.
package final class ConnectionDriver: Sendable {
  struct State: ~Copyable, Sendable {
    var machine: ConnectionMachine
    var io: DriverIO
  }

  let state: Lock<State>
  let environment: Environment
  let configuration: HandlerConfiguration
  let loop: any EventLoop
  let logger: any Logger
  private let executor: any CallbackExecutor
  private let role: Role
  /// Whether callbacks run on the loop's thread, at the end of a read.
  let runsInline: Bool
  private let endObserver = Lock<(@Sendable (CloseRecord) -> Void)?>(nil)

  package init(
    role: Role, configuration: HandlerConfiguration, environment: Environment, loop: any EventLoop, logger: any Logger
  ) {
    self.role = role
    self.configuration = configuration
    self.environment = environment
    self.loop = loop
    self.logger = logger
    switch configuration.callbacks {
    case .eventLoop: (executor, runsInline) = (LoopExecutor(loop), true)
    case .privateQueue: (executor, runsInline) = (environment.callbackExecutor ?? QueueExecutor(target: nil), false)
    case .queue(let queue):
      (executor, runsInline) = (environment.callbackExecutor ?? QueueExecutor(target: queue), false)
    }
    var io = DriverIO(role: role, configuration: configuration, random: environment.random, loop: loop)
    io.logsMessages = logger.isEnabled(.debug)
    state = Lock(State(machine: ConnectionMachine(role: role, limits: configuration.limits), io: io))
  }

  /// Changes the state, then does outside the lock what the change asked for.
  func perform<Result>(_ change: (inout State) -> Result) -> Result {
    let (result, mustDrain) = state.withLock { state in
      let result = change(&state)
      followUp(&state)
      let mustDrain = !state.io.callbacks.isEmpty && !state.io.drainIsScheduled && !state.io.isDraining
      if mustDrain { state.io.drainIsScheduled = true }
      return (result, mustDrain)
    }
    if mustDrain { executor.execute { [self] in drain() } }
    return result
  }

  /// Starts the timers and ends the direction that the machine asked for.
  private func followUp(_ state: inout State) {
    if state.io.wantsClosingTimer {
      state.io.wantsClosingTimer = false
      let epoch = state.io.epoch
      state.io.closingTimer = loop.schedule(after: state.io.closeTimeout) { [self] in
        perform { state in
          guard state.io.epoch == epoch else { return }
          state.machine.closingTimedOut(into: &state.io)
        }
      }
    }
    if state.io.wantsFinish, !state.io.hasFinished, state.io.deferredClose == nil, state.io.outgoing.isEmpty,
      let transport = state.io.transport
    {
      state.io.hasFinished = true
      transport.finishWriting()
    }
  }

  // MARK: - Callbacks

  /// Hears of each end, on the callbacks' thread.
  package func onEnd(_ body: @escaping @Sendable (CloseRecord) -> Void) { endObserver.withLock { $0 = body } }

  /// Runs what waits, one after the other, on the callbacks' thread.
  ///
  /// Sends made meanwhile are written together.
  func drain() {
    let mayRun = state.withLock { state in
      guard !state.io.isDraining else { return false }
      state.io.isDraining = true
      state.io.drainingThread = pthread_self()
      return true
    }
    guard mayRun else { return }
    while true {
      let batch = state.withLock { state in
        let batch = state.io.callbacks
        state.io.callbacks = []
        if batch.isEmpty {
          state.io.isDraining = false
          state.io.drainIsScheduled = false
          state.io.drainingThread = 0
        }
        return batch
      }
      guard !batch.isEmpty else { break }
      for callback in batch { run(callback) }
      pump()
    }
  }

  private func run(_ callback: Callback) {
    switch callback {
    case .complete(let completion, let result): completion(result)
    case .received(let receive, let result): receive.complete(result)
    case .deliver: deliverKept()
    case .control(let event): configuration.onControlFrame?(event)
    case .pinged(let completion, let result): completion(result)
    case .log(let level, let text):
      logger.log(file: #fileID, function: #function, line: #line, logLevel: level, text)
    case .ended(let record): endObserver.withLock { $0 }?(record)
    }
  }

  /// Gives kept messages to the standing receiver, as long as it stands.
  private func deliverKept() {
    while true {
      let next = state.withLock { state -> (Receiver, StoredMessage)? in
        guard let receiver = state.io.receiver, let message = state.io.popKept() else { return nil }
        return (receiver, message)
      }
      guard let (receiver, message) = next else { break }
      message.lend(to: receiver.receive)
    }
    resumeReading()
  }

  // MARK: - Sending

  /// Sends a message; a nil completion means that nobody waits.
  package func send(_ kind: MessageKind, _ payload: Payload, completion: Completion?) {
    perform { state in
      if let error = refusal(&state, bytes: payload.count) {
        answer(error, completion, &state)
        return
      }
      state.io.outgoing.append(kind.opcode, payload, random: environment.random, completion: completion)
      writeUnlessCorked(&state)
    }
    pumpLong()
  }

  /// Sends a borrowed message back.
  package func send(_ message: borrowing BorrowedMessage) {
    let kind = message.kind
    message.withUnsafeBytes { bytes in
      let isDone = perform { state in
        if let error = refusal(&state, bytes: bytes.count) {
          answer(error, nil, &state)
          return true
        }
        guard state.io.outgoing.appendBorrowed(kind.opcode, bytes, random: environment.random) else { return false }
        writeUnlessCorked(&state)
        return true
      }
      if !isDone { send(kind, .bytes(Array(bytes)), completion: nil) }
    }
  }

  private func answer(_ error: EngineError.WebSocketError, _ completion: Completion?, _ state: inout State) {
    state.io.callbacks.append(.log(.error, error.description))
    if let completion { state.io.callbacks.append(.complete(completion, .failure(error))) }
  }

  /// Why a message cannot be taken now.
  private func refusal(_ state: inout State, bytes: Int) -> EngineError.WebSocketError? {
    switch state.io.phase {
    case .never: return .messageSendFailed("WebSocket is not connected")
    case .ended(let record): return .closed(record)
    case .connecting: break
    case .open:
      switch state.machine.state {
      case .open: break
      case .closing: return .closing
      case .closed where state.io.deferredClose != nil, .failing where state.io.deferredClose != nil: break
      case .closed(let record), .failing(let record), .ended(let record):
        return state.io.isDisconnecting ? .closing : .closed(record)
      }
    }
    if state.io.isDisconnecting { return .closing }
    let limits = configuration
    guard bytes <= limits.limits.maximumMessageBytes else {
      return .limitExceeded(.message, size: bytes, limit: limits.limits.maximumMessageBytes)
    }
    let total = state.io.outgoing.cost + bytes + messageOverhead
    guard state.io.outgoing.cost == 0 || total <= limits.sendQueueLimit else {
      return .limitExceeded(.sendQueue, size: total, limit: limits.sendQueueLimit)
    }
    return nil
  }

  /// Writes at once unless this thread is running callbacks inline: then the end of the batch does.
  private func writeUnlessCorked(_ state: inout State) {
    if runsInline, state.io.drainingThread == pthread_self(),
      state.io.outgoing.encodedBytes < SendQueue.pieceBytes
    {
      return
    }
    writePiece(&state)
  }

  /// Writes one piece; true where more may go at once.
  @discardableResult
  func writePiece(_ state: inout State) -> Bool {
    guard let transport = state.io.transport, !state.io.isWriteBlocked, !state.io.outgoing.isEmpty else { return false }
    switch state.io.outgoing.writePiece(to: transport, random: environment.random) {
    case .wrote:
      while let written = state.io.outgoing.nextWritten() {
        if state.io.logsMessages { state.io.callbacks.append(.log(.debug, "WebSocket message sent")) }
        if let completion = written { state.io.callbacks.append(.complete(completion, .success(()))) }
      }
      if let payload = state.io.latePong, state.io.outgoing.isEmpty, state.machine.state.canSend {
        state.io.latePong = nil
        state.io.outgoing.append(.pong, .bytes(payload), random: environment.random, completion: nil)
      }
      return !state.io.outgoing.isEmpty
    case .wouldBlock: state.io.isWriteBlocked = true
    case .failed:
      // What the peer sent before it went is still worth reading; the read finds the end.
      state.io.isWriteBlocked = true
      state.io.isReading = true
      loop.execute { [self] in readAvailable(transport) }
    }
    return false
  }

  /// Writes what waits, a piece at each hold of the lock.
  func pump() {
    while perform({ state in writePiece(&state) }) {}
  }

  private func pumpLong() {
    let mustPump = state.withLock { state in
      !state.io.outgoing.isEmpty && !state.io.isWriteBlocked
        && !(runsInline && state.io.drainingThread == pthread_self())
    }
    if mustPump { pump() }
  }

  /// Bytes and messages that wait to be written.
  package var buffered: (bytes: Int, messages: Int) {
    state.withLock {
      ($0.io.outgoing.cost - $0.io.outgoing.messageCount * messageOverhead, $0.io.outgoing.messageCount)
    }
  }
}

extension ConnectionDriver: TransportHandler {
  package func transportIsReady(_ transport: any Transport, readable: Bool, writable: Bool) {
    if writable {
      let mustPump = state.withLock { state in
        guard state.io.transport === transport else { return false }
        let wasBlocked = state.io.isWriteBlocked
        state.io.isWriteBlocked = false
        return wasBlocked || !state.io.outgoing.isEmpty
      }
      if mustPump { pump() }
    }
    if readable { readAvailable(transport) }
  }
}
