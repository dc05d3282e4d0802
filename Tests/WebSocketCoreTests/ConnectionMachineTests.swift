import Testing
import WebSocketCore
import WebSocketTesting

/// What the tests of the machine share: frames of a peer's, and a run in every kind of pieces.
protocol MachineTests {}

extension MachineTests {
  static var roles: [Role] { [.client, .server] }

  /// Frames as a peer of `role` sends them: masked, each with its own key, where that peer is a client.
  func wire(_ frames: [Frame], to role: Role) -> [UInt8] {
    frames.enumerated().flatMap { index, frame in
      frame.encoded(
        maskingKey: role == .server ? MaskingKey(0x37 &+ UInt8(truncatingIfNeeded: index), 0xFA, 0x21, 0x3D) : nil)
    }
  }

  /// A header of the given octets with MASK and a key where a peer of `role` sends them.
  func header(_ first: UInt8, _ length: UInt8, _ extended: [UInt8] = [], to role: Role) -> [UInt8] {
    role == .server ? [first, length | 0x80] + extended + [1, 2, 3, 4] : [first, length] + extended
  }

  /// The outputs of the steps with the bytes whole, after checking that the bytes one by one, and cut at seeded random
  /// places, give the same.
  func outputs(
    _ role: Role, limits: ConnectionLimits = ConnectionLimits(), _ steps: [MachineStep],
    sourceLocation: SourceLocation = #_sourceLocation
  ) -> [MachineOutput] {
    func run(_ steps: [MachineStep]) -> [MachineOutput] {
      var connection = RecordedConnection(role: role, limits: limits)
      for step in steps { connection.perform(step) }
      return connection.sink.outputs
    }
    let whole = run(steps)
    let byteByByte = run(steps.flatMap { $0.cut { $0.singleBytes } })
    #expect(byteByByte == whole, "byte by byte", sourceLocation: sourceLocation)
    for seed in 0..<20 as Range<UInt64> {
      let cut = run(steps.flatMap { $0.cut { $0.pieces(cutWithSeed: seed) } })
      #expect(cut == whole, "cut with seed \(seed)", sourceLocation: sourceLocation)
    }
    return whole
  }

  func outputs(
    _ role: Role, limits: ConnectionLimits = ConnectionLimits(), frames: [Frame],
    sourceLocation: SourceLocation = #_sourceLocation
  ) -> [MachineOutput] {
    outputs(role, limits: limits, [.receive(wire(frames, to: role))], sourceLocation: sourceLocation)
  }

  /// The outputs of a whole message in one frame.
  func message(_ kind: MessageKind, _ payload: [UInt8]) -> [MachineOutput] {
    [.frame(kind.opcode, length: payload.count, isFinal: true)] + (payload.isEmpty ? [] : [.payload(payload)])
      + [.message(kind)]
  }

  /// What a server does once nothing is left to write.
  func finish(_ role: Role) -> [MachineOutput] { role == .server ? [.finishWriting] : [] }

  /// The outputs of a violation in the open state.
  func failure(_ violation: ProtocolViolation, _ role: Role) -> [MachineOutput] {
    let code = violation.closeCode.rawValue
    return [.write(.close, [UInt8(code >> 8), UInt8(code & 255)] + violation.description.utf8), .startClosingTimer]
      + finish(role)
  }
}

@Suite("Receiving messages (RFC 6455 §5.4 to §5.6)")
struct MessageTests: MachineTests {
  // R37
  @Test(arguments: roles)
  func `text is checked across frames, so a scalar may be cut by a frame`(role: Role) {
    let frames = [Frame(.text, [0xF0, 0x9F], isFinal: false), Frame(.continuation, [0x98, 0x80])]
    #expect(
      outputs(role, frames: frames) == [
        .frame(.text, length: 2, isFinal: false), .payload([0xF0, 0x9F]),
        .frame(.continuation, length: 2, isFinal: true),
        .payload([0x98, 0x80]), .message(.text),
      ])
  }

  // R37
  @Test(arguments: roles)
  func `a scalar that goes on wrongly in the next frame fails with 1007`(role: Role) {
    let frames = [Frame(.text, [0xF0, 0x9F], isFinal: false), Frame(.continuation, [0x41])]
    #expect(
      outputs(role, frames: frames) == [
        .frame(.text, length: 2, isFinal: false), .payload([0xF0, 0x9F]),
        .frame(.continuation, length: 1, isFinal: true),
      ] + failure(.invalidUTF8, role))
  }

  // R37
  @Test(arguments: roles)
  func `text that ends inside a scalar fails with 1007`(role: Role) {
    #expect(
      outputs(role, frames: [Frame(.text, [0x61, 0xF0, 0x9F])])
        == [.frame(.text, length: 3, isFinal: true), .payload([0x61, 0xF0, 0x9F])] + failure(.invalidUTF8, role))
  }

  // R37
  @Test(arguments: roles)
  func `an impossible byte fails before its frame is complete`(role: Role) {
    let start = Array(wire([Frame(.text, Array("abc".utf8) + [0xFF] + Array("defgh".utf8))], to: role).dropLast(5))
    #expect(
      outputs(role, [.receive(start)])
        == [.frame(.text, length: 9, isFinal: true), .payload(Array("abc".utf8))] + failure(.invalidUTF8, role))
  }

  // R37
  @Test(arguments: roles)
  func `binary messages are not checked, and each text starts anew`(role: Role) {
    let frames = [Frame(.binary, [0xFF, 0xC0]), Frame(.text, "é".utf8), Frame(.binary, [0xC3])]
    #expect(
      outputs(role, frames: frames)
        == message(.binary, [0xFF, 0xC0]) + message(.text, [0xC3, 0xA9]) + message(.binary, [0xC3]))
  }

  // R38
  @Test(arguments: roles)
  func `control frames between fragments are handled at once and are no part of the message`(role: Role) {
    let frames = [
      Frame.text("a", isFinal: false), Frame(.ping, [1, 2]), Frame(.continuation, "b".utf8, isFinal: false),
      Frame(.pong, [3]), Frame(.continuation, "c".utf8),
    ]
    #expect(
      outputs(role, frames: frames) == [
        .frame(.text, length: 1, isFinal: false), .payload([0x61]), .control(.ping, [1, 2]), .write(.pong, [1, 2]),
        .frame(.continuation, length: 1, isFinal: false), .payload([0x62]), .control(.pong, [3]),
        .frame(.continuation, length: 1, isFinal: true), .payload([0x63]), .message(.text),
      ])
  }

  @Test(arguments: roles, [0, 1, 125])
  func `a ping is answered with its own bytes`(role: Role, count: Int) {
    let payload = (0..<count).map { UInt8($0) }
    #expect(outputs(role, frames: [Frame(.ping, payload)]) == [.control(.ping, payload), .write(.pong, payload)])
  }

  // R44
  @Test(arguments: roles)
  func `empty messages are messages and empty fragments are legal`(role: Role) {
    let frames = [
      Frame(.text), Frame(.binary), Frame(.text, isFinal: false), Frame(.continuation), Frame(.binary, isFinal: false),
      Frame(.continuation, isFinal: false), Frame(.continuation, [9]),
    ]
    #expect(
      outputs(role, frames: frames) == message(.text, []) + message(.binary, []) + [
        .frame(.text, length: 0, isFinal: false), .frame(.continuation, length: 0, isFinal: true), .message(.text),
        .frame(.binary, length: 0, isFinal: false), .frame(.continuation, length: 0, isFinal: false),
        .frame(.continuation, length: 1, isFinal: true), .payload([9]), .message(.binary),
      ])
  }

  // R49
  @Test(arguments: roles, [1, 124, 125, 126, 127, 128, 65535, 65536, 65537])
  func `a message of every length form arrives whole`(role: Role, count: Int) {
    let payload = (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 7) }
    #expect(outputs(role, frames: [Frame(.binary, payload)]) == message(.binary, payload))
  }

  // R36
  @Test(arguments: roles)
  func `the missing bytes of a frame are those that have not come`(role: Role) {
    var connection = RecordedConnection(role: role)
    let bytes = wire([Frame(.binary, [1, 2, 3, 4, 5]), Frame(.ping, [1, 2])], to: role)
    let headerLength = FrameHeader.encodedLength(payloadLength: 5, isMasked: role == .server)
    var missing = [connection.machine.missingPayloadBytes]
    for byte in bytes.dropLast() {
      connection.receive([byte])
      missing.append(connection.machine.missingPayloadBytes)
    }
    let expected = [Int](repeating: 0, count: headerLength) + [5, 4, 3, 2, 1, 0]
    #expect(missing == expected + [Int](repeating: 0, count: missing.count - expected.count))
  }
}

@Suite("Violations (RFC 6455 §5.1 to §5.5, §7.1.7)")
struct ViolationTests: MachineTests {
  // R39, R78
  @Test(arguments: roles)
  func `a frame masked against its sender's role fails with 1002`(role: Role) {
    let bytes = wire([.text("hi")], to: role.peer)
    let violation: ProtocolViolation = role == .client ? .maskedFrameFromServer : .unmaskedFrameFromClient
    #expect(outputs(role, [.receive(bytes)]) == failure(violation, role))
  }

  // R40
  @Test(
    arguments: roles,
    [
      (Opcode.text, 0x40), (.text, 0x20), (.binary, 0x10), (.ping, 0x40), (.pong, 0x20), (.close, 0x10), (.text, 0x70),
    ] as [(Opcode, UInt8)])
  func `reserved bits fail with 1002`(role: Role, row: (opcode: Opcode, bits: UInt8)) {
    let frame = Frame(row.opcode, reservedBits: ReservedBits(rawValue: row.bits))
    #expect(outputs(role, frames: [frame]) == failure(.reservedBits(row.bits), role))
  }

  // R40
  @Test(arguments: roles)
  func `reserved bits on a continuation fail with 1002`(role: Role) {
    let frames = [Frame.text("a", isFinal: false), Frame(.continuation, reservedBits: .rsv1)]
    #expect(
      outputs(role, frames: frames)
        == [.frame(.text, length: 1, isFinal: false), .payload([0x61])] + failure(.reservedBits(0x40), role))
  }

  // R41
  @Test(arguments: roles, [UInt64.max, 1 << 63])
  func `a length with its highest bit set fails with 1002 and traps nowhere`(role: Role, length: UInt64) {
    let octets = (0..<8).map { UInt8(truncatingIfNeeded: length >> (56 - 8 * UInt64($0))) }
    #expect(
      outputs(role, [.receive(header(0x82, 127, octets, to: role))]) == failure(.lengthTooLarge(length), role))
  }

  // R41
  @Test(arguments: roles)
  func `a frame above the limit fails with 1009 at its header`(role: Role) {
    let bytes = header(0x82, 127, [0x40, 0, 0, 0, 0, 0, 0, 0], to: role) + [UInt8](repeating: 0, count: 10)
    #expect(outputs(role, [.receive(bytes)]) == failure(.frameTooBig(bytes: 1 << 62, limit: 16 << 20), role))
  }

  // R41
  @Test(arguments: roles)
  func `fragments that together pass the limit by one byte fail with 1009, and at the limit do not`(role: Role) {
    let limits = ConnectionLimits(maximumMessageBytes: 10)
    let start: [MachineOutput] = [.frame(.binary, length: 6, isFinal: false), .payload([1, 2, 3, 4, 5, 6])]
    let first = Frame(.binary, [1, 2, 3, 4, 5, 6], isFinal: false)
    #expect(
      outputs(role, limits: limits, frames: [first, Frame(.continuation, [7, 8, 9, 10])]) == start + [
        .frame(.continuation, length: 4, isFinal: true), .payload([7, 8, 9, 10]), .message(.binary),
      ])
    #expect(
      outputs(role, limits: limits, frames: [first, Frame(.continuation, [7, 8, 9, 10, 11])])
        == start + failure(.messageTooBig(bytes: 11, limit: 10), role))
  }

  // R41
  @Test(arguments: roles)
  func `a sum of lengths that overflows fails with 1009 even without a limit`(role: Role) {
    let limits = ConnectionLimits(maximumMessageBytes: .max, maximumFrameBytes: .max)
    let bytes =
      wire([Frame(.binary, [1], isFinal: false)], to: role)
      + header(0x80, 127, [0x7F] + [UInt8](repeating: 0xFF, count: 7), to: role)
    #expect(
      outputs(role, limits: limits, [.receive(bytes)])
        == [.frame(.binary, length: 1, isFinal: false), .payload([1])]
        + failure(.messageTooBig(bytes: .max, limit: .max), role))
  }

  // R42
  @Test(arguments: roles)
  func `empty fragments count: up to the limit is a message, one more fails with 1009`(role: Role) {
    let limits = ConnectionLimits(maximumFragments: 5)
    let start = [Frame(.text, isFinal: false)] + [Frame](repeating: Frame(.continuation, isFinal: false), count: 3)
    let began: [MachineOutput] =
      [.frame(.text, length: 0, isFinal: false)]
      + [MachineOutput](repeating: .frame(.continuation, length: 0, isFinal: false), count: 3)
    #expect(
      outputs(role, limits: limits, frames: start + [Frame(.continuation), Frame(.text)])
        == began + [.frame(.continuation, length: 0, isFinal: true), .message(.text)] + message(.text, []))
    let more = Frame(.continuation, isFinal: false)
    #expect(
      outputs(role, limits: limits, frames: start + [more, more])
        == began + [.frame(.continuation, length: 0, isFinal: false)] + failure(.tooManyFragments(limit: 5), role))
  }

  // R47
  @Test(arguments: roles, [3, 4, 5, 6, 7, 11, 12, 13, 14, 15] as [UInt8])
  func `a reserved opcode fails with 1002`(role: Role, opcode: UInt8) {
    let bytes = header(0x80 | opcode, 0, to: role)
    #expect(outputs(role, [.receive(bytes)]) == failure(.reservedOpcode(opcode), role))
  }

  // R47
  @Test(arguments: roles, [Opcode.close, .ping, .pong])
  func `a control frame that is fragmented or longer than 125 bytes fails with 1002`(role: Role, opcode: Opcode) {
    #expect(outputs(role, frames: [Frame(opcode, isFinal: false)]) == failure(.fragmentedControlFrame, role))
    let long = Frame(opcode, [UInt8](repeating: 0, count: 126))
    #expect(outputs(role, frames: [long]) == failure(.controlFrameTooLong, role))
  }

  // R48
  @Test(arguments: roles)
  func `a length that is not in its shortest form fails with 1002`(role: Role) {
    #expect(
      outputs(role, [.receive(header(0x82, 126, [0, 5], to: role))]) == failure(.lengthNotMinimal(5), role))
    #expect(
      outputs(role, [.receive(header(0x82, 127, [0, 0, 0, 0, 0, 0, 0, 255], to: role))])
        == failure(.lengthNotMinimal(255), role))
  }

  @Test(arguments: roles)
  func `a continuation without a message, and a message inside another, fail with 1002`(role: Role) {
    #expect(outputs(role, frames: [Frame(.continuation)]) == failure(.unexpectedContinuation, role))
    #expect(
      outputs(role, frames: [.text("a"), Frame(.continuation, isFinal: false)])
        == message(.text, [0x61]) + failure(.unexpectedContinuation, role))
    for opcode in [Opcode.text, .binary] {
      #expect(
        outputs(role, frames: [Frame(.binary, isFinal: false), Frame(opcode)])
          == [.frame(.binary, length: 0, isFinal: false)] + failure(.unfinishedMessage, role))
    }
  }

  // R78
  @Test(arguments: roles)
  func `after a violation everything is discarded until TCP ends, and the record names the cause`(role: Role) {
    let bytes = wire([Frame(.continuation), .text("more"), Frame(.ping), .close(1000)], to: role)
    let record = CloseRecord(
      code: .protocolError, reason: ProtocolViolation.unexpectedContinuation.description, initiator: .local,
      isClean: false, transportEnd: .reset, violation: .unexpectedContinuation)
    #expect(
      outputs(role, [.receive(bytes), .receive(bytes), .close(.empty), .transportEnded(.reset), .receive(bytes)])
        == failure(.unexpectedContinuation, role) + [.ended(record)])
  }

  // R78
  @Test(arguments: roles)
  func `a peer that does not end TCP after a violation is cut off when the time-out has passed`(role: Role) {
    let record = CloseRecord(
      code: .invalidPayload, reason: ProtocolViolation.invalidUTF8.description, initiator: .local, isClean: false,
      transportEnd: .timedOut, violation: .invalidUTF8)
    #expect(
      outputs(
        role,
        [
          .receive(wire([Frame(.text, [0xFF])], to: role)), .closingTimedOut, .closingTimedOut,
          .transportEnded(.finished),
        ])
        == [.frame(.text, length: 1, isFinal: true)] + failure(.invalidUTF8, role) + [.ended(record)])
  }

  // R74, R78
  @Test(arguments: roles)
  func `a violation after our Close is not answered with a second one`(role: Role) {
    let violation = ProtocolViolation.reservedOpcode(3)
    let record = CloseRecord(
      code: .protocolError, reason: violation.description, initiator: .local, isClean: false, transportEnd: .finished,
      violation: violation)
    #expect(
      outputs(role, [.close(.empty), .receive(header(0x83, 0, to: role)), .transportEnded(.finished)])
        == [.write(.close, []), .startClosingTimer] + finish(role) + [.ended(record)])
  }

  @Test(
    arguments: [
      .reservedBits(0x70), .reservedOpcode(15), .maskedFrameFromServer, .unmaskedFrameFromClient,
      .lengthNotMinimal(.max),
      .lengthTooLarge(.max), .controlFrameTooLong, .fragmentedControlFrame, .unexpectedContinuation, .unfinishedMessage,
      .invalidUTF8, .closePayloadTooShort, .invalidCloseCode(.max), .invalidCloseReason,
      .frameTooBig(bytes: .max, limit: .max), .messageTooBig(bytes: .max, limit: .max), .tooManyFragments(limit: .max),
    ] as [ProtocolViolation])
  func `every violation's sentence fits into a Close frame`(violation: ProtocolViolation) {
    #expect(ClosePayload(sending: violation.closeCode, reason: violation.description) != nil)
  }
}

@Suite("The closing handshake (RFC 6455 §7.1)")
struct ClosingHandshakeTests: MachineTests {
  private func clean(_ code: CloseCode, _ reason: String = "", by initiator: CloseRecord.Side) -> CloseRecord {
    CloseRecord(code: code, reason: reason, initiator: initiator, isClean: true, transportEnd: .finished)
  }

  // R61
  @Test(arguments: roles)
  func `an empty Close is answered with an empty one and counts as 1005`(role: Role) {
    #expect(
      outputs(role, [.receive(wire([Frame(.close)], to: role)), .transportEnded(.finished)])
        == [.control(.close, []), .write(.close, []), .startClosingTimer] + finish(role)
        + [.ended(clean(.noStatusReceived, by: .peer))])
  }

  // R63, R66
  @Test(arguments: roles, ClosePayloadTests.allowed)
  func `a peer's code is echoed without its reason and recorded with it`(role: Role, number: UInt16) {
    let bytes = [UInt8(number >> 8), UInt8(number & 255)]
    #expect(
      outputs(role, [.receive(wire([.close(number, "bye é")], to: role)), .transportEnded(.finished)])
        == [.control(.close, bytes + "bye é".utf8), .write(.close, bytes), .startClosingTimer] + finish(role)
        + [.ended(clean(CloseCode(number), "bye é", by: .peer))])
  }

  // R63, R76
  @Test(arguments: roles, ClosePayloadTests.forbidden)
  func `a code that may not travel fails with 1002`(role: Role, number: UInt16) {
    #expect(outputs(role, frames: [.close(number)]) == failure(.invalidCloseCode(number), role))
  }

  // R76
  @Test(arguments: roles)
  func `a Close of one byte fails with 1002 and a reason that is not UTF-8 with 1007`(role: Role) {
    #expect(outputs(role, frames: [Frame(.close, [3])]) == failure(.closePayloadTooShort, role))
    #expect(outputs(role, frames: [Frame(.close, [3, 0xE8, 0xFF])]) == failure(.invalidCloseReason, role))
    #expect(ProtocolViolation.closePayloadTooShort.closeCode == .protocolError)
    #expect(ProtocolViolation.invalidCloseReason.closeCode == .invalidPayload)
  }

  // R72
  @Test(arguments: roles)
  func `messages before a Close come out before it`(role: Role) {
    #expect(
      outputs(role, frames: [.text("a"), .text("b"), .close(1000)])
        == message(.text, [0x61]) + message(.text, [0x62])
        + [.control(.close, [3, 0xE8]), .write(.close, [3, 0xE8]), .startClosingTimer] + finish(role))
  }

  // R72
  @Test(arguments: roles)
  func `messages that arrive after our Close still come out`(role: Role) throws {
    let payload = try #require(ClosePayload(sending: .goingAway, reason: "later"))
    let received = wire([.text("a"), .close(1001, "ok")], to: role)
    #expect(
      outputs(role, [.close(payload), .receive(received), .transportEnded(.finished)])
        == [.write(.close, payload.bytes), .startClosingTimer] + message(.text, [0x61])
        + [.control(.close, [3, 0xE9] + "ok".utf8)] + finish(role) + [.ended(clean(.goingAway, "ok", by: .local))])
  }

  // R72
  @Test(arguments: roles)
  func `a Close inside an unfinished message closes all the same`(role: Role) {
    #expect(
      outputs(role, frames: [.text("a", isFinal: false), .close(1000)]) == [
        .frame(.text, length: 1, isFinal: false), .payload([0x61]), .control(.close, [3, 0xE8]),
        .write(.close, [3, 0xE8]), .startClosingTimer,
      ] + finish(role))
  }

  // R74
  @Test(arguments: roles)
  func `nothing is written after Close: a second close does nothing and pings are not answered`(role: Role) {
    #expect(
      outputs(role, [.close(.empty), .close(.empty), .receive(wire([Frame(.ping, [1]), Frame(.close)], to: role))])
        == [.write(.close, []), .startClosingTimer, .control(.ping, [1]), .control(.close, [])] + finish(role))
  }

  // R74
  @Test(arguments: roles)
  func `what follows the peer's Close is discarded`(role: Role) {
    let bytes = wire([.close(1000), Frame(.ping), .text("late"), .close(1001), Frame(.continuation)], to: role)
    #expect(
      outputs(role, [.receive(bytes), .receive([0xFF]), .close(.empty)])
        == [.control(.close, [3, 0xE8]), .write(.close, [3, 0xE8]), .startClosingTimer] + finish(role))
  }

  // R74
  @Test(arguments: roles)
  func `sending is allowed in the open state only`(role: Role) {
    var connection = RecordedConnection(role: role)
    var allowed = [connection.machine.state.canSend]
    connection.perform(.close(.empty))
    allowed.append(connection.machine.state.canSend)
    connection.receive(wire([Frame(.close)], to: role))
    allowed.append(connection.machine.state.canSend)
    connection.perform(.transportEnded(.finished))
    allowed.append(connection.machine.state.canSend)
    #expect(allowed == [true, false, false, false])
  }

  // R64
  @Test(arguments: roles, [TransportEnd.finished, .reset, .truncated, .failed(errorNumber: 110)])
  func `an end without Close is 1006, once, whoever waited`(role: Role, end: TransportEnd) {
    let byPeer = CloseRecord(code: .abnormalClosure, initiator: .peer, isClean: false, transportEnd: end)
    let cut = Array(wire([.text("abc")], to: role).dropLast())
    #expect(
      outputs(role, [.receive(cut), .transportEnded(end), .transportEnded(.finished)])
        == [.frame(.text, length: 3, isFinal: true), .payload(Array("ab".utf8)), .ended(byPeer)])
    let byUs = CloseRecord(code: .abnormalClosure, initiator: .local, isClean: false, transportEnd: end)
    #expect(
      outputs(role, [.close(.empty), .transportEnded(end)])
        == [.write(.close, []), .startClosingTimer, .ended(byUs)])
  }

  // R65
  @Test(arguments: roles)
  func `a peer that does not answer our Close is cut off when the time-out has passed`(role: Role) {
    let record = CloseRecord(code: .abnormalClosure, initiator: .local, isClean: false, transportEnd: .timedOut)
    #expect(
      outputs(role, [.closingTimedOut, .close(.empty), .closingTimedOut, .closingTimedOut])
        == [.write(.close, []), .startClosingTimer, .ended(record)])
  }

  // R66
  @Test(arguments: roles)
  func `a peer that closes but does not end TCP is cut off, and the close stays clean`(role: Role) {
    var record = clean(.normalClosure, by: .peer)
    record.transportEnd = .timedOut
    #expect(
      outputs(role, [.receive(wire([.close(1000)], to: role)), .closingTimedOut])
        == [.control(.close, [3, 0xE8]), .write(.close, [3, 0xE8]), .startClosingTimer] + finish(role)
        + [.ended(record)])
  }
}
