package import WebSocketTransport

extension CableMachine {
  /// A message that waits for a confirmation.
  struct WaitingPerform: Sendable {
    let id: UInt64
    let subscriber: UInt64
    let data: String
    let deadline: Instant
  }

  /// Sends a subscriber's message to its channel, or says why not.
  ///
  /// - Parameters:
  ///   - perform: the message's number, which its one outcome carries.
  ///   - data: JSON text.
  ///   - mayWait: whether it is kept, in order, until the channel is confirmed. It is never sent twice.
  package mutating func perform(
    _ perform: UInt64, by subscriber: UInt64, data: String, mayWait: Bool, at now: Instant
  ) {
    guard let key = subscribers[subscriber]?.key, let channel = channels[key] else {
      return put(.outcome(perform: perform, .notSubscribed))
    }
    if case .confirmed = channel.phase {
      return put(.send(Command.message(key.text, data: data), perform: perform))
    }
    guard mayWait else {
      return put(.outcome(perform: perform, isConnected ? .notSubscribed : .notConnected))
    }
    guard waiting.count < buffer.messages else { return put(.outcome(perform: perform, .bufferFull)) }
    let deadline = now + buffer.age
    waiting.append(WaitingPerform(id: perform, subscriber: subscriber, data: data, deadline: deadline))
    remind(at: deadline)
  }

  /// Sends what waited for this channel, in order.
  mutating func flushWaiting(_ key: IdentifierKey) {
    guard !waiting.isEmpty else { return }
    let ready = waiting.filter { subscribers[$0.subscriber]?.key == key }
    waiting.removeAll { subscribers[$0.subscriber]?.key == key }
    for perform in ready { put(.send(Command.message(key.text, data: perform.data), perform: perform.id)) }
  }

  /// Gives up what a subscriber that has ended still wanted to send.
  mutating func dropWaiting(of subscriber: UInt64) {
    for perform in waiting where perform.subscriber == subscriber {
      put(.outcome(perform: perform.id, .notSubscribed))
    }
    waiting.removeAll { $0.subscriber == subscriber }
  }

  /// Gives up what has waited too long.
  mutating func expireWaiting(at now: Instant) {
    for perform in waiting {
      if perform.deadline <= now {
        put(.outcome(perform: perform.id, .expired))
      } else {
        remind(at: perform.deadline)
      }
    }
    waiting.removeAll { $0.deadline <= now }
  }
}
