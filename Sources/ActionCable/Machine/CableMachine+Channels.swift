package import WebSocketTransport

extension CableMachine {
  /// One identifier, and the one server subscription that all its subscribers share.
  struct Channel: Sendable {
    let identifier: ChannelIdentifier
    /// In the order of creation, which is that of re-subscription.
    let serial: UInt64
    var subscribers: [UInt64] = []
    var phase = Phase.unsubscribed
  }

  enum Phase: Sendable {
    /// A `subscribe` is to be sent as soon as that may be.
    case unsubscribed
    /// A `subscribe` was sent and not answered.
    case pending(Pending)
    case confirmed
  }

  struct Pending: Sendable {
    /// When `subscribe` is sent again, and how long after it the next time.
    var retryAt: Instant
    var retryDelay: Duration
    /// When waiting ends; nil: never.
    var deadline: Instant?
  }

  struct Subscriber: Sendable {
    let key: IdentifierKey
    /// Whether the server ever confirmed its channel.
    var wasConfirmed = false
  }

  /// How long an answer is waited for that nobody wants, where none is set for the others.
  private static let longestUnwantedWait = Duration.seconds(10)
  /// The most identifiers of a server's own invention that are kept in mind.
  private static let maximumCooling = 1_024

  // MARK: The caller's inputs

  /// Registers a subscriber; ids are the caller's, and grow.
  package mutating func subscribe(_ id: UInt64, to identifier: ChannelIdentifier, at now: Instant) {
    let key = identifier.key
    subscribers[id] = Subscriber(key: key)
    if channels[key] == nil {
      lastSerial += 1
      channels[key] = Channel(identifier: identifier, serial: lastSerial)
    }
    let wasWanted = channels[key]?.subscribers.isEmpty == false
    channels[key]?.subscribers.append(id)
    switch channels[key]?.phase {
    case .unsubscribed: if isConnected { subscribe(key, at: now) }
    case .pending: if !wasWanted { setPending(key, at: now) }
    case .confirmed: confirm(id)
    case nil: break
    }
  }

  /// Ends a subscriber; does nothing where it has ended.
  package mutating func unsubscribe(_ id: UInt64, at now: Instant) {
    guard let subscriber = subscribers[id] else { return }
    let key = subscriber.key
    end(id, .unsubscribed)
    channels[key]?.subscribers.removeAll { $0 == id }
    guard let channel = channels[key], channel.subscribers.isEmpty else { return }
    switch channel.phase {
    case .unsubscribed: channels[key] = nil
    case .confirmed: dismiss(key, at: now)
    case .pending(var pending):
      // An `unsubscribe` could overtake its `subscribe`: the answer comes first.
      if pending.deadline == nil {
        let deadline = now + Self.longestUnwantedWait
        pending.deadline = deadline
        channels[key]?.phase = .pending(pending)
        remind(at: deadline)
      }
    }
  }

  // MARK: Commands

  /// Sends `subscribe`, or sees to it when that may be.
  mutating func subscribe(_ key: IdentifierKey, at now: Instant) {
    if let end = cooling[key] { return remind(at: end) }
    put(.send(Command.subscribe(key.text), perform: nil))
    setPending(key, at: now)
  }

  /// Begins to wait for an answer.
  private mutating func setPending(_ key: IdentifierKey, at now: Instant) {
    // Without any time in between it would be sent without end.
    let delay = max(timing.subscribeRetry, .milliseconds(1))
    let pending = Pending(
      retryAt: now + delay, retryDelay: delay,
      deadline: timing.subscribeTimeout.map { now + $0 })
    channels[key]?.phase = .pending(pending)
    remind(at: min(pending.retryAt, pending.deadline ?? pending.retryAt))
  }

  /// Sends `unsubscribe`; the channel is forgotten, but for the time in which it must not be subscribed to.
  private mutating func dismiss(_ key: IdentifierKey, at now: Instant) {
    channels[key] = nil
    put(.send(Command.unsubscribe(key.text), perform: nil))
    cool(key, at: now)
  }

  private mutating func cool(_ key: IdentifierKey, at now: Instant) {
    let end = now + timing.resubscribeCooldown
    cooling[key] = end
    remind(at: end)
  }

  /// Sends what is due, ends what waited too long.
  mutating func advanceChannels(to now: Instant) {
    for (key, end) in cooling {
      if end <= now { cooling[key] = nil } else { remind(at: end) }
    }
    guard isConnected else { return }
    for channel in channels.values.sorted(by: { $0.serial < $1.serial }) {
      let key = channel.identifier.key
      switch channel.phase {
      case .confirmed: break
      case .unsubscribed: subscribe(key, at: now)
      case .pending(let pending): advance(key, pending, to: now)
      }
    }
  }

  private mutating func advance(_ key: IdentifierKey, _ pending: Pending, to now: Instant) {
    if let deadline = pending.deadline, deadline <= now {
      let ended = channels[key]?.subscribers ?? []
      // The server may have it all the same.
      dismiss(key, at: now)
      return ended.forEach { end($0, .timedOut) }
    }
    var pending = pending
    let isWanted = channels[key]?.subscribers.isEmpty == false
    if isWanted, pending.retryAt <= now {
      pending.retryDelay += pending.retryDelay
      pending.retryAt = now + pending.retryDelay
      channels[key]?.phase = .pending(pending)
      put(.send(Command.subscribe(key.text), perform: nil))
    }
    if isWanted { remind(at: pending.retryAt) }
    if let deadline = pending.deadline { remind(at: deadline) }
  }

  // MARK: Answers

  mutating func confirmed(_ identifier: String, at now: Instant) {
    guard isConnected else { return put(.ignored(.unexpected)) }
    guard let key = known(identifier) else {
      // A ghost: the server has what nobody wants.
      put(.ignored(.unclaimed(identifier: identifier)))
      let key = IdentifierKey(identifier)
      guard cooling[key] != nil || cooling.count < Self.maximumCooling else { return }
      return dismiss(key, at: now)
    }
    switch channels[key]?.phase {
    case .pending:
      let wanted = channels[key]?.subscribers ?? []
      guard !wanted.isEmpty else { return dismiss(key, at: now) }
      channels[key]?.phase = .confirmed
      wanted.forEach { confirm($0) }
      flushWaiting(key)
    case .confirmed: put(.ignored(.unexpected))
    case .unsubscribed:
      // It cools: this confirms an earlier `subscribe` that the `unsubscribe` overtook.
      put(.send(Command.unsubscribe(key.text), perform: nil))
      cool(key, at: now)
    case nil: break
    }
  }

  mutating func rejected(_ identifier: String) {
    guard isConnected else { return put(.ignored(.unexpected)) }
    guard let key = known(identifier) else { return put(.ignored(.unclaimed(identifier: identifier))) }
    switch channels[key]?.phase {
    case .unsubscribed, nil: put(.ignored(.unexpected))
    case .pending, .confirmed:
      let ended = channels.removeValue(forKey: key)?.subscribers ?? []
      ended.forEach { end($0, .rejected) }
    }
  }

  /// Gives a message to all who want it.
  mutating func deliver(_ identifier: String, _ message: (ChannelIdentifier) -> CableMessage) {
    guard isConnected else { return put(.ignored(.unexpected)) }
    guard let key = known(identifier), let channel = channels[key], !channel.subscribers.isEmpty,
      channel.phase.takesMessages
    else { return put(.ignored(.unclaimed(identifier: identifier))) }
    let message = message(channel.identifier)
    put(.message(message))
    for id in channel.subscribers { put(.event(subscriber: id, .message(message))) }
  }

  /// The key of a channel that the text names: as it is, or in canonical form, since a server may write it anew.
  private func known(_ identifier: String) -> IdentifierKey? {
    let key = IdentifierKey(identifier)
    if channels[key] != nil { return key }
    guard cooling[key] == nil, let canonical = key.canonical, channels[canonical] != nil else { return nil }
    return canonical
  }

  private mutating func confirm(_ id: UInt64) {
    guard let subscriber = subscribers[id] else { return }
    subscribers[id]?.wasConfirmed = true
    put(.event(subscriber: id, .confirmed(reconnected: subscriber.wasConfirmed)))
    if subscriber.wasConfirmed { put(.event(subscriber: id, .gap(.reconnected))) }
  }

  private mutating func end(_ id: UInt64, _ end: SubscriptionEnd) {
    guard subscribers.removeValue(forKey: id) != nil else { return }
    dropWaiting(of: id)
    put(.event(subscriber: id, .ended(end)))
  }
}

extension CableMachine.Phase {
  /// Whether messages are this subscription's and not an earlier one's.
  fileprivate var takesMessages: Bool {
    switch self {
    case .unsubscribed: false
    case .pending, .confirmed: true
    }
  }
}
