/// The events that a subscriber has not taken, in order, with no more messages than its backlog says.
struct Inbox: Sendable {
  private let backlog: Backlog
  private var events: [SubscriptionEvent] = []
  private var head = 0
  private var messages = 0
  /// What they cost.
  private var bytes = 0
  private(set) var standing = Standing()

  /// What concerns the whole client.
  struct Standing: Sendable {
    /// Whether the socket is not read because of this inbox.
    var isHolding = false
    /// How many messages were dropped.
    var dropped: UInt64 = 0
  }

  init(_ backlog: Backlog) {
    self.backlog = Backlog(
      messages: max(1, backlog.messages), bytes: max(1, backlog.bytes), overflow: backlog.overflow)
  }

  /// Keeps an event; whether there is one more than before.
  mutating func add(_ event: SubscriptionEvent) -> Bool {
    guard case .message(let message) = event else {
      events.append(event)
      // Whoever has unsubscribed may never take the rest.
      if case .ended = event { standing.isHolding = false }
      return true
    }
    switch backlog.overflow {
    case .dropOldest where isFull:
      var grows = true
      // A large message takes the place of several.
      while isFull { if !dropOldest() { grows = false } }
      keep(message)
      return grows
    case .dropNewest where isFull:
      standing.dropped += 1
      guard let last = events.indices.last, last >= head, let gap = events[last].widened else {
        events.append(.gap(.overflow(dropped: 1)))
        return true
      }
      events[last] = gap
      return false
    case .holdBack, .dropOldest, .dropNewest:
      keep(message)
      if backlog.overflow == .holdBack, isFull { standing.isHolding = true }
      return true
    }
  }

  private var isFull: Bool { messages >= backlog.messages || bytes >= backlog.bytes }

  private mutating func keep(_ message: CableMessage) {
    events.append(.message(message))
    messages += 1
    bytes += message.cost
  }

  private mutating func forget(_ message: CableMessage) {
    messages -= 1
    bytes -= message.cost
  }

  /// Takes the first event.
  mutating func take() -> SubscriptionEvent? {
    guard head < events.count else { return nil }
    // What was taken is not kept until its place is given up.
    var event = SubscriptionEvent.gap(.reconnected)
    swap(&event, &events[head])
    head += 1
    if head == events.count {
      events.removeAll(keepingCapacity: events.capacity <= 64)
      head = 0
    } else if head > 64, head * 2 > events.count {
      events.removeFirst(head)
      head = 0
    }
    if case .message(let message) = event {
      forget(message)
      if messages <= backlog.messages / 2, bytes <= backlog.bytes / 2 { standing.isHolding = false }
    }
    return event
  }

  /// Puts a gap in the place of the oldest message; whether there is one event more when the next is added.
  private mutating func dropOldest() -> Bool {
    guard let oldest = events[head...].firstIndex(where: \.isMessage), case .message(let message) = events[oldest]
    else { return true }
    forget(message)
    standing.dropped += 1
    if oldest > head, let gap = events[oldest - 1].widened {
      events[oldest - 1] = gap
      events.remove(at: oldest)
      return false
    }
    events[oldest] = .gap(.overflow(dropped: 1))
    return true
  }
}

extension SubscriptionEvent {
  fileprivate var isMessage: Bool {
    if case .message = self { true } else { false }
  }

  /// The gap with one message more; nil where it is none of dropped messages.
  fileprivate var widened: SubscriptionEvent? {
    guard case .gap(.overflow(let dropped)) = self else { return nil }
    return .gap(.overflow(dropped: dropped + 1))
  }
}
