package import WebSocketTransport

/// The rules of Action Cable for a client, as a value: what happens and when goes in, what to do comes out.
///
/// It owns no clock, no lock and no socket. After each input ``takeOutputs()`` has what follows from it, and
/// ``nextDeadline`` says when ``advance(to:)`` is due.
package struct CableMachine: Sendable {
  /// The way to a connection.
  enum Link: Sendable, Equatable {
    case down
    /// The WebSocket is open; the server has to say `welcome` until then.
    case opening(deadline: Instant)
    /// The server said `welcome`.
    case connected
  }

  let timing: CableTiming
  let buffer: PerformBuffer
  /// Whether a new attempt comes with new credentials.
  let canRefresh: Bool

  var link = Link.down
  var lastHeard = Instant(nanoseconds: 0)
  /// Whether frames are not read at the moment, so that silence means nothing.
  var isPaused = false
  /// Whether new credentials were tried since the last `welcome`.
  var hasRefreshed = false
  /// Why the current or last connection ended.
  var cause = DisconnectCause.requested
  /// What subscribers have to be told: that a connection is gone, and that none will come.
  var mustTellLoss = false
  var mustTellStop = false

  var channels: [IdentifierKey: Channel] = [:]
  var subscribers: [UInt64: Subscriber] = [:]
  /// The identifiers that an `unsubscribe` was sent for, and until when no `subscribe` may be.
  var cooling: [IdentifierKey: Instant] = [:]
  var lastSerial: UInt64 = 0
  var waiting: [WaitingPerform] = []
  /// When something of the channels, the cooling or what waits may be due; never too late, sometimes too early.
  var earliest: Instant?
  private var outputs: [CableOutput] = []

  package init(timing: CableTiming = CableTiming(), buffer: PerformBuffer = PerformBuffer(), canRefresh: Bool = false) {
    self.timing = timing
    self.buffer = buffer
    self.canRefresh = canRefresh
  }

  /// What has to be done since the last call, in order.
  package mutating func takeOutputs() -> [CableOutput] {
    defer { outputs.removeAll(keepingCapacity: true) }
    return outputs
  }

  mutating func put(_ output: CableOutput) { outputs.append(output) }

  /// Why the current or last connection ended.
  package var lastCause: DisconnectCause { cause }

  /// Whether the server has welcomed this client.
  package var isConnected: Bool { link == .connected }

  // MARK: Time

  /// When ``advance(to:)`` is due; nil: never.
  package var nextDeadline: Instant? {
    let ofLink: Instant? =
      switch link {
      case .down: nil
      case .opening(let deadline): deadline
      case .connected: staleDeadline
      }
    guard let ofLink, let earliest else { return ofLink ?? earliest }
    return min(ofLink, earliest)
  }

  private var staleDeadline: Instant? {
    isPaused ? nil : timing.staleAfter.map { lastHeard + $0 }
  }

  /// Does what is due by now.
  package mutating func advance(to now: Instant) {
    switch link {
    case .down: break
    case .opening(let deadline): if deadline <= now { end(.noWelcome, willRetry: true) }
    case .connected: if let staleDeadline, staleDeadline <= now { end(.stale, willRetry: true) }
    }
    guard let earliest, earliest <= now else { return }
    self.earliest = nil
    expireWaiting(at: now)
    advanceChannels(to: now)
  }

  /// Makes sure of a call of ``advance(to:)`` at that moment.
  mutating func remind(at moment: Instant) { earliest = min(earliest ?? moment, moment) }

  // MARK: The connection

  /// The caller wants a connection from now on.
  package mutating func start() {
    cause = .requested
    mustTellStop = true
    hasRefreshed = false
  }

  /// The WebSocket is open; `subprotocol` is what the server agreed to, nil where that is not known.
  package mutating func opened(subprotocol: AgreedSubprotocol, at now: Instant) {
    switch subprotocol {
    case .agreed(let name) where name != actionCableSubprotocol:
      end(.unsupportedSubprotocol(name), willRetry: false)
    case .agreed, .unknown:
      let deadline = now + timing.welcomeTimeout
      link = .opening(deadline: deadline)
    }
  }

  /// The connection is gone.
  package mutating func lost(_ cause: DisconnectCause) {
    guard link != .down else { return }
    self.cause = cause
    dropLink()
  }

  /// No connection came about; why counts unless more is known.
  package mutating func attemptFailed(_ cause: DisconnectCause) {
    if case .requested = self.cause { self.cause = cause }
  }

  /// A new attempt begins.
  package mutating func attemptBegan() { cause = .requested }

  /// There will be another attempt.
  package mutating func willReconnect() {
    dropLink()
    // What comes next has its own cause.
    defer { cause = .requested }
    guard mustTellLoss else { return }
    mustTellLoss = false
    tellDisconnected(cause, willReconnect: true)
  }

  /// There will be no other attempt, for this reason.
  package mutating func stopped(_ cause: DisconnectCause) {
    dropLink()
    guard mustTellStop else { return }
    mustTellLoss = false
    mustTellStop = false
    tellDisconnected(cause, willReconnect: false)
  }

  /// Whether frames are read; while they are not, silence is no sign of death.
  package mutating func setPaused(_ isPaused: Bool, at now: Instant) {
    self.isPaused = isPaused
    lastHeard = now
  }

  /// Ends every subscription.
  package mutating func shutdown() {
    mustTellLoss = false
    mustTellStop = false
    dropLink()
    for id in subscribers.keys.sorted() { put(.event(subscriber: id, .ended(.shutdown))) }
    subscribers = [:]
    channels = [:]
    for perform in waiting { put(.outcome(perform: perform.id, .notSubscribed)) }
    waiting = []
    earliest = nil
  }

  /// Closes the connection from this side.
  private mutating func end(_ cause: DisconnectCause, willRetry: Bool) {
    self.cause = cause
    dropLink()
    put(.end(cause, willRetry: willRetry))
  }

  /// Nothing of the connection counts any more: the server forgets all subscriptions.
  private mutating func dropLink() {
    guard link != .down else { return }
    link = .down
    isPaused = false
    cooling = [:]
    for (key, channel) in channels {
      if channel.subscribers.isEmpty { channels[key] = nil } else { channels[key]?.phase = .unsubscribed }
    }
  }

  private mutating func tellDisconnected(_ cause: DisconnectCause, willReconnect: Bool) {
    put(.disconnected(cause, willReconnect: willReconnect))
    for id in subscribers.keys.sorted() {
      put(.event(subscriber: id, .disconnected(cause, willReconnect: willReconnect)))
    }
  }

  // MARK: Frames

  /// A frame arrived: what it says, or nil where that cannot be read; `text` is the frame's.
  package mutating func received(_ message: ServerMessage?, text: String, at now: Instant) {
    guard link != .down else { return }
    lastHeard = now
    switch message {
    case nil: put(.ignored(.malformed))
    case .welcome: welcomed(at: now)
    case .ping: put(.ping)
    case .disconnect(let reason, let reconnect): disconnected(reason, reconnect: reconnect ?? false)
    case .confirmSubscription(let identifier): confirmed(identifier, at: now)
    case .rejectSubscription(let identifier): rejected(identifier)
    case .message(let identifier, let type, let body):
      deliver(identifier) { CableMessage(identifier: $0, type: type, frame: text, body: body) }
    case .unknown: put(.ignored(.unexpected))
    }
  }

  private mutating func welcomed(at now: Instant) {
    guard case .opening = link else { return put(.ignored(.unexpected)) }
    link = .connected
    mustTellLoss = true
    hasRefreshed = false
    put(.connected)
    for channel in channels.values.sorted(by: { $0.serial < $1.serial }) { subscribe(channel.identifier.key, at: now) }
  }

  private mutating func disconnected(_ reason: DisconnectReason?, reconnect: Bool) {
    var willRetry = reconnect
    if !willRetry, canRefresh, !hasRefreshed, reason == .unauthorized || reason == .tokenExpired {
      hasRefreshed = true
      willRetry = true
    }
    end(.server(reason), willRetry: willRetry)
  }
}

/// The subprotocol of Action Cable.
package let actionCableSubprotocol = "actioncable-v1-json"

/// What is known of the opening handshake's subprotocol.
package enum AgreedSubprotocol: Sendable, Hashable {
  /// The handler cannot tell.
  case unknown
  /// The server chose this one; nil: none.
  case agreed(String?)
}
