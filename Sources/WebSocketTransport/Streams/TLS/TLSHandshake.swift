import WebSocketCore

/// A client's TLS handshake, from the first record to the judgement of the server.
final class TLSHandshake: DialAttempt, TransportHandler {
  /// How the server is judged.
  struct Policy: Sendable {
    var host: String
    var pinnedKeys: Set<[UInt8]>
    var skipsVerification: Bool
    var hook: TLSConfiguration.Hook?
    /// Runs the hook where the handler's callbacks run.
    var runHook: @Sendable (@escaping @Sendable () -> Void) -> Void
  }

  private enum Phase: Sendable {
    case handshaking
    /// The hook was asked.
    case asking
    case over
  }

  private struct State: Sendable {
    var phase = Phase.handshaking
    /// Nil once the attempt is over.
    var completion: (@Sendable (Result<TLSTransport, TLSFailure>) -> Void)?
  }

  private let transport: TLSTransport
  private let loop: any EventLoop
  private let policy: Policy
  private let state: Lock<State>

  /// - Parameter completion: called once, on the loop's thread or that of ``start()``, unless cancelled before.
  init(
    _ transport: TLSTransport, on loop: any EventLoop, policy: Policy,
    completion: @escaping @Sendable (Result<TLSTransport, TLSFailure>) -> Void
  ) {
    self.transport = transport
    self.loop = loop
    self.policy = policy
    state = Lock(State(completion: completion))
  }

  /// Sends the first record.
  func start() {
    do throws(TransportError) {
      try transport.start(self)
    } catch {
      return finish(.other("\(error)"))
    }
    advance()
  }

  func cancel() {
    let completion = state.withLock { state in
      state.phase = .over
      return state.completion.take()
    }
    if completion != nil { transport.close() }
  }

  func transportIsReady(_ transport: any Transport, readable: Bool, writable: Bool) { advance() }

  private func advance() {
    // One step at a time: under the lock, so that an end is found once.
    let result = state.withLock { state -> Result<Void, TLSFailure>? in
      guard case .handshaking = state.phase else { return nil }
      let result = transport.handshake()
      if result != nil { state.phase = .asking }
      return result
    }
    switch result {
    case nil: break
    case .failure(let failure): finish(failure)
    case .success:
      judge(transport.proof(withKeys: !policy.pinnedKeys.isEmpty, withChain: policy.hook != nil))
    }
  }

  private func judge(_ proof: TLSProof) {
    guard proof.applicationProtocol == nil || proof.applicationProtocol == "http/1.1" else {
      return finish(.wrongApplicationProtocol(proof.applicationProtocol))
    }
    var verdict = proof.verdict
    // A session that is resumed was judged when it began, by this same configuration.
    if verdict == nil || policy.skipsVerification, !proof.isResumed, !policy.pinnedKeys.isEmpty,
      policy.pinnedKeys.isDisjoint(with: proof.keys)
    {
      verdict = .pinMismatch
    }
    guard let hook = policy.hook else {
      return finish(policy.skipsVerification && verdict != .pinMismatch ? nil : verdict)
    }
    let evidence = TLSConfiguration.Evidence(host: policy.host, chain: proof.chain, verdict: verdict)
    policy.runHook { [self] in
      guard state.withLock({ $0.completion != nil }) else { return }
      hook(evidence) { [self] isGood in
        loop.execute { [self] in finish(isGood ? nil : .refusedByCaller) }
      }
    }
  }

  private func finish(_ failure: TLSFailure?) {
    let completion = state.withLock { state in
      state.phase = .over
      return state.completion.take()
    }
    guard let completion else { return }
    if let failure {
      transport.close()
      completion(.failure(failure))
    } else {
      completion(.success(transport))
    }
  }
}
