import WebSocketCore

/// What a ``ConnectionMachine`` said, as values.
enum MachineOutput: Equatable {
  case frame(Opcode, length: Int, isFinal: Bool)
  case payload([UInt8])
  case message(MessageKind)
  case control(Opcode, [UInt8])
  case write(Opcode, [UInt8])
  case startClosingTimer
  case finishWriting
  case ended(CloseRecord)
}

/// Collects every output; adjacent pieces of payload become one, since where a machine cuts them is not its contract.
struct RecordingSink: ConnectionSink {
  private(set) var outputs: [MachineOutput] = []
  /// Pieces of the input of the call that is going on, by the place of their output.
  private var ranges: [(output: Int, range: Range<Int>)] = []

  mutating func dataFrameBegan(_ header: FrameHeader) {
    outputs.append(.frame(header.opcode, length: header.payloadLength, isFinal: header.isFinal))
  }

  mutating func payload(_ range: Range<Int>) {
    ranges.append((outputs.count, range))
    outputs.append(.payload([]))
  }

  mutating func messageEnded(_ kind: MessageKind) { outputs.append(.message(kind)) }
  mutating func controlFrame(_ opcode: Opcode, payload: [UInt8]) { outputs.append(.control(opcode, payload)) }
  mutating func write(_ opcode: Opcode, payload: [UInt8]) { outputs.append(.write(opcode, payload)) }
  mutating func startClosingTimer() { outputs.append(.startClosingTimer) }
  mutating func finishWriting() { outputs.append(.finishWriting) }
  mutating func ended(_ record: CloseRecord) { outputs.append(.ended(record)) }

  /// Copies the announced pieces out of the input of the call that has returned.
  mutating func copyPayload(from input: [UInt8]) {
    for (output, range) in ranges { outputs[output] = .payload(Array(input[range])) }
    // Backwards, so that a piece that joins the one before it leaves the earlier places as they are.
    for (output, _) in ranges.reversed() where output > 0 { joinPayload(at: output) }
    ranges.removeAll()
  }

  /// Moves the payload at `output` behind the one before it, where there is one.
  private mutating func joinPayload(at output: Int) {
    guard case .payload(let more) = outputs[output], case .payload(var bytes) = outputs[output - 1] else { return }
    outputs[output - 1] = .payload([])  // so that `bytes` is not shared and grows in place
    bytes += more
    outputs[output - 1] = .payload(bytes)
    outputs.remove(at: output)
  }
}

/// A machine with its recorder.
struct RecordedConnection: ~Copyable {
  var machine: ConnectionMachine
  var sink = RecordingSink()

  init(role: Role, limits: ConnectionLimits = ConnectionLimits()) {
    machine = ConnectionMachine(role: role, limits: limits)
  }

  mutating func receive(_ bytes: [UInt8]) {
    var input = bytes
    do {
      var span = input.mutableSpan
      var raw = span.mutableBytes
      machine.receive(&raw, into: &sink)
    }
    sink.copyPayload(from: input)
  }

  mutating func perform(_ step: MachineStep) {
    switch step {
    case .receive(let bytes): receive(bytes)
    case .close(let payload): machine.close(payload, into: &sink)
    case .transportEnded(let end): machine.transportEnded(end, into: &sink)
    case .closingTimedOut: machine.closingTimedOut(into: &sink)
    }
  }
}

/// One input of a machine.
enum MachineStep {
  case receive([UInt8])
  case close(ClosePayload)
  case transportEnded(TransportEnd)
  case closingTimedOut

  /// The step with its bytes cut into pieces.
  func cut(_ pieces: ([UInt8]) -> [[UInt8]]) -> [MachineStep] {
    guard case .receive(let bytes) = self else { return [self] }
    return pieces(bytes).map { .receive($0) }
  }
}
