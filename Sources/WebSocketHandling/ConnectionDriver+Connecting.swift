import Foundation
package import WebSocketCore
package import WebSocketTransport

extension ConnectionDriver {
  /// How long a refusal's body may take after its head.
  private static let refusalBodyTimeout = Duration.seconds(2)

  // MARK: - The client

  /// Opens a connection: name, TCP, TLS, opening handshake, within one deadline.
  package func connect(
    _ endpoint: Endpoint, times: ConnectionTimes, completion: @escaping Completion
  ) {
    let epoch = perform { state -> Int? in
      switch state.io.phase {
      case .connecting, .open:
        fail(completion, .connectionFailed("WebSocket is already connected"), &state)
        return nil
      case .never: break
      case .ended(let record):
        // What waits behind messages that are still out is of the connection before.
        state.io.failReceives(.closed(record))
        state.io.answerDisconnects(record)
      }
      state.io.reset(phase: .connecting)
      state.io.connectCompletion = completion
      state.io.times = times
      let epoch = state.io.epoch
      state.io.observer?.beginsConnect(at: loop.now)
      state.io.tell(.opening(host: endpoint.host, port: endpoint.port, isSecure: endpoint.isSecure))
      state.io.connectTimer = loop.schedule(after: times.connectTimeout) { [self] in connectTimedOut(epoch) }
      return epoch
    }
    guard let epoch else { return }
    guard endpoint.isSecure else { return resolve(endpoint, epoch) }
    // Off the loop and the caller's thread: loading OpenSSL and the authorities blocks for some milliseconds.
    environment.runBlocking { [self] in
      do throws(TLSFailure) {
        try state.withLock { tls(&$0) }.prepare()
        perform { if isConnecting($0, epoch) { $0.io.observer?.ends(\.tls, at: loop.now) } }
        resolve(endpoint, epoch)
      } catch {
        failConnect(.tls(error), epoch)
      }
    }
  }

  private func tls(_ state: inout State) -> TLSConnector {
    if let tls = state.io.tls { return tls }
    let tls = TLSConnector(configuration.tls)
    state.io.tls = tls
    return tls
  }

  private func resolve(_ endpoint: Endpoint, _ epoch: Int) {
    environment.resolver.resolve(host: endpoint.host, port: endpoint.port) { [self] result in
      switch result {
      case .success(let addresses): dial(addresses, endpoint, epoch)
      case .failure(let error): failConnect(Self.error(for: error), epoch)
      }
    }
  }

  private func fail(_ completion: @escaping Completion, _ error: EngineError.WebSocketError, _ state: inout State) {
    var line = error.description
    // The reason of a failed coding may quote what was to be encoded.
    if case .unencodable(reason: _, let type) = error { line = "a message cannot be encoded: \(type)" }
    state.io.callbacks.append(.log(.error, line))
    state.io.callbacks.append(.fail(completion, error))
  }

  /// A call that failed before anything was done.
  package func reject(_ completion: @escaping Completion, _ error: EngineError.WebSocketError) {
    perform { fail(completion, error, &$0) }
  }

  private func dial(_ addresses: [SocketAddress], _ endpoint: Endpoint, _ epoch: Int) {
    perform { state in
      guard isConnecting(state, epoch) else { return }
      state.io.observer?.ends(\.resolve, at: loop.now)
      state.io.dial = environment.dialer.dial(addresses, on: loop) { [self] result in
        switch result {
        case .success(let transport) where endpoint.isSecure: secure(transport, endpoint, epoch)
        case .success(let transport): begin(transport, endpoint, epoch)
        case .failure(let error): failConnect(Self.error(for: error), epoch)
        }
      }
    }
  }

  private func isConnecting(_ state: borrowing State, _ epoch: Int) -> Bool {
    if case .connecting = state.io.phase { return state.io.epoch == epoch }
    return false
  }

  /// Performs the TLS handshake over the connected transport.
  private func secure(_ transport: any Transport, _ endpoint: Endpoint, _ epoch: Int) {
    let isWanted = perform { state in
      guard isConnecting(state, epoch) else { return false }
      state.io.observer?.ends(\.tcp, at: loop.now)
      state.io.dial = tls(&state).connect(
        over: transport, host: endpoint.host, port: endpoint.port, on: loop,
        runHook: { [self] hook in callBack(hook) },
        completion: { [self] result in
          switch result {
          case .success(let transport): begin(transport, endpoint, epoch)
          case .failure(let failure): failConnect(.tls(failure), epoch)
          }
        })
      return true
    }
    if !isWanted { transport.close() }
  }

  /// Writes the opening handshake's request over the connected transport.
  private func begin(_ transport: any Transport, _ endpoint: Endpoint, _ epoch: Int) {
    let isWanted = perform { state in
      guard isConnecting(state, epoch) else { return false }
      state.io.observer?.ends(endpoint.isSecure ? \.tls : \.tcp, at: loop.now)
      state.io.dial = nil
      let key = HandshakeKey(randomBytes: environment.random.bytes(HandshakeKey.byteCount))
      let handshake = ClientHandshake(endpoint.handshake, key: key)
      state.io.handshake = handshake
      state.io.attach(transport)
      state.io.outgoing.append(raw: handshake.requestBytes)
      do throws(TransportError) {
        try transport.start(self)
      } catch {
        finishConnect(Self.error(for: error), &state)
      }
      return true
    }
    if isWanted { pump() } else { transport.close() }
  }

  /// Takes bytes of the answer; what follows its head goes to the machine.
  func receiveAnswer(_ input: UnsafeMutableRawBufferPointer, _ state: inout State) {
    guard var handshake = state.io.handshake else { return }
    let verdict: ClientHandshake.Verdict
    let wasRefused = handshake.isReadingRefusal
    do throws(HandshakeFailure) {
      verdict = try handshake.receive(input.bytes)
    } catch {
      return finishConnect(.handshakeFailed(error), &state)
    }
    state.io.handshake = handshake
    switch verdict {
    case .needsMore:
      if handshake.isReadingRefusal, !wasRefused {
        let epoch = state.io.epoch
        state.io.refusalTimer = loop.schedule(after: Self.refusalBodyTimeout) { [self] in connectTimedOut(epoch) }
      }
    case .refused(let head, let body): refused(head, body, &state)
    case .accepted(let head, let subprotocol, let end):
      let answer = HandshakeAnswer(
        status: head.status, headers: head.fields, subprotocol: subprotocol,
        tls: (state.io.transport as? TLSTransport)?.agreement)
      state.io.answer = answer
      if let observer = state.io.observer {
        observer.ends(\.handshake, at: loop.now)
        state.io.tell(.opened(answer, observer.opened()))
      }
      open(&state)
      state.io.callbacks.append(.log(.info, "WebSocket connected"))
      if let completion = state.io.connectCompletion.take() {
        state.io.callbacks.append(.succeed(completion))
      }
      feed(UnsafeMutableRawBufferPointer(rebasing: input[end...]), &state)
    }
  }

  private func open(_ state: inout State) {
    state.io.handshake = nil
    state.io.phase = .open
    state.machine = ConnectionMachine(role: state.io.role, limits: configuration.limits)
    state.io.outgoing.isOpen = true
    if let timer = state.io.connectTimer.take() { loop.cancel(timer) }
    startLiveness(&state)
  }

  private func refused(_ head: HTTPResponseHead, _ body: [UInt8], _ state: inout State) {
    finishConnect(
      .handshakeRefused(HandshakeRefusal(status: head.status, headers: head.fields, body: body)), &state)
  }

  /// The stream ended before the handshake did.
  ///
  /// With TLS 1.3 a server tells only now that it does not accept the client's certificate.
  func answerEnded(_ end: TransportEnd, _ state: inout State) {
    guard let handshake = state.io.handshake else { return }
    if case .tls(let failure) = end { return finishConnect(.tls(failure), &state) }
    do throws(HandshakeFailure) {
      if case .refused(let head, let body) = try handshake.streamEnded() { refused(head, body, &state) }
    } catch {
      finishConnect(.handshakeFailed(error), &state)
    }
  }

  private func connectTimedOut(_ epoch: Int) {
    perform { state in
      guard isConnecting(state, epoch) else { return }
      if state.io.handshake?.isReadingRefusal == true {
        answerEnded(.timedOut, &state)
      } else {
        finishConnect(.timedOut(.connect), &state)
      }
    }
  }

  private func failConnect(_ error: EngineError.WebSocketError, _ epoch: Int) {
    perform { state in
      if isConnecting(state, epoch) { finishConnect(error, &state) }
    }
  }

  /// Ends an attempt: `connect` first, then what waited for it, `disconnect` last.
  func finishConnect(_ error: EngineError.WebSocketError, _ state: inout State) {
    state.io.dial?.cancel()
    state.io.dial = nil
    state.io.handshake = nil
    state.io.transport?.close()
    state.io.transport = nil
    state.io.cancelTimers()
    state.io.phase = .never
    state.io.epoch += 1
    state.io.observer?.failed()
    state.io.tell(.failed(error))
    if let completion = state.io.connectCompletion.take() { fail(completion, error, &state) }
    for completion in state.io.outgoing.removeAll() {
      state.io.callbacks.append(.fail(completion, error))
    }
    state.io.failReceives(error)
    state.io.failPings(error)
    state.io.wakeRoomWaiters()
    for completion in state.io.disconnects { state.io.callbacks.append(.succeed(completion)) }
    state.io.disconnects = []
  }

  private static func error(for error: TransportError) -> EngineError.WebSocketError {
    switch error {
    case .resolution(let host, let reason): .resolutionFailed(host: host, reason: reason)
    case .connect(let address, let number):
      .unreachable(address: address, errorNumber: number, reason: TransportError.text(number))
    case .system(let call, let number):
      .unreachable(address: call, errorNumber: number, reason: TransportError.text(number))
    }
  }

  // MARK: - The server

  /// Takes over a connection whose opening handshake is agreed on.
  ///
  /// - Parameters:
  ///   - answer: what the client has to be told first.
  ///   - bytes: what came behind its request.
  ///   - prepare: runs before anything is written.
  package func accept(
    _ transport: any Transport, answer: [UInt8], bytes: [UInt8], times: ConnectionTimes, prepare: () -> Void
  ) {
    perform { state in
      state.io.reset(phase: .open)
      state.io.times = times
      state.io.attach(transport)
      state.io.outgoing.append(raw: answer)
      (state.io.isPreparing, state.io.isWriteBlocked) = (true, true)
      open(&state)
      var input = bytes
      input.withUnsafeMutableBytes { feed($0, &state) }
      do throws(TransportError) {
        try transport.start(self)
      } catch {
        state.machine.transportEnded(.aborted, into: &state.io)
      }
    }
    prepare()
    perform { endPreparation(&$0) }
    pump()
  }

  /// Lets the answer go out, and what waits behind it.
  private func endPreparation(_ state: inout State) {
    guard state.io.isPreparing else { return }
    (state.io.isPreparing, state.io.isWriteBlocked) = (false, false)
    writePiece(&state)
  }

  // MARK: - Closing

  /// Starts the closing handshake, or gives a connect up; see ``WebSocketHandler/disconnect(completion:)``.
  package func disconnect(_ payload: ClosePayload, completion: Completion?) {
    perform { state in
      switch state.io.phase {
      case .never, .ended:
        if let completion { fail(completion, .connectionFailed("WebSocket is not connected"), &state) }
      case .connecting:
        if let completion { state.io.disconnects.append(completion) }
        finishConnect(.cancelled, &state)
      case .open:
        if let completion { state.io.disconnects.append(completion) }
        state.io.isDisconnecting = true
        state.machine.close(payload, into: &state.io)
      }
    }
    pump()
    resumeReading()
  }

  /// Ends the connection at once, without a closing handshake.
  package func abort() {
    perform { state in
      switch state.io.phase {
      case .connecting: finishConnect(.cancelled, &state)
      case .open:
        endPreparation(&state)
        state.machine.transportEnded(.aborted, into: &state.io)
      case .never, .ended: break
      }
    }
  }

  /// The last reference is gone: closes with 1001 and fails what waits as cancelled.
  package func release() {
    perform { state in
      // An attempt that is given up answers what waits for it itself, `connect` first.
      if case .connecting = state.io.phase { return }
      for completion in state.io.outgoing.takeCompletions() {
        state.io.callbacks.append(.fail(completion, .cancelled))
      }
      state.io.failReceives(.cancelled)
      state.io.failPings(.cancelled)
    }
    onMessage(nil)
    disconnect(ClosePayload(sending: .goingAway) ?? .empty, completion: nil)
  }

  // MARK: - Facts

  /// The server's answer to the opening handshake of the current or last connection.
  package var answer: HandshakeAnswer? { state.withLock { $0.io.answer } }

  /// What was counted and what waits; nil where nobody asked for it.
  package var metrics: HandlerMetrics? {
    state.withLock { state in
      guard var metrics = state.io.observer?.metrics else { return nil }
      metrics.sendQueueMessages = state.io.outgoing.messageCount
      metrics.sendQueueBytes = state.io.outgoing.cost - state.io.outgoing.messageCount * messageOverhead
      metrics.receiveBufferBytes = state.io.undelivered
      metrics.roundTripTimes = state.io.roundTrips
      return metrics
    }
  }
}
