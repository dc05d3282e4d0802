import Synchronization
package import WebSocketCore

/// TLS over another transport.
///
/// A server's handshake happens inside the first reads; a client's is driven by ``TLSHandshake``, since nothing may be
/// written before the server is judged.
package final class TLSTransport: Transport, TransportHandler {
  private struct State: ~Copyable, Sendable {
    var session: TLSSession
    var handler: (any TransportHandler)?
    var isStarted = false
    var isClosed = false
    /// How the incoming stream ended; then it stays so.
    var end: TransportEnd?
    /// Bytes of the owner's that are encrypted, and not reported as written since not all of their records are.
    var encrypted = 0
    /// Whether reading waits until records are written.
    var readNeedsOutput = false
    /// Whether writing waits until records are read.
    var writeNeedsInput = false
    /// Whether the base's outgoing direction ends behind the records.
    var wantsFinish = false
  }

  /// What is encrypted at a time, in bytes: five records, so that a piece of 64 KiB and its headers leave together.
  private static let writeBytes = 80 << 10

  /// How often the base is read at a call: records without data must keep the loop neither from others nor from timers.
  private static let readsPerCall = 4

  private let base: any Transport
  private let loop: any EventLoop
  private let onResumption: @Sendable (TLSResumption) -> Void
  /// Whether reading goes on without news: the stream has ended, or a read stopped before the base was empty.
  private let mayReadOn = Atomic<Bool>(false)
  // OpenSSL's session is used under this lock alone: closing may come from any thread.
  private let state: Lock<State>

  /// - Parameter onResumption: takes sessions that can be resumed, under the owner's lock.
  init(
    _ session: consuming TLSSession, over base: any Transport, on loop: any EventLoop,
    onResumption: @escaping @Sendable (TLSResumption) -> Void = { _ in }
  ) {
    self.base = base
    self.loop = loop
    self.onResumption = onResumption
    state = Lock(State(session: session))
  }

  // MARK: - Readiness

  package func start(_ handler: any TransportHandler) throws(TransportError) {
    try state.withLock { state throws(TransportError) in
      // A base that is started behind its end would be kept by the loop for ever.
      guard !state.isClosed else { return }
      state.handler = handler
      if state.isStarted {
        // Readiness is told when it changes, and the handler before may have heard of the last change.
        loop.execute { [self] in transportIsReady(base, readable: true, writable: true) }
      } else {
        try base.start(self)
        state.isStarted = true
      }
    }
  }

  package func transportIsReady(_ transport: any Transport, readable: Bool, writable: Bool) {
    var (readable, writable) = (readable, writable)
    let handler = state.withLock { state in
      if writable, flush(&state) == nil, state.readNeedsOutput {
        state.readNeedsOutput = false
        readable = true
      }
      if readable, state.writeNeedsInput {
        state.writeNeedsInput = false
        writable = true
      }
      return state.handler
    }
    handler?.transportIsReady(self, readable: readable, writable: writable)
  }

  package var peerHasFinished: Bool { base.peerHasFinished || mayReadOn.load(ordering: .relaxed) }

  package var failure: TransportEnd? { base.failure }

  // MARK: - Handshake

  /// Takes the handshake as far as the base allows; nil: it goes on when the base is ready.
  func handshake() -> Result<Void, TLSFailure>? {
    state.withLock { state in
      defer { state.session.releaseInput() }
      while true {
        let step = state.session.handshake()
        // Also where it failed: the peer is told why.
        let unwritten = flush(&state)
        switch step {
        case .done: return .success(())
        case .ended(.tls(let failure)): return .failure(failure)
        case .ended: return .failure(.connectionEnded)
        case .needsOutput: if unwritten != nil { return nil }
        case .needsInput:
          switch state.session.readRecords(from: base) {
          case .bytes: break
          case .wouldBlock: return nil
          case .end: return .failure(.connectionEnded)
          }
        }
      }
    }
  }

  // MARK: - Reading

  package func read(into buffer: UnsafeMutableRawBufferPointer) -> ReadOutcome {
    state.withLock { state in
      if let end = state.end { return .end(end) }
      mayReadOn.store(false, ordering: .relaxed)
      let count = decrypt(into: buffer, &state)
      state.session.releaseInput()
      _ = flush(&state)
      if let resumption = state.session.takeResumption() { onResumption(resumption) }
      if count > 0 { return .bytes(count) }
      if let end = state.end { return .end(end) }
      // None so far, and no news will come of those that are there.
      return mayReadOn.load(ordering: .relaxed) ? .bytes(0) : .wouldBlock
    }
  }

  /// Fills the buffer as far as there is something; what came of the stream stands in the state.
  private func decrypt(into buffer: UnsafeMutableRawBufferPointer, _ state: inout State) -> Int {
    var filled = 0
    var reads = 0
    var mayHoldMore = true
    while filled < buffer.count {
      switch state.session.read(into: UnsafeMutableRawBufferPointer(rebasing: buffer[filled...])) {
      case .done(let count): filled += count
      case .needsInput:
        guard mayHoldMore else { return filled }
        guard reads < Self.readsPerCall else {
          mayReadOn.store(true, ordering: .relaxed)
          return filled
        }
        reads += 1
        switch state.session.readRecords(from: base) {
        case .bytes(let count): mayHoldMore = count == TLSSession.readBytes || base.peerHasFinished
        case .wouldBlock: return filled
        case .end(.finished):
          // Only close_notify ends the stream; TCP's end could be anybody's doing (RFC 8446 §6.1).
          end(.truncated, &state)
          return filled
        case .end(let end):
          self.end(end, &state)
          return filled
        }
      case .needsOutput:
        if flush(&state) != nil {
          state.readNeedsOutput = true
          return filled
        }
      case .ended(let end):
        self.end(end, &state)
        return filled
      }
    }
    return filled
  }

  private func end(_ end: TransportEnd, _ state: inout State) {
    state.end = end
    mayReadOn.store(true, ordering: .relaxed)
  }

  // MARK: - Writing

  /// Encrypts and writes.
  ///
  /// After ``WriteOutcome/wouldBlock`` the same bytes must come again, more may follow them: their records are
  /// made and wait.
  package func write(_ bytes: UnsafeRawBufferPointer) -> WriteOutcome {
    state.withLock { state in
      if let outcome = flush(&state) { return outcome }
      if state.encrypted == 0, let end = encrypt(bytes, &state) {
        _ = flush(&state)
        return .failed(end)
      }
      if let outcome = flush(&state) { return outcome }
      guard state.encrypted > 0 || bytes.isEmpty else { return .wouldBlock }
      defer { state.encrypted = 0 }
      return .wrote(state.encrypted)
    }
  }

  /// Makes records of the first bytes; how the session ended, if it did.
  private func encrypt(_ bytes: UnsafeRawBufferPointer, _ state: inout State) -> TransportEnd? {
    let wanted = min(bytes.count, Self.writeBytes)
    state.session.reserveOutput(for: wanted)
    while state.encrypted < wanted {
      switch state.session.write(UnsafeRawBufferPointer(rebasing: bytes[state.encrypted..<wanted])) {
      case .done(let count): state.encrypted += count
      case .needsInput:
        state.writeNeedsInput = true
        return nil
      case .needsOutput: return nil
      case .ended(let end): return end
      }
    }
    return nil
  }

  /// Writes the records that wait; nil: none is left.
  private func flush(_ state: inout State) -> WriteOutcome? {
    while !state.session.output.isEmpty {
      switch base.write(state.session.output) {
      case .wrote(let count): state.session.consumeOutput(count)
      case .wouldBlock: return .wouldBlock
      case .failed(let end): return .failed(end)
      }
    }
    if state.wantsFinish {
      state.wantsFinish = false
      base.finishWriting()
    }
    return nil
  }

  package func finishWriting() {
    state.withLock { state in
      state.session.finishWriting()
      state.wantsFinish = true
      _ = flush(&state)
    }
  }

  package func close() {
    // The handler is released outside the lock: its end may call back in.
    let handler = state.withLock { state in
      if !state.isClosed {
        state.isClosed = true
        // The peer is told where it can be told at once; after a failure it was.
        if case .tls = state.end {} else { state.session.finishWriting() }
        _ = flush(&state)
        base.close()
      }
      return state.handler.take()
    }
    _ = handler
  }

  // MARK: - Facts

  /// What was agreed on; nil before the handshake is done.
  package var agreement: TLSAgreement? { state.withLock { $0.session.isEstablished ? $0.session.agreement : nil } }

  /// Whether the session that was resumed serves again: TLS 1.2 brings no new one each time.
  var mayResumeAgain: Bool { state.withLock { $0.session.isResumed && $0.session.version == "TLSv1.2" } }

  /// What the server shows for itself; keys and chain only where they are asked for, since reading them takes time.
  func proof(withKeys: Bool, withChain: Bool) -> TLSProof {
    state.withLock { state in
      TLSProof(
        applicationProtocol: state.session.applicationProtocol, verdict: state.session.verdict,
        keys: withKeys ? state.session.provedKeys : [], chain: withChain ? state.session.chain : [],
        isResumed: state.session.isResumed)
    }
  }
}

/// What a server showed in a handshake that is done.
struct TLSProof: Sendable {
  var applicationProtocol: String?
  /// What verification found wrong.
  var verdict: TLSFailure?
  /// The SHA-256 of the public keys that are proved.
  var keys: [[UInt8]]
  var chain: [PeerCertificate]
  var isResumed: Bool
}
