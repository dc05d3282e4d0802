import Foundation
import WebSocketCore
import WebSocketTransport

extension DriverIO: ConnectionSink {
  mutating func dataFrameBegan(_ header: FrameHeader) {
    if let observer { observer.received(header.opcode, bytes: header.payloadLength) }
  }

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
    guard let bytes = piece.take() else { return }
    assembly.append(input.bytes(bytes))
  }

  mutating func messageEnded(_ kind: MessageKind) {
    liveness.sawMessage(at: loop)
    if !assembly.isEmpty {
      assemblePiece()
      expectsLong = assembly.count >= Self.longBytes
      if observer != nil { tellReceived(.messageReceived(kind, bytes: assembly.count)) }
      if lendsInput {
        lent.append(LentMessage(kind: kind, range: nil))
        lentPayloads.append(assembly.takeData())
      } else {
        keep(kind, assembly.takeData())
      }
      return
    }
    expectsLong = false
    take(kind, piece.take() ?? 0..<0)
  }

  mutating func message(_ kind: MessageKind, _ range: Range<Int>, of header: FrameHeader) {
    if observer != nil { dataFrameBegan(header) }
    liveness.sawMessage(at: loop)
    expectsLong = false
    take(kind, range)
  }

  @inline(__always)
  private mutating func take(_ kind: MessageKind, _ range: Range<Int>) {
    if observer != nil { tellReceived(.messageReceived(kind, bytes: range.count)) }
    if lendsInput {
      lent.append(LentMessage(kind: kind, range: range))
    } else {
      keep(kind, copying: input.bytes(range))
    }
  }

  /// Keeps what was to be lent, where something must come behind it that cannot be lent.
  mutating func settleLent() {
    lendsInput = false
    guard !lent.isEmpty else { return }
    for message in lent {
      if let range = message.range {
        keep(message.kind, copying: input.bytes(range))
      } else if let payload = lentPayloads.popFirst() {
        keep(message.kind, payload)
      }
    }
    lent.removeAll(keepingCapacity: true)
  }

  mutating func controlFrame(_ opcode: Opcode, payload: [UInt8]) {
    observer?.received(opcode, bytes: payload.count)
    switch opcode {
    case .ping:
      tellReceived(.pingReceived(bytes: payload.count))
      observe(.ping(payload), bytes: payload.count)
    case .pong:
      let roundTrip = acknowledge(payload)
      tellReceived(.pongReceived(bytes: payload.count, roundTrip: roundTrip))
      observe(.pong(payload, roundTrip: roundTrip), bytes: payload.count)
    case .close:
      tellClosing(by: .peer)
      // RFC 6455 §5.5.1: what has begun is finished, what has not is not begun any more.
      failedAtClose += outgoing.dropUnstarted()
    case .continuation, .text, .binary: break
    }
  }

  private mutating func observe(_ event: ControlFrameEvent, bytes: Int) {
    guard showsControlFrames, !dropsMessages else { return }
    settleLent()
    count(bytes)
    callbacks.append(.control(event))
  }

  /// A pong acknowledges its ping and those before it (RFC 6455 §5.5.3); an unknown payload none.
  private mutating func acknowledge(_ payload: [UInt8]) -> Duration? {
    let all = pings.removeAll()
    guard let match = all.firstIndex(where: { $0.payload == payload }) else {
      for ping in all { pings.append(ping) }
      return nil
    }
    for ping in all[(match + 1)...] { pings.append(ping) }
    let now = loop.now
    for ping in all[...match] {
      guard let completion = ping.completion else { continue }
      settleLent()
      callbacks.append(.pinged(completion, .success(now - ping.sentAt)))
    }
    let roundTrip = now - all[match].sentAt
    roundTrips.add(roundTrip)
    return roundTrip
  }

  mutating func write(_ opcode: Opcode, payload: [UInt8]) {
    if opcode == .pong, isWriteBlocked || outgoing.encodedBytes > SendQueue.pieceBytes {
      if latePong == nil { latePongPlace = outgoing.nextNumber - 1 }
      latePong = payload
      return
    }
    if opcode == .close, defersClose, !lent.isEmpty || !callbacks.isEmpty {
      deferredClose = payload
      return
    }
    sendControlFrame(opcode, payload)
  }

  /// Queues a control frame of ours.
  mutating func sendControlFrame(_ opcode: Opcode, _ payload: [UInt8]) {
    outgoing.append(opcode, .bytes(payload), random: random, completion: nil)
    if observer != nil { tellSent(opcode, bytes: payload.count) }
  }

  /// Lets the Close follow that waited for the messages before it.
  mutating func writeDeferredClose() {
    if let payload = deferredClose.take() { sendControlFrame(.close, payload) }
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
    (wantsClosingTimer, wantsFinish) = (false, false)
    failedAtClose += outgoing.dropUnstarted()
    for completion in outgoing.removeAll() { callbacks.append(.fail(completion, error)) }
    for dropped in failedAtClose { callbacks.append(.fail(dropped.completion, dropped.isMovable ? .closing : error)) }
    failedAtClose = []
    serve()
    failPings(error)
    wakeRoomWaiters()
    if !record.isClean { callbacks.append(.log(.error, error.description)) }
    callbacks.append(.log(.info, "WebSocket disconnected"))
    observer?.ended(isClean: record.isClean)
    tell(.closed(record))
    callbacks.append(.ended(record))
    if !isDelivering { answerDisconnects(record) }
  }

  /// Answers each disconnect, as the last of its connection: once no messages are out behind which receives may wait.
  mutating func answerDisconnects(_ record: CloseRecord) {
    for completion in disconnects {
      if record.isClean {
        callbacks.append(.succeed(completion))
      } else {
        callbacks.append(.fail(completion, record.transportEnd == .timedOut ? .timedOut(.close) : .closed(record)))
      }
    }
    disconnects = []
  }

  mutating func failPings(_ error: EngineError.WebSocketError) {
    for ping in pings.removeAll() {
      if let completion = ping.completion { callbacks.append(.pinged(completion, .failure(error))) }
    }
  }

  /// Lets the sends that wait for room try again.
  mutating func wakeRoomWaiters() {
    for waiter in roomWaiters { wakeUps.append { waiter.promise.give(()) } }
    roomWaiters = []
  }

  /// Lets those try again that there is room for.
  mutating func tellRoom() {
    for waiter in roomWaiters where outgoing.cost <= waiter.mark { wakeUps.append { waiter.promise.give(()) } }
    roomWaiters.removeAll { outgoing.cost <= $0.mark }
  }

  mutating func cancelTimers() {
    if let timer = connectTimer.take() { loop.cancel(timer) }
    if let timer = refusalTimer.take() { loop.cancel(timer) }
    if let timer = closingTimer.take() { loop.cancel(timer) }
    if let timer = livenessTimer.take() { loop.cancel(timer) }
  }
}
