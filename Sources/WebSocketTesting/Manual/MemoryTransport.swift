import WebSocketCore
import WebSocketTransport

/// The client's end of a connection in memory; a ``MemoryConnection`` is the other.
///
/// It tells readiness as a socket does that is watched edge by edge: once at the start, then at each arrival, and when
/// there is room again after a write that found none.
final class MemoryTransport: Transport {
  struct State: Sendable {
    var handler: (any TransportHandler)?
    /// What has arrived and was not read.
    var incoming: [UInt8] = []
    /// How the peer's stream ended, behind ``incoming``.
    var end: TransportEnd?
    /// What was written and the peer has not taken.
    var outgoing = ClientBytes()
    /// The bytes that can still be written; nil for any number.
    var room: Int?
    /// The most that one write takes.
    var largestWrite = Int.max
    var isWriteBlocked = false
    var hasFinished = false
    var isClosed = false
  }

  let loop: ManualLoop
  let state = Lock(State())

  init(on loop: ManualLoop) { self.loop = loop }

  /// Lets something happen on the peer's side: the client hears of it on the loop, in turn.
  ///
  /// - Parameter event: changes the state and says what the client can do now that it could not before.
  func happen(_ event: @escaping @Sendable (inout State) -> (readable: Bool, writable: Bool)) {
    loop.execute { [self] in
      let (handler, readable, writable) = state.withLock { state in
        guard !state.isClosed else { return (nil as (any TransportHandler)?, false, false) }
        let (readable, writable) = event(&state)
        return (state.handler, readable, writable)
      }
      if readable || writable { handler?.transportIsReady(self, readable: readable, writable: writable) }
    }
  }

  func start(_ handler: any TransportHandler) {
    state.withLock { $0.handler = handler }
    happen { state in (readable: !state.incoming.isEmpty || state.end != nil, writable: true) }
  }

  func read(into buffer: UnsafeMutableRawBufferPointer) -> ReadOutcome {
    state.withLock { state in
      if state.isClosed { return .end(.finished) }
      guard !state.incoming.isEmpty else { return state.end.map { .end($0) } ?? .wouldBlock }
      let count = min(buffer.count, state.incoming.count)
      buffer.copyBytes(from: state.incoming[..<count])
      state.incoming.removeFirst(count)
      return .bytes(count)
    }
  }

  var peerHasFinished: Bool { state.withLock { $0.end != nil } }

  var failure: TransportEnd? { state.withLock { $0.end == .reset ? .reset : nil } }

  func write(_ bytes: UnsafeRawBufferPointer) -> WriteOutcome {
    state.withLock { state in
      if state.isClosed || state.hasFinished || state.end == .reset { return .failed(.reset) }
      let count = min(bytes.count, state.room ?? .max, state.largestWrite)
      if count == 0, !bytes.isEmpty {
        state.isWriteBlocked = true
        return .wouldBlock
      }
      state.outgoing.append(bytes[..<count])
      state.room = state.room.map { $0 - count }
      return .wrote(count)
    }
  }

  func finishWriting() { state.withLock { $0.hasFinished = true } }

  func close() {
    // The handler is released outside the lock: its end may call back in.
    let handler = state.withLock { state -> (any TransportHandler)? in
      state.isClosed = true
      state.hasFinished = true
      state.incoming = []
      return state.handler.take()
    }
    _ = handler
  }
}
