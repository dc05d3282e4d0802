import WebSocketTransport

/// Messages on their way out and in.
extension SessionCore {
  /// Why the session connects no more, where that is not the caller's wish.
  var stopFailure: Failure? {
    switch shown {
    case .stopped(.failed(let failure)), .stopped(.gaveUp(_, let failure)): failure
    case .stopped(.requested), .idle, .held, .connecting, .connected, .waiting: nil
    }
  }

  /// Why a message cannot be taken now.
  func refusal(_ delivery: Delivery) -> Failure? {
    if machine.isStopped { return stopFailure ?? .messageSendFailed("WebSocket is not connected") }
    switch delivery {
    case .once, .again: return nil
    case .whenConnected:
      return machine.isConnected && !isRefusing ? nil : .messageSendFailed("WebSocket is not connected")
    }
  }

  /// Gives the handler what waits, where there is a connection that takes it.
  mutating func flush(at now: Instant) {
    if machine.isConnected, !isRefusing {
      for (id, message) in outbox.takeWaiting() {
        effects.append(.send(id: id, generation: generation, message))
      }
    }
    watchExpiry(at: now)
  }

  mutating func watchExpiry(at now: Instant) {
    let deadline = outbox.nextDeadline
    guard deadline != expiryDeadline else { return }
    expiryDeadline = deadline
    effects.forget(.expiry)
    if let deadline { effects.set(.expiry, deadline - now) }
  }

  /// Serves the receives with what is kept, and sees to more.
  mutating func deliver() {
    while let (pending, arrival) = inbox.next() { effects.append(.call { pending.complete(arrival) }) }
    askForMessage()
  }

  /// Keeps one receive with the handler, which is how a loss is noticed, unless too much is kept.
  mutating func askForMessage() {
    guard machine.isConnected, !isReceiving, isRefusing || inbox.hasRoom else { return }
    isReceiving = true
    effects.append(.receive(generation: generation))
  }

  mutating func fail(_ pending: any PendingReceive, _ failure: Failure) {
    effects.append(.call { pending.complete(.failure(failure)) })
  }

  mutating func settle(_ settled: Outbox.Settled) {
    counts.add(settled.outcome)
    guard let hearer = settled.hearer else { return }
    effects.append(.call { hearer(settled.outcome) })
  }
}
