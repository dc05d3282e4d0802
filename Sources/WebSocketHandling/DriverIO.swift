import Foundation
import WebSocketCore
import WebSocketTransport

/// A receive that waits for its message.
package protocol PendingReceive: AnyObject, Sendable {
  /// Called once, on the callbacks' thread.
  func complete(_ result: Result<WebSocketMessage, EngineError.WebSocketError>)
}

/// Work for the callbacks' thread.
enum Callback: Sendable {
  case complete(Completion, Result<Void, EngineError.WebSocketError>)
  case received(any PendingReceive, Result<WebSocketMessage, EngineError.WebSocketError>)
  /// Kept messages are there for the standing receiver.
  case deliver
  case control(ControlFrameEvent)
  case pinged(
    @Sendable (Result<Duration, EngineError.WebSocketError>) -> Void, Result<Duration, EngineError.WebSocketError>)
  case log(LogLevel, String)
  case ended(CloseRecord)
}

/// Where a driver stands between connections.
enum DriverPhase: Sendable {
  case never
  case connecting
  case open
  case ended(CloseRecord)
}

/// A standing receiver; a class, so that its identity tells whether it was changed.
final class Receiver: Sendable {
  let receive: @Sendable (borrowing BorrowedMessage) -> Void

  init(_ receive: @escaping @Sendable (borrowing BorrowedMessage) -> Void) { self.receive = receive }
}

/// Everything of a driver's state but the machine: the sink that the machine speaks into.
struct DriverIO: ~Copyable, Sendable {
  struct OutstandingPing: Sendable {
    var payload: [UInt8]
    var sentAt: Instant
    var completion: @Sendable (Result<Duration, EngineError.WebSocketError>) -> Void
  }

  let role: Role
  let configuration: HandlerConfiguration
  let random: any RandomSource
  let loop: any EventLoop

  var phase = DriverPhase.never
  /// Counts connections, so that news of an earlier one are told apart.
  var epoch = 0
  var transport: (any Transport)?
  var handshake: ClientHandshake?
  var answer: HandshakeAnswer?
  var dial: (any DialAttempt)?
  var connectCompletion: Completion?
  var connectTimer: LoopTimer?
  var closingTimer: LoopTimer?
  var closeTimeout = Duration.seconds(5)
  /// Set by the machine; the driver starts the timer outside.
  var wantsClosingTimer = false
  var wantsFinish = false
  var hasFinished = false

  var outgoing: SendQueue
  var isWriteBlocked = false
  var isReading = true
  /// A ping's payload whose pong waits for room: only the latest is answered then (RFC 6455 §5.5.3).
  var latePong: [UInt8]?

  var kept = Queue<StoredMessage>()
  var keptCost = 0
  var receives = Queue<any PendingReceive>()
  var receiver: Receiver?
  /// The unfinished message's payload.
  var assembly = ByteBuffer()
  /// Where the current message lies in the input, while it is in one piece.
  var piece: Range<Int>?
  /// Whether the input is the assembly's own memory.
  var isDirect = false
  /// The input of the call; valid during it only.
  var input = InputPointer()
  /// Messages that a receiver on the loop's thread takes straight from the input.
  var lendsInput = false
  /// Whether a Close waits until the messages read before it are delivered, so that they can still be answered: where
  /// callbacks run on the loop's thread, right behind the read.
  var defersClose = false
  /// The Close that waits.
  var deferredClose: [UInt8]?
  var lent: [(kind: MessageKind, range: Range<Int>)] = []

  var pings = Queue<OutstandingPing>()
  /// Sends that the peer's Close overtook; they fail with the record of the end.
  var failedAtClose: [Completion] = []
  var disconnects: [Completion] = []
  var isDisconnecting = false
  var callbacks: [Callback] = []
  var isDraining = false
  var drainIsScheduled = false
  var drainingThread: UInt = 0
  var logsMessages = false

  init(role: Role, configuration: HandlerConfiguration, random: any RandomSource, loop: any EventLoop) {
    self.role = role
    self.configuration = configuration
    self.random = random
    self.loop = loop
    outgoing = SendQueue(role: role)
  }

  /// Starts with a clean table; what waits for an earlier connection was answered at its end.
  mutating func reset(phase: DriverPhase) {
    self.phase = phase
    epoch += 1
    answer = nil
    kept = Queue()
    keptCost = 0
    assembly.removeAll()
    piece = nil
    isReading = true
    isWriteBlocked = false
    latePong = nil
    deferredClose = nil
    isDisconnecting = false
    (wantsClosingTimer, wantsFinish, hasFinished) = (false, false, false)
  }

  mutating func keep(_ message: StoredMessage) {
    if logsMessages { callbacks.append(.log(.debug, "WebSocket message received")) }
    if let waiting = receives.popFirst() {
      callbacks.append(.received(waiting, .success(message.message)))
      return
    }
    if isDisconnecting, receiver == nil { return }
    kept.append(message)
    keptCost += message.cost
    if receiver != nil, kept.count == 1 { callbacks.append(.deliver) }
    if keptCost > configuration.receiveBufferLimit, !isDisconnecting { isReading = false }
  }

  mutating func popKept() -> StoredMessage? {
    guard let message = kept.popFirst() else { return nil }
    keptCost -= message.cost
    return message
  }
}

/// The address of the bytes that the machine is reading.
///
/// Safety: set before a call of the machine's and cleared behind it, under the driver's lock; read in between only.
struct InputPointer: @unchecked Sendable {
  var base: UnsafeRawPointer?

  func bytes(_ range: Range<Int>) -> UnsafeRawBufferPointer {
    UnsafeRawBufferPointer(start: base.map { $0 + range.lowerBound }, count: range.count)
  }
}

extension DriverIO: ConnectionSink {
  mutating func dataFrameBegan(_ header: FrameHeader) {}

  mutating func payload(_ range: Range<Int>) {
    if isDirect {
      assembly.commit(range.count)
    } else if assembly.isEmpty, piece == nil {
      piece = range
    } else {
      assemblePiece()
      assembly.append(input.bytes(range))
    }
  }

  /// Moves the piece that lies in the input to memory of the message's own.
  mutating func assemblePiece() {
    if let piece { assembly.append(input.bytes(piece)) }
    piece = nil
  }

  mutating func messageEnded(_ kind: MessageKind) {
    if assembly.isEmpty {
      let range = piece ?? 0..<0
      piece = nil
      if lendsInput, kept.isEmpty, callbacks.isEmpty, !logsMessages {
        lent.append((kind, range))
      } else {
        let bytes = input.bytes(range)
        keep(kind == .text ? .text(String(decoding: bytes, as: UTF8.self)) : .binary(Data(bytes)))
      }
      return
    }
    assemblePiece()
    switch kind {
    case .text:
      let text = String(decoding: assembly.readable, as: UTF8.self)
      assembly.removeAll()
      settleLent()
      keep(.text(text))
    case .binary:
      settleLent()
      keep(.binary(assembly.takeData()))
    }
  }

  /// Keeps what was to be lent, where something that must come behind it cannot be lent.
  mutating func settleLent() {
    guard !lent.isEmpty else { return }
    let messages = lent
    lent.removeAll(keepingCapacity: true)
    lendsInput = false
    for (kind, range) in messages {
      let bytes = input.bytes(range)
      keep(kind == .text ? .text(String(decoding: bytes, as: UTF8.self)) : .binary(Data(bytes)))
    }
  }

  mutating func controlFrame(_ opcode: Opcode, payload: [UInt8]) {
    switch opcode {
    case .ping:
      if configuration.onControlFrame != nil {
        settleLent()
        callbacks.append(.control(.ping(payload)))
      }
    case .pong:
      let roundTrip = acknowledge(payload)
      if configuration.onControlFrame != nil {
        settleLent()
        callbacks.append(.control(.pong(payload, roundTrip: roundTrip)))
      }
    case .close:
      // RFC 6455 §5.5.1: what has begun is finished, what has not is not begun any more.
      for completion in outgoing.dropUnstarted() { failedAtClose.append(completion) }
    case .continuation, .text, .binary: break
    }
  }

  /// A pong acknowledges its ping and those before it (RFC 6455 §5.5.3); an unknown payload none.
  private mutating func acknowledge(_ payload: [UInt8]) -> Duration? {
    let now = loop.now
    var known: [OutstandingPing] = []
    let all = pings.removeAll()
    guard let match = all.firstIndex(where: { $0.payload == payload }) else {
      for ping in all { pings.append(ping) }
      return nil
    }
    known = Array(all[...match])
    for ping in all[(match + 1)...] { pings.append(ping) }
    settleLent()
    for ping in known { callbacks.append(.pinged(ping.completion, .success(now - ping.sentAt))) }
    return now - known[known.count - 1].sentAt
  }

  mutating func write(_ opcode: Opcode, payload: [UInt8]) {
    if opcode == .pong, isWriteBlocked || outgoing.encodedBytes > SendQueue.pieceBytes {
      latePong = payload
      return
    }
    if opcode == .close, defersClose, !lent.isEmpty || !callbacks.isEmpty {
      deferredClose = payload
      return
    }
    outgoing.append(opcode, .bytes(payload), random: random, completion: nil)
  }

  /// Lets the Close follow that waited for the messages before it.
  mutating func writeDeferredClose() {
    guard let payload = deferredClose.take() else { return }
    outgoing.append(.close, .bytes(payload), random: random, completion: nil)
  }

  mutating func startClosingTimer() { wantsClosingTimer = true }

  mutating func finishWriting() { wantsFinish = true }

  mutating func ended(_ record: CloseRecord) {
    deferredClose = nil
    settleLent()
    let error = EngineError.WebSocketError.closed(record)
    phase = .ended(record)
    transport?.close()
    transport = nil
    cancelTimers()
    assembly.removeAll()
    piece = nil
    for completion in failedAtClose + outgoing.removeAll() { callbacks.append(.complete(completion, .failure(error))) }
    failedAtClose = []
    for waiting in receives.removeAll() { callbacks.append(.received(waiting, .failure(error))) }
    for ping in pings.removeAll() { callbacks.append(.pinged(ping.completion, .failure(error))) }
    if !record.isClean { callbacks.append(.log(.error, error.description)) }
    callbacks.append(.log(.info, "WebSocket disconnected"))
    callbacks.append(.ended(record))
    let result: Result<Void, EngineError.WebSocketError> =
      record.isClean
      ? .success(()) : .failure(record.transportEnd == .timedOut ? .timedOut(.close) : error)
    for completion in disconnects { callbacks.append(.complete(completion, result)) }
    disconnects = []
  }

  mutating func cancelTimers() {
    if let timer = connectTimer.take() { loop.cancel(timer) }
    if let timer = closingTimer.take() { loop.cancel(timer) }
  }
}
