import Foundation
import Glibc
import WebSocketCore
import WebSocketTransport

extension ConnectionDriver {
  /// Below this many missing bytes the loop's buffer serves; above, the rest is read straight into the message.
  private static let directBytes = 32 << 10
  /// How many reads one connection gets before the others have their turn.
  private static let readsPerTurn = 8

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
    var batch: [(kind: MessageKind, range: Range<Int>)] = []
    var receiver: Receiver?
    let more = perform { state -> Bool in
      guard state.io.transport === transport, state.io.isReading else { return false }
      let more = read(transport, buffer, &state)
      if !state.io.lent.isEmpty {
        swap(&batch, &state.io.lent)
        receiver = state.io.receiver
        state.io.isDraining = true
        state.io.drainingThread = pthread_self()
      }
      return more
    }
    if let receiver {
      lend(batch, of: buffer, to: receiver)
    }
    if runsInline, loop.isCurrent { drain() }
    let mustPump = perform { state in
      let waited = state.io.deferredClose != nil
      state.io.writeDeferredClose()
      return waited || batch.isEmpty
    }
    if mustPump { pump() }
    return more
  }

  /// Reads once and feeds the machine or the handshake.
  private func read(_ transport: any Transport, _ buffer: UnsafeMutableRawBufferPointer, _ state: inout State) -> Bool {
    let missing = state.machine.missingPayloadBytes
    if state.io.handshake == nil, missing >= Self.directBytes {
      state.io.assemblePiece()
      let target = UnsafeMutableRawBufferPointer(start: state.io.assembly.reserve(missing), count: missing)
      switch transport.read(into: target) {
      case .bytes(let count):
        state.io.isDirect = true
        feed(UnsafeMutableRawBufferPointer(rebasing: target[..<count]), &state)
        state.io.isDirect = false
        return count == missing || transport.peerHasFinished
      case .wouldBlock: return false
      case .end(let end):
        ended(end, &state)
        return false
      }
    }
    switch transport.read(into: buffer) {
    case .bytes(let count):
      let input = UnsafeMutableRawBufferPointer(rebasing: buffer[..<count])
      state.io.defersClose = runsInline && !state.io.isDraining && loop.isCurrent
      if state.io.handshake != nil {
        receiveAnswer(input, &state)
      } else {
        state.io.lendsInput = state.io.defersClose && state.io.receiver != nil
        feed(input, &state)
      }
      state.io.defersClose = false
      return count == buffer.count || transport.peerHasFinished
    case .wouldBlock: return false
    case .end(let end):
      ended(end, &state)
      return false
    }
  }

  /// Passes bytes through the machine.
  func feed(_ input: UnsafeMutableRawBufferPointer, _ state: inout State) {
    guard !input.isEmpty else { return }
    state.io.input.base = UnsafeRawPointer(input.baseAddress)
    var span = input.mutableBytes
    state.machine.receive(&span, into: &state.io)
    if !state.io.isDirect { state.io.assemblePiece() }
    state.io.input.base = nil
    state.io.lendsInput = false
  }

  private func ended(_ end: TransportEnd, _ state: inout State) {
    if state.io.handshake != nil {
      answerEnded(&state)
    } else {
      state.machine.transportEnded(end, into: &state.io)
    }
  }

  /// Lends messages that lie in the loop's buffer, one after the other; what a changed receiver leaves is kept.
  private func lend(
    _ batch: [(kind: MessageKind, range: Range<Int>)], of buffer: UnsafeMutableRawBufferPointer, to receiver: Receiver
  ) {
    for (index, message) in batch.enumerated() {
      receiver.receive(
        BorrowedMessage(kind: message.kind, payload: UnsafeRawBufferPointer(rebasing: buffer[message.range])))
      let isLast = index == batch.count - 1
      let mustStop = !isLast && state.withLock { $0.io.receiver !== receiver }
      if mustStop {
        state.withLock { state in
          var later = state.io.kept
          state.io.kept = Queue()
          state.io.keptCost = 0
          for (kind, range) in batch[(index + 1)...] {
            let bytes = UnsafeRawBufferPointer(rebasing: buffer[range])
            state.io.keep(kind == .text ? .text(String(decoding: bytes, as: UTF8.self)) : .binary(Data(bytes)))
          }
          while let message = later.popFirst() { state.io.keep(message) }
        }
        break
      }
    }
    state.withLock { state in
      state.io.isDraining = false
      state.io.drainingThread = 0
      if state.io.lent.isEmpty {
        var empty = batch
        empty.removeAll(keepingCapacity: batch.count <= 1024)
        state.io.lent = empty
      }
    }
    pump()
  }

  /// Reads on where enough of the kept messages is consumed.
  func resumeReading() {
    let transport = state.withLock { state -> (any Transport)? in
      guard !state.io.isReading, state.io.keptCost <= configuration.receiveBufferLimit / 2 || state.io.isDisconnecting
      else { return nil }
      state.io.isReading = true
      return state.io.transport
    }
    if let transport { loop.execute { [self] in readAvailable(transport) } }
  }

  /// Waits for the next message.
  package func receive(_ pending: any PendingReceive) {
    perform { state in
      let io: EngineError.WebSocketError?
      switch state.io.phase {
      case .never: io = .messageReceiveFailed("WebSocket is not connected")
      case .connecting, .open, .ended: io = state.io.receiver == nil ? nil : .misuse(.receiverInstalled)
      }
      if let io {
        state.io.callbacks.append(.received(pending, .failure(io)))
        return
      }
      if let message = state.io.popKept() {
        state.io.callbacks.append(.received(pending, .success(message.message)))
      } else if case .ended(let record) = state.io.phase {
        state.io.callbacks.append(.received(pending, .failure(.closed(record))))
      } else {
        state.io.receives.append(pending)
      }
    }
    resumeReading()
  }

  /// Takes a receive back; false where it is answered already.
  package func withdraw(_ pending: any PendingReceive) -> Bool {
    state.withLock { !$0.io.receives.removeAll { $0 === pending }.isEmpty }
  }

  /// Installs the standing receiver, or removes it.
  package func onMessage(_ receiver: (@Sendable (borrowing BorrowedMessage) -> Void)?) {
    perform { state in
      state.io.receiver = receiver.map(Receiver.init)
      if receiver != nil, !state.io.kept.isEmpty { state.io.callbacks.append(.deliver) }
    }
  }
}
