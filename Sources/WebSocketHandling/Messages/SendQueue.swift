import WebSocketCore
import WebSocketTransport

/// Answers a send, a disconnect or a connect.
package typealias Completion = @Sendable (Result<Void, EngineError.WebSocketError>) -> Void

/// The completion of a send, as it lies in containers of generic type: bare, each passage in and out would cost an
/// allocation.
struct SendCompletion: Sendable {
  var call: Completion
}

/// What waits to be written: bytes that are encoded, and behind them frames that are not yet.
///
/// Small frames are encoded at once, masked in the same pass that copies them; long payloads stay with their owner and
/// are encoded in pieces that fit the cache.
struct SendQueue: ~Copyable, Sendable {
  /// A frame that waits to be encoded.
  struct Waiting: Sendable {
    var opcode: Opcode
    var payload: Payload
    /// Payload bytes encoded so far; -1 before the header.
    var encoded = -1
    var key: MaskingKey?
    var completion: Completion?
    /// Whether the completion hears of it where no byte is encoded: the message may then go to another connection.
    var isMovable = false
  }

  /// The completion of a frame of which no byte is encoded.
  typealias Dropped = (completion: Completion, isMovable: Bool)

  /// A frame whose last byte ends at that position of the stream.
  ///
  /// Short frames that nobody waits for share an entry. Completions lie in a queue of their own, so that an entry is
  /// copied without counting references.
  private struct Encoded: Sendable {
    var end = 0
    var cost = 0
    var messages = 0
    var hasCompletion = false
  }

  /// How much is encoded or written in one go.
  static let pieceBytes = 64 << 10
  /// The rest of a payload up to which it goes with the piece before it.
  private static let smallRest = 256
  /// How much frames that share an entry may cost, so that what is written is soon counted as written.
  private static let sharedCost = 16 << 10

  private let role: Role
  private var buffer = ByteBuffer()
  /// The frame that is encoded in part.
  private var current: Waiting?
  private var waiting = Queue<Waiting>()
  private var encoded = Queue<Encoded>()
  /// The last entry, while more frames may share it; none where it counts no message.
  private var tail = Encoded()
  private var completions = Queue<SendCompletion>()
  private var encodedPosition = 0
  private var writtenPosition = 0
  private var keys = MaskingKeys()
  /// Whether frames may be encoded: not before the opening handshake is done.
  var isOpen = false
  /// The cost of all messages that are not written: payload plus 64 each.
  private(set) var cost = 0
  private(set) var messageCount = 0
  /// What the next message is called in ``hasWritten(_:)``.
  private(set) var nextNumber = 0

  init(role: Role) { self.role = role }

  var isEmpty: Bool { buffer.isEmpty && (nothingWaits || !isOpen) }
  private var nothingWaits: Bool { current == nil && waiting.isEmpty }
  /// Whether it holds more memory than an idle connection should.
  var holdsMemory: Bool { buffer.holdsMemory || encoded.holdsMemory || waiting.holdsMemory }

  /// Gives memory back that nothing lies in.
  mutating func shrink() {
    buffer.shrink()
    encoded.shrink()
    waiting.shrink()
    completions.shrink()
    keys.shrink()
  }

  /// Encoded bytes that wait.
  var encodedBytes: Int { buffer.count }

  /// Adds bytes that are no frame.
  mutating func append(raw bytes: [UInt8]) {
    bytes.withUnsafeBytes { buffer.append($0) }
    encodedPosition += bytes.count
  }

  /// Adds a frame whose payload is encoded now where it is short, kept where it is not.
  mutating func append(_ opcode: Opcode, _ payload: Payload, random: any RandomSource, completion: Completion?) {
    let count = payload.count
    cost += count + messageOverhead
    messageCount += 1
    nextNumber += 1
    if encodesAtOnce(count) {
      payload.withBytes { encode(opcode, $0, random: random) }
      addEncoded(cost: count + messageOverhead, completion)
    } else {
      waiting.append(Waiting(opcode: opcode, payload: payload, completion: completion))
    }
  }

  /// Adds a short frame from borrowed bytes; false where it has to be kept instead.
  mutating func appendBorrowed(
    _ opcode: Opcode, _ bytes: UnsafeRawBufferPointer, random: any RandomSource, completion: Completion? = nil
  ) -> Bool {
    guard encodesAtOnce(bytes.count) else { return false }
    cost += bytes.count + messageOverhead
    messageCount += 1
    nextNumber += 1
    encode(opcode, bytes, random: random)
    addEncoded(cost: bytes.count + messageOverhead, completion)
    return true
  }

  /// Whether the message of that number is written: those before the last ones that wait are.
  func hasWritten(_ number: Int) -> Bool { number < nextNumber - messageCount }

  /// Gives a completion to the message added last, which has none and is not written.
  mutating func complete(last completion: @escaping Completion) {
    if var frame = waiting.popLast() {
      (frame.completion, frame.isMovable) = (completion, true)
      waiting.append(frame)
    } else if current != nil {
      current?.completion = completion
    } else {
      endTail()
      if var entry = encoded.popLast() {
        entry.hasCompletion = true
        encoded.append(entry)
      }
      completions.append(SendCompletion(call: completion))
    }
  }

  private func encodesAtOnce(_ count: Int) -> Bool {
    isOpen && count <= Self.pieceBytes / 4 && buffer.count < Self.pieceBytes && nothingWaits
  }

  @inline(__always)
  private mutating func addEncoded(cost: Int, _ completion: Completion?) {
    if let completion {
      endTail()
      encoded.append(Encoded(end: encodedPosition, cost: cost, messages: 1, hasCompletion: true))
      completions.append(SendCompletion(call: completion))
    } else {
      if tail.cost >= Self.sharedCost { endTail() }
      tail.end = encodedPosition
      tail.cost += cost
      tail.messages += 1
    }
  }

  /// Lets no more frames share the last entry.
  private mutating func endTail() {
    if tail.messages > 0 { encoded.append(tail) }
    tail = Encoded()
  }

  /// Writes at most one piece.
  mutating func writePiece(to transport: any Transport, random: any RandomSource) -> WriteOutcome {
    if buffer.isEmpty { encodePiece(random: random) }
    let outcome = transport.write(buffer.readable)
    if case .wrote(let count) = outcome {
      buffer.consume(count)
      writtenPosition += count
    }
    return outcome
  }

  /// Takes the messages that are written; their completions go behind those in `written`.
  ///
  /// - Returns: how many messages, and how many completions.
  mutating func takeWritten(into written: inout Queue<SendCompletion>) -> (messages: Int, completions: Int) {
    let (messages, waiting) = (messageCount, completions.count)
    if buffer.isEmpty, nothingWaits {
      // All of them, as nearly always: none is looked at.
      if written.isEmpty { swap(&completions, &written) }
      while let completion = completions.popFirst() { written.append(completion) }
      encoded.clear()
      tail = Encoded()
      (cost, messageCount) = (0, 0)
      return (messages, waiting)
    }
    if encoded.isEmpty { endTail() }
    while let first = encoded.first, first.end <= writtenPosition {
      _ = encoded.popFirst()
      cost -= first.cost
      messageCount -= first.messages
      if first.hasCompletion, let completion = completions.popFirst() { written.append(completion) }
      if encoded.isEmpty { endTail() }
    }
    return (messages - messageCount, waiting - completions.count)
  }

  /// Takes back the frames of which no byte is encoded, but for our Close, and returns their completions.
  mutating func dropUnstarted() -> [Dropped] {
    let dropped = waiting.removeAll { $0.opcode != .close }
    for frame in dropped {
      cost -= frame.payload.count + messageOverhead
      messageCount -= 1
    }
    return dropped.compactMap { frame in frame.completion.map { ($0, frame.isMovable) } }
  }

  /// Forgets everything and returns the completions of what was not written.
  mutating func removeAll() -> [Completion] {
    let removed = takeCompletions()
    encoded = Queue()
    tail = Encoded()
    current = nil
    waiting = Queue()
    buffer.removeAll()
    (encodedPosition, writtenPosition, cost, messageCount, isOpen) = (0, 0, 0, 0, false)
    return removed
  }

  /// Takes the completions from the frames, which stay.
  mutating func takeCompletions() -> [Completion] {
    var taken = completions.removeAll().map(\.call)
    endTail()
    for entry in encoded.removeAll() {
      encoded.append(Encoded(end: entry.end, cost: entry.cost, messages: entry.messages, hasCompletion: false))
    }
    if let completion = current?.completion.take() { taken.append(completion) }
    for var frame in waiting.removeAll() {
      if let completion = frame.completion.take() { taken.append(completion) }
      waiting.append(frame)
    }
    return taken
  }

  @inline(__always)
  private mutating func encode(_ opcode: Opcode, _ payload: UnsafeRawBufferPointer, random: any RandomSource) {
    let key = role.masksItsFrames ? keys.next(from: random, isBusy: buffer.holdsMemory) : nil
    let header = FrameHeader(opcode: opcode, payloadLength: payload.count, maskingKey: key)
    let target = buffer.reserve(FrameHeader.maximumLength + payload.count)
    let length = header.write(to: target)
    copy(payload, to: target + length, key: key, offset: 0)
    buffer.commit(length + payload.count)
    encodedPosition += length + payload.count
  }

  /// Encodes the next piece of the frames that wait.
  private mutating func encodePiece(random: any RandomSource) {
    while isOpen, buffer.count < Self.pieceBytes, var frame = current.take() ?? waiting.popFirst() {
      let total = frame.payload.count
      if frame.encoded < 0 {
        frame.key = role.masksItsFrames ? keys.next(from: random, isBusy: buffer.holdsMemory) : nil
        let header = FrameHeader(opcode: frame.opcode, payloadLength: total, maskingKey: frame.key)
        let length = header.write(to: buffer.reserve(FrameHeader.maximumLength))
        buffer.commit(length)
        encodedPosition += length
        frame.encoded = 0
      }
      let rest = total - frame.encoded
      let room = max(0, Self.pieceBytes - buffer.count)
      let count = rest <= room + Self.smallRest ? rest : room
      frame.payload.withBytes { bytes in
        let piece = UnsafeRawBufferPointer(rebasing: bytes[frame.encoded..<frame.encoded + count])
        copy(piece, to: buffer.reserve(count), key: frame.key, offset: frame.encoded)
      }
      buffer.commit(count)
      encodedPosition += count
      frame.encoded += count
      if frame.encoded == total {
        addEncoded(cost: total + messageOverhead, frame.completion)
      } else {
        current = frame
      }
    }
  }

  private func copy(
    _ payload: UnsafeRawBufferPointer, to target: UnsafeMutableRawPointer, key: MaskingKey?, offset: Int
  ) {
    guard let source = payload.baseAddress, !payload.isEmpty else { return }
    if let key {
      key.copy(from: source, to: target, count: payload.count, offset: offset)
    } else {
      target.copyMemory(from: source, byteCount: payload.count)
    }
  }
}

/// Masking keys, taken from the random source many at a time: one system call each would cost more than the masking.
struct MaskingKeys: Sendable {
  /// What an idle connection keeps.
  private static let few = 64
  private static let many = 1024

  private var bits: [UInt32] = []
  private var unused = 0

  /// The next key.
  ///
  /// - Parameter isBusy: whether the connection holds more memory than an idle one should anyway.
  @inline(__always)
  mutating func next(from random: any RandomSource, isBusy: Bool) -> MaskingKey {
    if unused == 0 { refill(from: random, isBusy ? Self.many : Self.few) }
    unused -= 1
    return MaskingKey(bits: bits[unused])
  }

  private mutating func refill(from random: any RandomSource, _ count: Int) {
    if bits.count != count { bits = [UInt32](repeating: 0, count: count) }
    bits.withUnsafeMutableBytes { random.fill($0) }
    unused = count
  }

  /// Gives memory back that an idle connection should not hold.
  mutating func shrink() {
    if bits.count > Self.few { self = MaskingKeys() }
  }
}
