/// An open WebSocket connection (RFC 6455 §5 to §7) for either role: bytes, ends and commands go in, what happened and
/// what to do come out into a ``ConnectionSink``.
///
/// It decides and never acts: no socket, no clock, no lock, no random source. The same bytes give the same outputs
/// however they are cut.
package struct ConnectionMachine: ~Copyable, Sendable {
  package let role: Role
  package let limits: ConnectionLimits
  package private(set) var state = ConnectionState.open {
    didSet { (canSend, canReceive) = (state.canSend, state.canReceive) }
  }
  /// Whether data and ping frames may be sent; asked for each message, so kept beside the state.
  package private(set) var canSend = true
  /// Whether bytes of the peer's still mean something.
  package private(set) var canReceive = true

  var reading = Reading.header
  /// The first octets of a header that was cut, at most 13.
  var partialHeader = PartialHeader()
  /// The message that is being received; nil between messages.
  var message: MessageProgress?
  /// The payload of the control frame that is being received.
  var controlPayload: [UInt8] = []

  package init(role: Role, limits: ConnectionLimits = ConnectionLimits()) {
    self.role = role
    self.limits = limits
  }

  /// What the next octet belongs to.
  enum Reading: Sendable {
    case header
    /// A frame's payload, of which `received` octets have come.
    case payload(FrameHeader, received: Int)
  }

  /// What is known of an unfinished message.
  struct MessageProgress: Sendable {
    var kind: MessageKind
    /// Payload bytes that the headers so far have announced.
    var announcedBytes = 0
    var frames = 0
    var validator = UTF8Validator()
  }

  /// The octets of the current data frame's payload that have not come yet; 0 outside of one.
  ///
  /// A driver may read that many straight into the message's own memory and then pass them to `receive`.
  package var missingPayloadBytes: Int {
    if case .payload(let header, let received) = reading, !header.opcode.isControl, canReceive {
      return header.payloadLength - received
    }
    return 0
  }

  // MARK: - Commands

  /// Starts the closing handshake (RFC 6455 §7.1.2).
  ///
  /// Does nothing where one is under way or over.
  package mutating func close<Sink: ConnectionSink & ~Copyable>(_ payload: ClosePayload, into sink: inout Sink) {
    switch state {
    case .open:
      state = .closing
      sink.write(.close, payload: payload.bytes)
      sink.startClosingTimer()
    case .closing, .closed, .failing, .ended: break
    }
  }

  // MARK: - Ends

  /// The transport ended: nothing more will come.
  package mutating func transportEnded<Sink: ConnectionSink & ~Copyable>(_ end: TransportEnd, into sink: inout Sink) {
    let record: CloseRecord
    switch state {
    case .open:
      record = CloseRecord(
        code: .abnormalClosure, initiator: end == .aborted || end == .timedOut ? .local : .peer, isClean: false,
        transportEnd: end)
    case .closing: record = CloseRecord(code: .abnormalClosure, initiator: .local, isClean: false, transportEnd: end)
    case .closed(var known), .failing(var known):
      known.transportEnd = end
      record = known
    case .ended: return
    }
    state = .ended(record)
    sink.ended(record)
  }

  /// The close time-out has passed (RFC 6455 §7.1.1 lets an endpoint end TCP at any time when it waits too long).
  package mutating func closingTimedOut<Sink: ConnectionSink & ~Copyable>(into sink: inout Sink) {
    switch state {
    case .closing, .closed, .failing: transportEnded(.timedOut, into: &sink)
    case .open, .ended: break
    }
  }

  // MARK: - The peer's Close and violations

  /// A complete Close frame (RFC 6455 §5.5.1): answered with the same code where it is the first.
  mutating func receiveClose<Sink: ConnectionSink & ~Copyable>(
    _ bytes: [UInt8], into sink: inout Sink
  ) throws(ProtocolViolation) {
    let payload = try ClosePayload(receiving: bytes)
    sink.controlFrame(.close, payload: bytes)
    let isFirst = state == .open
    state = .closed(
      CloseRecord(
        code: payload.code ?? .noStatusReceived, reason: payload.reason, initiator: isFirst ? .peer : .local,
        isClean: true, transportEnd: .finished))
    if isFirst {
      sink.write(.close, payload: (payload.code.flatMap { ClosePayload(sending: $0) } ?? .empty).bytes)
      sink.startClosingTimer()
    }
    if role.closesTransportFirst { sink.finishWriting() }
  }

  /// Fails the connection (RFC 6455 §7.1.7): tells the peer where nothing was told yet, then waits for the end of TCP.
  mutating func fail<Sink: ConnectionSink & ~Copyable>(_ violation: ProtocolViolation, into sink: inout Sink) {
    let mayTell = state == .open
    state = .failing(
      CloseRecord(
        code: violation.closeCode, reason: violation.description, initiator: .local, isClean: false,
        transportEnd: .finished, violation: violation))
    message = nil
    if mayTell {
      let payload = ClosePayload(sending: violation.closeCode, reason: violation.description) ?? .empty
      sink.write(.close, payload: payload.bytes)
      sink.startClosingTimer()
    }
    if role.closesTransportFirst { sink.finishWriting() }
  }
}

/// Up to 14 octets of a frame header that arrived in pieces.
struct PartialHeader: Sendable {
  private var octets = InlineArray<14, UInt8>(repeating: 0)
  private(set) var count = 0

  mutating func append(_ octet: UInt8) {
    octets[count] = octet
    count += 1
  }

  mutating func removeAll() { count = 0 }

  /// Reads the header if its octets are all there.
  func parse(role: Role) throws(ProtocolViolation) -> FrameHeader? {
    try FrameHeader.parse(octets.span.bytes.extracting(first: count), role: role)?.header
  }
}
