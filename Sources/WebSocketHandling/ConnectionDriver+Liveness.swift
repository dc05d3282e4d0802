import WebSocketCore
import WebSocketTransport

extension ConnectionDriver {
  // MARK: - Pings

  /// Sends a ping and answers with the time to its pong.
  package func ping(_ completion: @escaping PingCompletion) {
    let mustPump = perform { state in
      if let error = refusal(toPing: &state) {
        state.io.callbacks.append(.pinged(completion, .failure(error)))
        return false
      }
      sendPing(completion, &state)
      return writePiece(&state)
    }
    if mustPump { pump() }
  }

  private func refusal(toPing state: inout State) -> EngineError.WebSocketError? {
    switch state.io.phase {
    case .never: return .messageSendFailed("WebSocket is not connected")
    case .ended(let record): return .closed(record)
    case .connecting: break
    case .open: if !state.machine.canSend { return .closing }
    }
    // Those of the keepalive have a limit of their own.
    let limit = configuration.maximumPingsOutstanding
    let waiting = state.io.pings.count { $0.completion != nil }
    guard waiting < limit else { return .limitExceeded(.pings, size: waiting + 1, limit: limit) }
    return nil
  }

  private func sendPing(_ completion: PingCompletion?, _ state: inout State) {
    let payload = environment.random.bytes(8)
    state.io.pings.append(DriverIO.OutstandingPing(payload: payload, sentAt: loop.now, completion: completion))
    state.io.sendControlFrame(.ping, payload)
  }

  /// The times of the pongs of the current or last connection.
  package var roundTripTimes: RoundTripTimes { state.withLock { $0.io.roundTrips } }

  // MARK: - Keepalive and idle time-out

  /// Begins to watch a connection that has just opened.
  func startLiveness(_ state: inout State) {
    let keepalive = state.io.times.keepalive ?? configuration.keepalive
    guard keepalive != nil || state.io.times.idleTimeout != nil else { return }
    state.io.liveness.start(keepalive, idleTimeout: state.io.times.idleTimeout, at: loop.now)
    scheduleLiveness(&state)
  }

  private func scheduleLiveness(_ state: inout State) {
    state.io.livenessTimer = nil
    guard state.machine.canSend, let deadline = state.io.liveness.nextDeadline else { return }
    let epoch = state.io.epoch
    state.io.livenessTimer = loop.schedule(at: deadline) { [self] in livenessIsDue(epoch) }
  }

  private func livenessIsDue(_ epoch: Int) {
    // What lies unread in the socket is a sign of life too: this thread may have been late.
    let unread = state.withLock { state in
      state.io.epoch == epoch && state.io.liveness.isDeathDue(at: loop.now) ? state.io.transport : nil
    }
    if let unread { readAvailable(unread) }
    let (isIdle, mustPump) = perform { state -> (Bool, Bool) in
      guard state.io.epoch == epoch, case .open = state.io.phase, state.machine.canSend else {
        return (false, false)
      }
      switch state.io.liveness.act(at: loop.now, isPaused: !state.io.isReading) {
      case .nothing: break
      case .ping:
        // Behind one that the peer has not taken, another would say no more.
        guard state.io.outgoing.hasWritten(state.io.lastKeepalivePing) else { break }
        let waiting = state.io.pings.count { $0.completion == nil }
        if waiting >= configuration.maximumPingsOutstanding { dropOldestKeepalivePing(&state) }
        state.io.lastKeepalivePing = state.io.outgoing.nextNumber
        sendPing(nil, &state)
      case .idle: return (true, false)
      case .dead:
        state.io.callbacks.append(.log(.error, "no sign of life since the last ping: the connection is given up"))
        state.machine.transportEnded(.timedOut, into: &state.io)
        return (false, false)
      }
      scheduleLiveness(&state)
      return (false, writePiece(&state))
    }
    if mustPump { pump() }
    if isIdle, let payload = ClosePayload(sending: .goingAway, reason: "idle") { disconnect(payload, completion: nil) }
  }

  /// A peer that lives and never answers pings must not make their list grow.
  private func dropOldestKeepalivePing(_ state: inout State) {
    var isFound = false
    _ = state.io.pings.removeAll { ping in
      guard !isFound, ping.completion == nil else { return false }
      isFound = true
      return true
    }
  }
}
