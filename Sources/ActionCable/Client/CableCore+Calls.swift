import WebSocketHandling

/// What the client's user asks for.
extension CableCore {
  func connect(_ completion: (@Sendable (Result<Void, DisconnectCause>) -> Void)?) {
    wanting.withLock { _ in
      let mustStart = update { state, _ in
        if state.isStarted, state.machine.isConnected {
          if let completion { state.call { completion(.success(())) } }
          return false
        }
        if let completion { state.connects.append(completion) }
        guard !state.isStarted else { return false }
        state.isStarted = true
        state.session = .connecting
        state.machine.start()
        return true
      }
      if mustStart { session?.start(request) }
    }
  }

  func disconnect(_ completion: @escaping @Sendable () -> Void) { stop(completion) { _ in } }

  func shutdown(_ completion: @escaping @Sendable () -> Void) { stop(completion) { $0.machine.shutdown() } }

  /// The client is gone: what is subscribed to from now on ends at once.
  func release() {
    stop({}) { state in
      state.isReleased = true
      state.machine.shutdown()
    }
  }

  private func stop(_ completion: @escaping @Sendable () -> Void, _ change: (inout CableState) -> Void) {
    wanting.withLock { _ in
      update { state, _ in
        change(&state)
        if state.isStarted { state.stop(.requested) }
      }
      session?.disconnect { [self] _ in update { state, _ in state.call(completion) } }
    }
  }

  func subscribe(
    to identifier: ChannelIdentifier, buffering: Bool, backlog: Backlog?,
    onEvent: (@Sendable (SubscriptionEvent) -> Void)?
  ) -> Subscription {
    let inbox = Inbox(backlog ?? configuration.backlog)
    let id = update { state, now in
      let id = state.makeID()
      state.subscribers[id] = CableState.Subscriber(inbox: inbox, onEvent: onEvent)
      state.machine.subscribe(id, to: identifier, at: now)
      if state.isReleased { state.machine.shutdown() }
      return id
    }
    return Subscription(identifier, id: id, buffering: buffering, core: self)
  }

  func unsubscribe(_ id: UInt64) { update { state, now in state.machine.unsubscribe(id, at: now) } }

  /// Ends a subscriber whose events nobody takes any more.
  func abandon(_ id: UInt64) {
    update { state, now in
      state.machine.unsubscribe(id, at: now)
      state.settle()
      state.forget(id)
    }
  }

  func perform(
    by subscriber: UInt64, _ data: Result<String, InvalidData>, mayWait: Bool,
    _ completion: (@Sendable (PerformOutcome) -> Void)?
  ) {
    update { state, now in
      switch data {
      case .failure(let invalid): if let completion { state.call { completion(.invalid(invalid)) } }
      case .success(let data):
        let id = state.makeID()
        state.outcomes[id] = completion
        state.machine.perform(id, by: subscriber, data: data, mayWait: mayWait, at: now)
      }
    }
  }

  /// The next event for a task; nil where there will be none, or where the task is cancelled.
  func nextEvent(of id: UInt64) async -> SubscriptionEvent? {
    let event = await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        let ready = update { state, _ -> SubscriptionEvent?? in
          guard state.subscribers[id] != nil else { return .some(nil) }
          if let event = state.takeEvent(of: id) { return event }
          if Task.isCancelled { return .some(nil) }
          state.subscribers[id]?.waiter = continuation
          return nil
        }
        if let ready { continuation.resume(returning: ready) }
      }
    } onCancel: {
      let waiter = update { state, _ in state.subscribers[id]?.waiter.take() }
      waiter?.resume(returning: nil)
    }
    guard let event else { return nil }
    return read { $0.types }.resolved(event, configuration.coding)
  }
}

extension CableState {
  /// What the client is doing, for its user.
  var shown: ActionCableClient.State {
    if !isStarted { return session == .idle ? .idle : .disconnected(stopCause) }
    if machine.isConnected { return .connected }
    switch session {
    case .held: return .held
    case .waiting(let attempt, let delay): return .waiting(attempt: attempt, delay: delay)
    case .idle, .connecting, .connected, .stopped: return .connecting
    }
  }
}
