import WebSocketTransport

/// What one instance of a channel was given, and what waits for its pace.
struct Pacer: Sendable {
  typealias Given = (value: any Sendable, origin: ValueOrigin)

  /// What is held back, and until when.
  private enum Hold: Sendable {
    case nothing
    /// Nothing is delivered before the window's end.
    case window(until: Instant)
    /// Something waits for quiet.
    case quiet(until: Instant, since: Instant)
  }

  private var hold = Hold.nothing
  /// The last value of the state that was delivered.
  private var delivered: Key?
  /// The newest value of the state where it is not the delivered one.
  private var state: Key?
  private var broadcast: (any Sendable)?

  /// An instance that opens with that value.
  init(opening value: Key?, _ delivery: ChannelDelivery, at now: Instant) {
    delivered = value
    if value != nil { noteDelivery(delivery, at: now) }
  }

  /// When something is due that waits.
  var deadline: Instant? {
    guard state != nil || broadcast != nil else { return nil }
    switch hold {
    case .nothing: return nil
    case .window(let end), .quiet(let end, _): return end
    }
  }

  /// The value of the state is this one now.
  ///
  /// - Parameter paceChanged: whether the pace is another one than before: what waits is subject to it from now on.
  mutating func take(
    state value: Key?, _ delivery: ChannelDelivery, paceChanged: Bool, at now: Instant
  ) -> [Given] {
    state = value == delivered ? nil : value
    if paceChanged { hold = .nothing }
    if state == nil, broadcast == nil, case .quiet = hold { hold = .nothing }
    return state != nil || paceChanged && broadcast != nil ? offer(delivery, at: now) : []
  }

  /// A value was broadcast.
  mutating func take(
    broadcast value: any Sendable, _ delivery: ChannelDelivery, at now: Instant
  ) -> (BroadcastOutcome, [Given]) {
    if case .throttle(_, trailing: false) = delivery, isHeld(at: now) { return (.dropped, []) }
    broadcast = value
    let given = offer(delivery, at: now)
    return (given.isEmpty ? .paced : .delivered, given)
  }

  /// Its deadline has come: everything that waits goes, the state first.
  mutating func flush(_ delivery: ChannelDelivery, at now: Instant) -> [Given] {
    var given: [Given] = []
    if let state {
      given.append((state.value, .state))
      delivered = state
    }
    if let broadcast { given.append((broadcast, .broadcast)) }
    (state, broadcast) = (nil, nil)
    noteDelivery(delivery, at: now)
    return given
  }

  private func isHeld(at now: Instant) -> Bool {
    if case .window(let end) = hold { now < end } else { false }
  }

  private mutating func offer(_ delivery: ChannelDelivery, at now: Instant) -> [Given] {
    switch delivery {
    case .immediate: return flush(delivery, at: now)
    case .throttle: return isHeld(at: now) ? [] : flush(delivery, at: now)
    case .debounce(let quiet, let maxWait):
      var since = now
      if case .quiet(_, let first) = hold { since = first }
      var end = now + quiet
      if let maxWait { end = min(end, since + maxWait) }
      if end <= now { return flush(delivery, at: now) }
      hold = .quiet(until: end, since: since)
      return []
    }
  }

  private mutating func noteDelivery(_ delivery: ChannelDelivery, at now: Instant) {
    switch delivery {
    case .immediate, .debounce: hold = .nothing
    case .throttle(let window, _): hold = window > .zero ? .window(until: now + window) : .nothing
    }
  }
}
