import Foundation
import WebSocketCore
import WebSocketTransport

/// A receive that waits for its message.
package protocol PendingReceive: AnyObject, Sendable {
  /// Whether ``complete(_:)`` only wakes a task and may be called on any thread, without the way over the callbacks'.
  var onlyWakes: Bool { get }
  /// Called once, on the callbacks' thread.
  func complete(_ result: Result<WebSocketMessage, EngineError.WebSocketError>)
}

/// A call of `receive` that waits for its message.
enum WaitingReceive: Sendable {
  /// Wants the message as it is.
  case message(MessageCompletion)
  case pending(any PendingReceive)
}

/// Answers a ping with the time to its pong.
package typealias PingCompletion = @Sendable (Result<Duration, EngineError.WebSocketError>) -> Void

/// Work for the callbacks' thread.
enum Callback: Sendable {
  case succeed(Completion)
  /// So many sends are written; their completions are the next of ``DriverIO/written``.
  case written(Int)
  indirect case fail(Completion, EngineError.WebSocketError)
  case message(WaitingReceive, WebSocketMessage)
  indirect case failReceive(WaitingReceive, EngineError.WebSocketError)
  /// Kept messages are there for the standing receiver.
  case deliver
  /// The caller decides on a server's certificate, or hears of something else.
  case hook(@Sendable () -> Void)
  case control(ControlFrameEvent)
  indirect case pinged(PingCompletion, Result<Duration, EngineError.WebSocketError>)
  case log(LogLevel, String)
  case sendQueueLow
  indirect case event(HandlerEvent)
  indirect case ended(CloseRecord)

  /// What the callback counts for as long as it has not returned.
  var cost: Int {
    switch self {
    case .message(_, let message): message.cost
    case .control(.ping(let payload)), .control(.pong(let payload, roundTrip: _)): payload.count + messageOverhead
    case .event: messageOverhead
    case .succeed, .written, .fail, .failReceive, .deliver, .hook, .pinged, .log, .sendQueueLow, .ended: 0
    }
  }
}

/// What the thread that runs callbacks keeps for itself, out of the lock's reach.
struct CallbackTurn: ~Copyable, Sendable {
  /// The next callback: a receive that a callback made, with ``message``.
  ///
  /// Both are there or neither; they lie apart so that each is moved and no reference is counted.
  var receive: WaitingReceive?
  var message: WebSocketMessage?
  /// Whether more messages were kept behind that one.
  var hasMore = false
  /// What the callbacks cost that have returned and are not settled for.
  var delivered = 0
}

/// Where a driver stands between connections.
enum DriverPhase: Sendable {
  case never
  case connecting
  case open
  indirect case ended(CloseRecord)
}

/// A standing receiver; a class, so that its identity tells whether it was changed.
final class Receiver: Sendable {
  let receive: @Sendable (borrowing BorrowedMessage) -> Void

  init(_ receive: @escaping @Sendable (borrowing BorrowedMessage) -> Void) { self.receive = receive }
}

/// A send of the async layer that waits until the send queue has fallen to `mark`.
struct RoomWaiter: Sendable {
  var mark: Int
  var promise: Promise<Void>
}

/// A message that is lent to a receiver on the loop's thread.
///
/// Copied without counting references.
struct LentMessage: Sendable {
  var kind: MessageKind
  /// Where it lies in the bytes just read; nil for one that came in pieces and is the next of
  /// ``DriverIO/lentPayloads``.
  var range: Range<Int>?
}

/// Everything of a driver's state but the machine: the sink that the machine speaks into.
struct DriverIO: ~Copyable, Sendable {
  struct OutstandingPing: Sendable {
    var payload: [UInt8]
    var sentAt: Instant
    /// Nil for a ping of the keepalive's.
    var completion: PingCompletion?
  }

  let role: Role
  /// ``HandlerConfiguration/receiveBufferLimit``; a whole configuration would be a third of an idle connection's memory.
  let receiveBufferLimit: Int
  /// Whether somebody wants to hear of pings and pongs.
  let showsControlFrames: Bool
  let random: any RandomSource
  let loop: any EventLoop
  /// Nil where nobody looks from outside.
  let observer: Observer?

  var phase = DriverPhase.never
  /// Counts connections, so that news of an earlier one are told apart.
  var epoch = 0
  var transport: (any Transport)?
  var handshake: ClientHandshake?
  var answer: HandshakeAnswer?
  var dial: (any DialAttempt)?
  var connectCompletion: Completion?
  var connectTimer: LoopTimer?
  /// Bounds the time that a refusal's body takes.
  var refusalTimer: LoopTimer?
  var closingTimer: LoopTimer?
  var times = ConnectionTimes()
  /// Set by the machine; the driver starts the timer.
  var wantsClosingTimer = false
  /// Set by the machine; the driver ends the outgoing direction once everything is out.
  var wantsFinish = false

  /// What secures connections and remembers their sessions; made for the first that is secure.
  var tls: TLSConnector?
  var endObserver: (@Sendable (CloseRecord) -> Void)?
  var roomObserver: (@Sendable () -> Void)?

  var outgoing: SendQueue
  var isWriteBlocked = false
  /// Whether a server's connection is set up, and nothing is written until it is.
  var isPreparing = false
  /// How much callbacks, or a task that takes messages, send before it is written though more follow: little, so that
  /// the peer can work meanwhile; for callbacks once after each read, then as much as goes in one piece.
  var corkedBytes = SendQueue.pieceBytes
  /// What ``corkedBytes`` is after each read.
  private(set) var firstCorkedBytes = SendQueue.pieceBytes
  /// Whether the queue has grown above its low mark since it last fell to it.
  var isAboveLowMark = false
  /// Sends of the async layer that wait for room.
  var roomWaiters: [RoomWaiter] = []
  /// Wakes tasks; done as soon as the lock is open.
  var wakeUps: [@Sendable () -> Void] = []
  /// A ping's payload whose pong waits until what was queued before the first such ping is written: only the latest is
  /// answered then (RFC 6455 §5.5.3).
  var latePong: [UInt8]?
  /// The number of the message behind which ``latePong`` has its turn.
  var latePongPlace = -1

  /// Whether the socket is read; not while too much waits for the application.
  var isReading = true
  /// How TCP failed, as a write or the system found out before reading came to it.
  var failure: TransportEnd?
  var inbox = Inbox()
  /// What waits for the application: kept, on its way to a callback, or in one that has not returned.
  var undelivered = 0
  var receives = Queue<WaitingReceive>()
  var receiver: Receiver?
  /// Whether a task has taken a message and others are kept for it: what it sends meanwhile is written together.
  var isPulled = false
  /// Whether messages are out to the standing receiver, so that others wait behind them.
  var isDelivering = false
  /// The unfinished message's payload.
  var assembly = ByteBuffer()
  /// Where the current message lies in the input, while it is in one piece.
  var piece: Range<Int>?
  /// Whether the last message was long: then the next is likely to be, and only its start is read into the loop's
  /// buffer, so that the rest need not be copied out of it.
  var expectsLong = false
  /// From this length on a payload is read straight into memory of its own.
  static let longBytes = 32 << 10
  /// Whether the input is the assembly's own memory.
  var isDirect = false
  /// The input of the call; valid during it only.
  var input = InputPointer()
  /// Whether a receiver on the loop's thread takes messages straight from the input.
  var lendsInput = false
  var lent: [LentMessage] = []
  /// The lent messages that came in pieces, in memory of their own.
  var lentPayloads = Queue<Data>()
  /// Whether a Close waits until the messages read before it are delivered, so that they can still be answered: where
  /// callbacks run on the loop's thread, right behind the read.
  var defersClose = false
  /// The Close that waits.
  var deferredClose: [UInt8]?

  var liveness = Liveness()
  var livenessTimer: LoopTimer?
  var pings = Queue<OutstandingPing>()
  /// The number of the keepalive's last ping in ``outgoing``.
  var lastKeepalivePing = -1
  var roundTrips = RoundTripTimes()

  /// Sends that the peer's Close overtook; they fail at the end.
  var failedAtClose: [SendQueue.Dropped] = []
  var disconnects: [Completion] = []
  var isDisconnecting = false
  var callbacks: [Callback] = []
  /// The completions of sends that are written; ``Callback/written(_:)`` says when their turn is.
  var written = Queue<SendCompletion>()
  var isDraining = false
  var drainIsScheduled = false
  /// Whether memory that nothing lies in will be given back soon.
  var shrinkIsScheduled = false
  /// Whether what corked sends left will be written soon, however long their callback takes.
  var flushIsScheduled = false
  var logsMessages = false

  init(role: Role, configuration: HandlerConfiguration, random: any RandomSource, loop: any EventLoop) {
    self.role = role
    receiveBufferLimit = configuration.receiveBufferLimit
    showsControlFrames = configuration.onControlFrame != nil
    self.random = random
    self.loop = loop
    observer = Observer(configuration)
    outgoing = SendQueue(role: role)
  }

  /// Takes the connection's transport.
  mutating func attach(_ transport: any Transport) {
    self.transport = transport
    // So much that the peer is still at work when the rest comes, and need not be woken again. Encryption keeps this side
    // busier than the peer, which an early write then gains nothing.
    firstCorkedBytes = transport is TLSTransport ? SendQueue.pieceBytes : 20 << 10
  }

  /// Starts with a clean table; what waits for an earlier connection was answered at its end.
  mutating func reset(phase: DriverPhase) {
    self.phase = phase
    epoch += 1
    answer = nil
    undelivered -= inbox.cost
    inbox = Inbox()
    assembly.removeAll()
    piece = nil
    expectsLong = false
    isReading = true
    failure = nil
    isWriteBlocked = false
    isAboveLowMark = false
    latePong = nil
    lastKeepalivePing = -1
    deferredClose = nil
    isDisconnecting = false
    isPulled = false
    roundTrips = RoundTripTimes()
    (wantsClosingTimer, wantsFinish) = (false, false)
  }

  /// Whether buffers hold more memory than an idle connection should.
  var holdsMemory: Bool {
    outgoing.holdsMemory || inbox.holdsMemory || lent.capacity > 64 || written.holdsMemory
  }

  /// Gives memory back that nothing lies in.
  mutating func shrink() {
    outgoing.shrink()
    inbox.shrink()
    written.shrink()
    receives.shrink()
    if lent.isEmpty { lent = [] }
  }

  // MARK: - Messages for the application

  /// Whether more waits for the application than may.
  private var isFull: Bool { undelivered > receiveBufferLimit }

  /// Whether nobody will ask for a message that comes now: dropped, so that a paused connection can close too.
  var dropsMessages: Bool { isDisconnecting && receiver == nil && (receives.isEmpty || isFull) }

  mutating func count(_ bytes: Int) {
    undelivered += bytes + messageOverhead
    if isFull, !isDisconnecting || receiver != nil { isReading = false }
  }

  /// Whether enough was taken to read on.
  var mayReadOn: Bool {
    undelivered <= receiveBufferLimit / 2 || (isDisconnecting && receiver == nil)
  }

  /// Gives a message to whom it is for, or keeps a copy of it.
  mutating func keep(_ kind: MessageKind, copying bytes: UnsafeRawBufferPointer) {
    guard !dropsMessages else { return }
    // What is dropped is not told of: these lines would wait without a limit.
    if logsMessages { callbacks.append(.log(.debug, "WebSocket message received")) }
    count(bytes.count)
    if !isDelivering, let waiting = receives.popFirst() {
      give(WebSocketMessage(kind, copying: bytes), to: waiting)
      return
    }
    let isFirst = inbox.isEmpty
    inbox.append(kind, copying: bytes)
    if isFirst { announce() }
  }

  /// Gives a long message to whom it is for, or keeps it.
  mutating func keep(_ kind: MessageKind, _ payload: Data) {
    guard !dropsMessages else { return }
    // What is dropped is not told of: these lines would wait without a limit.
    if logsMessages { callbacks.append(.log(.debug, "WebSocket message received")) }
    count(payload.count)
    let isFirst = inbox.isEmpty
    inbox.append(kind, payload)
    if !receives.isEmpty { serve() } else if isFirst { announce() }
  }

  /// Tells the standing receiver that there are messages again.
  mutating func announce() {
    if receiver != nil, !isDelivering { callbacks.append(.deliver) }
  }

  /// Gives kept messages to the receives that wait, and fails those that none will come for.
  mutating func serve() {
    guard !isDelivering else { return }
    while !receives.isEmpty, let message = inbox.popFirst(), let waiting = receives.popFirst() {
      give(message, to: waiting)
    }
    if case .ended(let record) = phase { failReceives(.closed(record)) }
  }

  mutating func failReceives(_ error: EngineError.WebSocketError) {
    while let waiting = receives.popFirst() { fail(waiting, error) }
  }

  mutating func give(_ message: WebSocketMessage, to waiting: WaitingReceive) {
    if case .pending(let pending) = waiting, pending.onlyWakes {
      undelivered -= message.cost
      wakeUps.append { pending.complete(.success(message)) }
    } else {
      callbacks.append(.message(waiting, message))
    }
  }

  mutating func fail(_ waiting: WaitingReceive, _ error: EngineError.WebSocketError) {
    if case .pending(let pending) = waiting, pending.onlyWakes {
      wakeUps.append { pending.complete(.failure(error)) }
    } else {
      callbacks.append(.failReceive(waiting, error))
    }
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
