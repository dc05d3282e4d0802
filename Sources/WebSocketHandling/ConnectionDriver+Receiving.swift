import Foundation
import Glibc
import Synchronization
import WebSocketCore
package import WebSocketTransport

extension ConnectionDriver: TransportHandler {
  package func transportIsReady(_ transport: any Transport, readable: Bool, writable: Bool) {
    if writable {
      let mustPump = state.withLock { state in
        guard state.io.transport === transport, state.io.isWriteBlocked, state.io.failure == nil else { return false }
        state.io.isWriteBlocked = false
        // The peer took something.
        state.io.liveness.sawLife()
        return true
      }
      if mustPump { pump() }
    }
    if readable { readAvailable(transport) }
  }
}

extension ConnectionDriver {
  /// What is read and decoded at one hold of the lock.
  private static let bytesPerHold = 64 << 10
  /// What is read where a long message is likely to begin.
  private static let startBytes = 4 << 10
  /// How many reads one connection gets before the others have their turn.
  private static let readsPerTurn = 8

  // MARK: - Reading

  /// Reads until nothing is there, nothing is wanted, or the turn is over.
  ///
  /// On the loop's thread.
  func readAvailable(_ transport: any Transport) {
    for _ in 0..<Self.readsPerTurn {
      guard readOnce(transport) else { return }
    }
    loop.execute { [self] in readAvailable(transport) }
  }

  /// One read, decoded under one hold of the lock and delivered in one go; true where more may be there.
  private func readOnce(_ transport: any Transport) -> Bool {
    let buffer = loop.readBuffer
    var batch: [LentMessage] = []
    var payloads = Queue<Data>()
    var receiver: Receiver?
    var changes = 0
    var epoch = 0
    let (more, mustPump) = perform(willDrain: runsInline) { state -> (Bool, Bool) in
      guard state.io.transport === transport else { return (false, false) }
      guard mayRead(state) else {
        if let end = transport.failure { failed(end, transport, &state) }
        return (false, false)
      }
      let more = read(transport, buffer, &state)
      if !state.io.lent.isEmpty {
        swap(&batch, &state.io.lent)
        swap(&payloads, &state.io.lentPayloads)
        receiver = state.io.receiver
        changes = receiverChanges.load(ordering: .relaxed)
        epoch = state.io.epoch
        state.io.isDraining = true
        state.io.isDelivering = true
      }
      if !mayRead(state), let end = state.io.failure { failed(end, transport, &state) }
      return (more, !runsInline && writePiece(&state))
    }
    if mustPump { pump() }
    guard runsInline else { return more }
    if let receiver { lend(batch, &payloads, of: buffer, to: receiver, changes, epoch) }
    finishTurn(&batch)
    return more
  }

  /// Ends what a read began on the loop's thread: callbacks, then what they sent, then the Close that waited for them.
  private func finishTurn(_ batch: inout [LentMessage]) {
    let (hasCallbacks, hasMore) = perform(willDrain: true) { state -> (Bool, Bool) in
      if !batch.isEmpty {
        state.io.isDraining = false
        endDelivery(&state)
        batch.removeAll(keepingCapacity: batch.count <= 1024)
        swap(&batch, &state.io.lent)
      }
      guard state.io.callbacks.isEmpty else { return (true, false) }
      state.io.writeDeferredClose()
      return (false, writePiece(&state))
    }
    if hasMore { pump() }
    guard hasCallbacks else { return }
    drain()
    let mustPump = perform { state in
      state.io.writeDeferredClose()
      return writePiece(&state)
    }
    if mustPump { pump() }
  }

  /// Whether the socket is read: there is room for messages, or none will come any more.
  func mayRead(_ state: borrowing State) -> Bool { state.io.isReading || !state.machine.canReceive }

  /// Reads once and feeds the machine or the handshake.
  private func read(_ transport: any Transport, _ buffer: UnsafeMutableRawBufferPointer, _ state: inout State) -> Bool {
    let missing = state.machine.missingPayloadBytes
    let isDirect = missing >= DriverIO.longBytes && state.io.handshake == nil
    let wanted = isDirect ? missing : state.io.expectsLong ? Self.startBytes : buffer.count
    let room = min(wanted, isDirect ? Self.bytesPerHold : min(buffer.count, Self.bytesPerHold))
    let target: UnsafeMutableRawBufferPointer
    if isDirect {
      target = UnsafeMutableRawBufferPointer(start: state.io.assembly.reserve(room, of: missing), count: room)
    } else {
      target = UnsafeMutableRawBufferPointer(rebasing: buffer[..<room])
    }
    switch transport.read(into: target) {
    case .bytes(let count):
      state.io.liveness.sawLife()
      state.io.corkedBytes = state.io.firstCorkedBytes
      take(UnsafeMutableRawBufferPointer(rebasing: target[..<count]), isDirect: isDirect, &state)
      return count == room || transport.peerHasFinished || state.io.failure != nil
    case .wouldBlock:
      // What came before a failed write is read: nothing more is to be waited for.
      if let end = state.io.failure { ended(end, &state) }
      return false
    case .end(let end):
      ended(end, &state)
      return false
    }
  }

  private func take(_ input: UnsafeMutableRawBufferPointer, isDirect: Bool, _ state: inout State) {
    state.io.defersClose = runsInline && !state.io.isDraining
    if state.io.handshake != nil {
      receiveAnswer(input, &state)
    } else {
      state.io.isDirect = isDirect
      state.io.lendsInput =
        runsInline && state.io.receiver != nil && !state.io.isDraining && state.io.inbox.isEmpty
        && state.io.receives.isEmpty && state.io.callbacks.isEmpty && !state.io.logsMessages
      feed(input, &state)
      state.io.isDirect = false
      state.io.lendsInput = false
    }
    state.io.defersClose = false
  }

  /// Passes bytes through the machine.
  func feed(_ input: UnsafeMutableRawBufferPointer, _ state: inout State) {
    guard !input.isEmpty else { return }
    state.io.input.base = UnsafeRawPointer(input.baseAddress)
    var span = input.mutableBytes
    state.machine.receive(&span, into: &state.io)
    if let piece = state.io.piece {
      // Room for the whole payload at once, as its header announced it.
      _ = state.io.assembly.reserve(piece.count, of: piece.count + state.machine.missingPayloadBytes)
      state.io.assemblePiece()
    }
    state.io.input.base = nil
  }

  private func ended(_ end: TransportEnd, _ state: inout State) {
    if state.io.handshake != nil {
      answerEnded(end, &state)
    } else {
      // The system tells an error once: what a write heard, the read does not hear again.
      state.machine.transportEnded(state.io.failure ?? end, into: &state.io)
    }
  }

  /// Reads on, on the loop's thread, where reading was paused.
  func resumeReading() {
    let transport = state.withLock { state -> (any Transport)? in
      guard !state.io.isReading, state.io.mayReadOn else { return nil }
      state.io.isReading = true
      return state.io.transport
    }
    if let transport { loop.execute { [self] in readAvailable(transport) } }
  }

  // MARK: - The standing receiver

  /// Installs the standing receiver, or removes it.
  package func onMessage(_ receiver: (@Sendable (borrowing BorrowedMessage) -> Void)?) {
    let old = perform { state -> Receiver? in
      let old = state.io.receiver
      state.io.receiver = receiver.map(Receiver.init)
      receiverChanges.add(1, ordering: .relaxed)
      if !state.io.inbox.isEmpty { state.io.announce() }
      return old
    }
    // Released outside the lock: its end may call back in.
    _ = old
  }

  /// Lends messages that lie in the loop's buffer, one after the other; those behind a change of the receiver are kept.
  private func lend(
    _ batch: [LentMessage], _ payloads: inout Queue<Data>, of buffer: UnsafeMutableRawBufferPointer,
    to receiver: Receiver, _ changes: Int, _ epoch: Int
  ) {
    cork(true)
    var next = 0
    while next < batch.count, receiverChanges.load(ordering: .relaxed) == changes {
      let kind = batch[next].kind
      if let range = batch[next].range {
        let bytes = UnsafeRawBufferPointer(rebasing: buffer[range])
        receiver.receive(BorrowedMessage(kind: kind, payload: bytes))
      } else if let payload = payloads.popFirst() {
        payload.withUnsafeBytes { receiver.receive(BorrowedMessage(kind: kind, payload: $0)) }
      }
      next += 1
    }
    cork(false)
    guard next < batch.count else { return }
    var rest = Inbox()
    for index in next..<batch.count {
      let kind = batch[index].kind
      if let range = batch[index].range {
        rest.append(kind, copying: UnsafeRawBufferPointer(rebasing: buffer[range]))
      } else if let payload = payloads.popFirst() {
        rest.append(kind, payload)
      }
    }
    state.withLock { state in
      // What nobody took of a connection goes with it, once there is another.
      guard state.io.epoch == epoch else { return }
      state.io.undelivered += rest.cost
      state.io.inbox.prepend(&rest)
    }
  }

  /// Gives kept messages to the standing receiver, as long as it stands.
  func deliverKept() {
    var batch = Inbox()
    while let (receiver, changes, epoch) = takeKept(&batch) {
      let cost = batch.cost
      while receiverChanges.load(ordering: .relaxed) == changes {
        cork(runsInline || batch.count > 1)
        guard batch.lendFirst(to: receiver.receive) else { break }
      }
      let mayGoOn = giveBack(&batch, delivered: cost - batch.cost, epoch)
      resumeReading()
      guard mayGoOn else { return }
    }
  }

  /// Takes everything kept, for the receiver.
  private func takeKept(_ batch: inout Inbox) -> (Receiver, changes: Int, epoch: Int)? {
    state.withLock { state in
      guard let receiver = state.io.receiver, !state.io.inbox.isEmpty, !state.io.isDelivering else { return nil }
      swap(&batch, &state.io.inbox)
      state.io.isDelivering = true
      return (receiver, receiverChanges.load(ordering: .relaxed), state.io.epoch)
    }
  }

  /// Puts back what was not delivered; true where the receiver may have more at once.
  private func giveBack(_ batch: inout Inbox, delivered: Int, _ epoch: Int) -> Bool {
    perform { state in
      state.io.undelivered -= delivered
      if state.io.epoch == epoch {
        state.io.inbox.prepend(&batch)
      } else {
        // What nobody took of a connection goes with it, once there is another.
        state.io.undelivered -= batch.cost
        batch = Inbox()
      }
      guard state.io.receives.isEmpty, state.io.disconnects.isEmpty else {
        endDelivery(&state)
        return false
      }
      state.io.isDelivering = false
      return true
    }
  }

  /// The messages that were out have been delivered: those behind them have their turn, first for the receives that
  /// were made while no receiver stood, and then the end.
  private func endDelivery(_ state: inout State) {
    state.io.isDelivering = false
    state.io.serve()
    if !state.io.inbox.isEmpty { state.io.announce() }
    if case .ended(let record) = state.io.phase { state.io.answerDisconnects(record) }
  }

  // MARK: - Receives

  /// Waits for the next message.
  func receive(_ receive: consuming WaitingReceive) {
    if let turn = ownTurn, takeNext(turn) {
      turn.pointee.receive = receive
    } else {
      wait(receive)
    }
  }

  private func wait(_ receive: WaitingReceive) {
    perform { state in
      state.io.isPulled = false
      if let error = refusal(toReceive: &state) { return state.io.fail(receive, error) }
      if !state.io.isDelivering, let message = state.io.inbox.popFirst() {
        state.io.give(message, to: receive)
      } else {
        state.io.receives.append(receive)
        state.io.serve()
      }
    }
  }

  /// Takes the message for a callback's receive, where one is kept and nothing comes before it, which is then answered
  /// right behind that callback: the usual way of a receive that is made again and again, and it saves the one through
  /// the callbacks that wait.
  private func takeNext(_ turn: UnsafeMutablePointer<CallbackTurn>) -> Bool {
    if case .some = turn.pointee.receive { return false }
    let (isTaken, mayReadOn) = state.withLock { state -> (Bool, Bool) in
      guard state.io.receiver == nil, !state.io.isDelivering, state.io.receives.isEmpty, state.io.callbacks.isEmpty
      else { return (false, false) }
      state.io.isPulled = false
      state.io.undelivered -= turn.pointee.delivered
      turn.pointee.delivered = 0
      let isTaken = !state.io.inbox.isEmpty
      turn.pointee.message = state.io.inbox.popFirst()
      turn.pointee.hasMore = !state.io.inbox.isEmpty
      return (isTaken, !state.io.isReading && state.io.mayReadOn)
    }
    if mayReadOn { resumeReading() }
    return isTaken
  }

  /// Takes the next message where one is kept; nil: there is none, ask with ``receive(_:)``.
  func takeMessage() -> WebSocketMessage? {
    var message: WebSocketMessage?
    let (mayReadOn, mustPump) = state.withLock { state -> (Bool, Bool) in
      if state.io.receiver == nil, !state.io.isDelivering, state.io.receives.isEmpty {
        message = state.io.inbox.popFirst()
      }
      state.io.isPulled = !state.io.inbox.isEmpty
      guard let message else {
        state.io.isPulled = false
        return (false, !state.io.outgoing.isEmpty)
      }
      state.io.undelivered -= message.cost
      return (!state.io.isReading && state.io.mayReadOn, false)
    }
    if mayReadOn { resumeReading() }
    if mustPump { pump() }
    return message.take()
  }

  private func refusal(toReceive state: inout State) -> EngineError.WebSocketError? {
    if case .never = state.io.phase { return .messageReceiveFailed("WebSocket is not connected") }
    if state.io.receiver != nil { return .misuse(.receiverInstalled) }
    let limit = configuration.receiveBufferLimit / messageOverhead
    guard state.io.receives.count < max(limit, 1) else {
      return .limitExceeded(.receives, size: state.io.receives.count + 1, limit: limit)
    }
    return nil
  }

  /// Takes a receive back; false where it is answered already.
  func withdraw(_ pending: any PendingReceive) -> Bool {
    state.withLock { state in
      let withdrawn = state.io.receives.removeAll { receive in
        if case .pending(let other) = receive { other === pending } else { false }
      }
      return !withdrawn.isEmpty
    }
  }
}
