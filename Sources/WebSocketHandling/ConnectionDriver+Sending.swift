import Foundation
import Glibc
import Synchronization
import WebSocketCore
import WebSocketTransport

extension ConnectionDriver {
  /// How long a callback's sends may wait for those of the callbacks behind it.
  private static let corkLimit = Duration.milliseconds(1)

  /// What became of a message at once.
  enum SendOutcome: Sendable {
    case written
    /// Not taken: no byte is written.
    case refused(EngineError.WebSocketError)
    /// The connection ended under it.
    case failed(EngineError.WebSocketError)
    /// The completion will tell.
    case pending
  }

  // MARK: - Messages

  /// Sends a message; a nil completion means that nobody waits.
  package func send(_ kind: MessageKind, _ payload: Payload, completion: Completion?) {
    let mustPump = perform { state in
      if let error = refusal(&state, bytes: payload.count) {
        answer(error, completion, &state)
        return false
      }
      return enqueue(kind, payload, completion, isAwaited: completion != nil, &state)
    }
    if mustPump { pump() }
  }

  /// Sends a message and says at once what became of it, where that is known; else `completion` is asked for, under the
  /// lock, and will tell: as `closing` where the connection ended before the message was begun.
  func send(_ kind: MessageKind, _ payload: Payload, orLater completion: () -> Completion) -> SendOutcome {
    let (outcome, mustPump) = perform { state -> (SendOutcome, Bool) in
      if let error = refusal(&state, bytes: payload.count) { return (.refused(error), false) }
      let number = state.io.outgoing.nextNumber
      let mustPump = enqueue(kind, payload, nil, isAwaited: true, &state)
      if case .ended(let record) = state.io.phase { return (.failed(.closed(record)), false) }
      if state.io.outgoing.hasWritten(number) { return (.written, mustPump) }
      state.io.outgoing.complete(last: completion())
      return (.pending, mustPump)
    }
    if mustPump { pump() }
    return outcome
  }

  /// Sends a borrowed message on.
  package func send(_ message: borrowing BorrowedMessage) {
    let kind = message.kind
    message.withUnsafeBytes { bytes in
      if !sendAtOnce(kind, bytes, completion: nil) { send(kind, .bytes(Array(bytes)), completion: nil) }
    }
  }

  /// Sends a message whose text or data stays the caller's, without a reference to it where it is short.
  package func send(_ message: borrowing WebSocketMessage, completion: Completion?) {
    let isSent: Bool?
    switch message {
    case .text(let text):
      isSent = text.utf8.withContiguousStorageIfAvailable {
        sendAtOnce(.text, UnsafeRawBufferPointer($0), completion: completion)
      }
    case .binary(let data): isSent = data.withUnsafeBytes { sendAtOnce(.binary, $0, completion: completion) }
    }
    if isSent != true { send(message.kind, message.payload, completion: completion) }
  }

  /// Encodes a short message from memory that is only lent; false where it has to be kept instead.
  private func sendAtOnce(_ kind: MessageKind, _ bytes: UnsafeRawBufferPointer, completion: Completion?) -> Bool {
    let rest = state.withLock { state -> Rest? in
      appendCorked(kind, bytes, completion, &state) ? nil : appendShort(kind, bytes, completion, &state)
    }
    guard let rest else { return true }
    follow(rest.aftermath)
    if rest.mustPump { pump() }
    return rest.isDone
  }

  /// What a send leaves to be done outside the lock.
  private struct Rest: ~Copyable {
    /// False: the message has to be kept, and sent as one that is.
    var isDone = true
    var mustPump = false
    var aftermath = Aftermath()
  }

  /// Encodes a short message, or answers why not, and writes what may be written now.
  ///
  /// Apart from ``appendCorked(_:_:_:_:)``, so that nearly all sends need no memory for what this leaves.
  @inline(never)
  private func appendShort(
    _ kind: MessageKind, _ bytes: UnsafeRawBufferPointer, _ completion: Completion?, _ state: inout State
  ) -> Rest {
    var rest = Rest()
    if !takes(bytes.count, state), let error = refusal(&state, bytes: bytes.count) {
      answer(error, completion, &state)
    } else if state.io.outgoing.appendBorrowed(kind.opcode, bytes, random: environment.random, completion: completion) {
      noteGrowth(kind, bytes: bytes.count, &state)
      rest.mustPump = writeUnlessCorked(&state, isAwaited: completion != nil)
    } else {
      rest.isDone = false
    }
    conclude(&state, &rest.aftermath)
    return rest
  }

  /// Encodes a short message behind those that will be written soon, as nearly all that callbacks send; false where that
  /// is not all there is to do.
  private func appendCorked(
    _ kind: MessageKind, _ bytes: UnsafeRawBufferPointer, _ completion: Completion?, _ state: inout State
  ) -> Bool {
    guard isCorked ? runsInline || state.io.flushIsScheduled : waitsForTask(state, completion),
      takes(bytes.count, state),
      state.io.outgoing.encodedBytes + bytes.count + FrameHeader.maximumLength < state.io.corkedBytes,
      state.io.outgoing.appendBorrowed(kind.opcode, bytes, random: environment.random, completion: completion)
    else { return false }
    noteGrowth(kind, bytes: bytes.count, &state)
    return true
  }

  /// Whether what is sent waits for what the task does that takes messages.
  private func waitsForTask(_ state: borrowing State, _ completion: Completion?) -> Bool {
    state.io.isPulled && completion == nil && state.io.flushIsScheduled
  }

  /// Queues a message and writes what may be written now; true where more may go at once.
  private func enqueue(
    _ kind: MessageKind, _ payload: Payload, _ completion: Completion?, isAwaited: Bool, _ state: inout State
  ) -> Bool {
    let bytes = payload.count
    state.io.outgoing.append(kind.opcode, payload, random: environment.random, completion: completion)
    noteGrowth(kind, bytes: bytes, &state)
    return writeUnlessCorked(&state, isAwaited: isAwaited)
  }

  @inline(__always)
  private func noteGrowth(_ kind: MessageKind, bytes: Int, _ state: inout State) {
    if state.io.observer != nil { state.io.tellSent(kind.opcode, bytes: bytes) }
    state.io.liveness.sawMessage(at: loop)
    if state.io.outgoing.cost > configuration.sendQueueLowMark { state.io.isAboveLowMark = true }
  }

  private func answer(_ error: EngineError.WebSocketError, _ completion: Completion?, _ state: inout State) {
    state.io.callbacks.append(.log(.error, error.description))
    if let completion { state.io.callbacks.append(.fail(completion, error)) }
  }

  /// Whether a message is taken now, in the connection's usual state; where not, ``refusal(_:bytes:)`` knows why.
  @inline(__always)
  private func takes(_ bytes: Int, _ state: borrowing State) -> Bool {
    guard case .open = state.io.phase, state.machine.canSend, bytes <= configuration.limits.maximumMessageBytes else {
      return false
    }
    let queued = state.io.outgoing.cost
    return queued == 0 || queued + bytes + messageOverhead <= configuration.sendQueueLimit
  }

  /// Why a message cannot be taken now.
  private func refusal(_ state: inout State, bytes: Int) -> EngineError.WebSocketError? {
    switch state.io.phase {
    case .never: return .messageSendFailed("WebSocket is not connected")
    case .ended(let record): return .closed(record)
    case .connecting: return overflow(state.io.outgoing.cost, bytes: bytes)
    case .open where state.machine.canSend: return overflow(state.io.outgoing.cost, bytes: bytes)
    case .open: break
    }
    if state.io.isDisconnecting { return .closing }
    switch state.machine.state {
    case .open: break
    case .closing: return .closing
    case .closed(let record), .failing(let record), .ended(let record):
      // Messages read before the Close may still be answered.
      if state.io.deferredClose == nil { return .closed(record) }
    }
    return overflow(state.io.outgoing.cost, bytes: bytes)
  }

  private func overflow(_ queued: Int, bytes: Int) -> EngineError.WebSocketError? {
    guard bytes <= configuration.limits.maximumMessageBytes else {
      return .limitExceeded(.message, size: bytes, limit: configuration.limits.maximumMessageBytes)
    }
    let total = queued + bytes + messageOverhead
    guard queued == 0 || total <= configuration.sendQueueLimit else {
      return .limitExceeded(.sendQueue, size: total, limit: configuration.sendQueueLimit)
    }
    return nil
  }

  /// Keeps the promise when a send that was refused may be tried again: the queue has fallen to its low mark, or is
  /// empty where it was below that, or the connection has ended.
  func waitForRoom(_ promise: Promise<Void>) {
    let waits = state.withLock { state in
      switch state.io.phase {
      case .never, .ended: return false
      case .connecting, .open: break
      }
      let cost = state.io.outgoing.cost
      guard cost > 0 else { return false }
      let mark = cost > configuration.sendQueueLowMark ? configuration.sendQueueLowMark : 0
      state.io.roomWaiters.append(RoomWaiter(mark: mark, promise: promise))
      return true
    }
    if !waits { promise.give(()) }
  }

  /// Keeps the promise at once, and forgets it.
  func stopWaiting(_ promise: Promise<Void>) {
    state.withLock { $0.io.roomWaiters.removeAll { $0.promise === promise } }
    promise.give(())
  }

  // MARK: - Writing

  /// Whether this thread is in callbacks whose sends wait for their end.
  private var isCorked: Bool { corkedThread.load(ordering: .relaxed) == pthread_self() }

  /// Writes at once, unless this thread is in callbacks that others follow, or a task takes messages: then the last of
  /// them does, or whoever finds that enough waits.
  ///
  /// True where more may go at once.
  private func writeUnlessCorked(_ state: inout State, isAwaited: Bool) -> Bool {
    let isInCallbacks = isCorked
    guard isInCallbacks || (state.io.isPulled && !isAwaited),
      state.io.outgoing.encodedBytes < state.io.corkedBytes
    else {
      if isInCallbacks { state.io.corkedBytes = SendQueue.pieceBytes }
      return writePiece(&state)
    }
    // A callback on a queue may block for what its own send brings about, and a task may take its time.
    if !(isInCallbacks && runsInline), !state.io.flushIsScheduled {
      state.io.flushIsScheduled = true
      _ = loop.schedule(after: Self.corkLimit) { [self] in
        self.state.withLock { state in
          state.io.flushIsScheduled = false
          // A task that asks no more must not hold sends back.
          state.io.isPulled = false
        }
        pump()
      }
    }
    return false
  }

  /// Writes one piece; true where more may go at once.
  @discardableResult
  func writePiece(_ state: inout State) -> Bool {
    guard let transport = state.io.transport, !state.io.isWriteBlocked, !state.io.outgoing.isEmpty else { return false }
    switch state.io.outgoing.writePiece(to: transport, random: environment.random) {
    case .wrote:
      noteWritten(&state)
      return !state.io.outgoing.isEmpty
    case .wouldBlock: state.io.isWriteBlocked = true
    case .failed(let end):
      state.io.isWriteBlocked = true
      failed(end, transport, &state)
    }
    return false
  }

  private func noteWritten(_ state: inout State) {
    let (messages, completions) = state.io.outgoing.takeWritten(into: &state.io.written)
    if state.io.logsMessages {
      for _ in 0..<messages { state.io.callbacks.append(.log(.debug, "WebSocket message sent")) }
    }
    if completions > 0 { state.io.callbacks.append(.written(completions)) }
    if state.io.isAboveLowMark, state.io.outgoing.cost <= configuration.sendQueueLowMark {
      state.io.isAboveLowMark = false
      state.io.callbacks.append(.sendQueueLow)
    }
    if !state.io.roomWaiters.isEmpty { state.io.tellRoom() }
    if state.io.latePong != nil, state.io.outgoing.hasWritten(state.io.latePongPlace),
      let payload = state.io.latePong.take(), state.machine.canSend
    {
      state.io.sendControlFrame(.pong, payload)
    }
  }

  /// Writes what waits, a piece at each hold of the lock.
  ///
  /// - Parameter willDrain: the caller runs the callbacks.
  func pump(willDrain: Bool = false) {
    while perform(willDrain: willDrain, { state in writePiece(&state) }) {}
  }

  /// TCP is broken.
  ///
  /// What the peer sent before is still worth reading, as far as there is room; then the end comes.
  func failed(_ end: TransportEnd, _ transport: any Transport, _ state: inout State) {
    if state.io.failure == nil { state.io.failure = end }
    if mayRead(state) {
      loop.execute { [self] in readAvailable(transport) }
    } else {
      state.machine.transportEnded(end, into: &state.io)
    }
  }

  /// Payload bytes and messages that wait to be written.
  package var buffered: (bytes: Int, messages: Int) {
    state.withLock {
      ($0.io.outgoing.cost - $0.io.outgoing.messageCount * messageOverhead, $0.io.outgoing.messageCount)
    }
  }
}
