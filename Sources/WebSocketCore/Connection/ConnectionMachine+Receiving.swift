extension ConnectionMachine {
  /// Takes bytes of the peer's.
  ///
  /// Masked payloads are unmasked in place.
  package mutating func receive<Sink: ConnectionSink & ~Copyable>(
    _ input: inout MutableRawSpan, into sink: inout Sink
  ) {
    var offset = 0
    do throws(ProtocolViolation) {
      while canReceive {
        switch reading {
        case .header:
          if let header = takeWholeMessage(&input, at: &offset) {
            let payload = offset - header.payloadLength..<offset
            sink.message(header.opcode == .text ? .text : .binary, payload, of: header)
            continue
          }
          guard let header = try readHeader(input.bytes, at: &offset) else { return }
          try begin(header, into: &sink)
        case .payload(let header, let received):
          let piece = offset..<offset + min(header.payloadLength - received, input.byteCount - offset)
          guard !piece.isEmpty || received == header.payloadLength else { return }
          header.maskingKey?.apply(to: &input, in: piece, offset: received)
          try take(piece, of: header, received: received, from: input.bytes, into: &sink)
          offset = piece.upperBound
        }
      }
    } catch {
      fail(error, into: &sink)
    }
  }

  /// Takes a message that lies whole in the input in one frame, as nearly all do; nil where the next frame is anything
  /// else, a faulty one among them: then nothing is changed, and the long way judges it.
  @inline(__always)
  private mutating func takeWholeMessage(_ input: inout MutableRawSpan, at offset: inout Int) -> FrameHeader? {
    let available = input.byteCount - offset
    guard message == nil, partialHeader.count == 0, available >= 2 else { return nil }
    let first = input.unsafeLoad(fromByteOffset: offset, as: UInt8.self)
    guard first == 0x81 || first == 0x82 else { return nil }
    let second = input.unsafeLoad(fromByteOffset: offset + 1, as: UInt8.self)
    let isMasked = second & 0x80 != 0
    guard isMasked == role.peer.masksItsFrames else { return nil }
    var length = Int(second & 0x7F)
    var start = offset + 2
    if length > 125 {
      guard length == 126, available >= 4 else { return nil }
      length = Int(UInt16(bigEndian: input.unsafeLoadUnaligned(fromByteOffset: offset + 2, as: UInt16.self)))
      guard length > 125 else { return nil }
      start += 2
    }
    if isMasked { start += 4 }
    guard start + length <= input.byteCount, length <= limits.maximumFrameBytes, length <= limits.maximumMessageBytes,
      limits.maximumFragments > 0
    else { return nil }
    let payload = start..<start + length
    var key: MaskingKey?
    if isMasked {
      let given = MaskingKey(bits: input.unsafeLoadUnaligned(fromByteOffset: start - 4, as: UInt32.self))
      given.apply(to: &input, in: payload)
      key = given
    }
    if first == 0x81 {
      var validator = UTF8Validator()
      guard validator.accepts(input.bytes.extracting(payload)), validator.isAtScalarBoundary else {
        key?.apply(to: &input, in: payload)
        return nil
      }
    }
    offset = payload.upperBound
    return FrameHeader(opcode: first == 0x81 ? .text : .binary, payloadLength: length, maskingKey: key)
  }

  /// The next header, or nil where the input ends first; its octets are then kept.
  private mutating func readHeader(
    _ input: RawSpan, at offset: inout Int
  ) throws(ProtocolViolation) -> FrameHeader? {
    if partialHeader.count == 0 {
      if let (header, length) = try FrameHeader.parse(input, at: offset, role: role) {
        offset += length
        return header
      }
    }
    while offset < input.byteCount {
      partialHeader.append(input.unsafeLoad(fromByteOffset: offset, as: UInt8.self))
      offset += 1
      if let header = try partialHeader.parse(role: role) {
        partialHeader.removeAll()
        return header
      }
    }
    return nil
  }

  /// Judges a frame by its header: fragmentation (RFC 6455 §5.4) and limits, before anything is allocated.
  private mutating func begin<Sink: ConnectionSink & ~Copyable>(
    _ header: FrameHeader, into sink: inout Sink
  ) throws(ProtocolViolation) {
    reading = .payload(header, received: 0)
    if header.opcode.isControl {
      controlPayload.removeAll(keepingCapacity: true)
      return
    }
    var progress: MessageProgress
    switch (message, header.opcode) {
    case (nil, .text): progress = MessageProgress(kind: .text)
    case (nil, .binary): progress = MessageProgress(kind: .binary)
    case (nil, _): throw .unexpectedContinuation
    case (let current?, .continuation): progress = current
    case (_?, _): throw .unfinishedMessage
    }
    guard header.payloadLength <= limits.maximumFrameBytes else {
      throw .frameTooBig(bytes: header.payloadLength, limit: limits.maximumFrameBytes)
    }
    let (announced, overflow) = progress.announcedBytes.addingReportingOverflow(header.payloadLength)
    guard !overflow, announced <= limits.maximumMessageBytes else {
      throw .messageTooBig(bytes: overflow ? .max : announced, limit: limits.maximumMessageBytes)
    }
    progress.announcedBytes = announced
    progress.frames += 1
    guard progress.frames <= limits.maximumFragments else { throw .tooManyFragments(limit: limits.maximumFragments) }
    message = progress
    sink.dataFrameBegan(header)
  }

  /// Takes a piece of the current frame's payload, already unmasked, and ends the frame with its last one.
  private mutating func take<Sink: ConnectionSink & ~Copyable>(
    _ piece: Range<Int>, of header: FrameHeader, received: Int, from input: RawSpan, into sink: inout Sink
  ) throws(ProtocolViolation) {
    let total = received + piece.count
    let isComplete = total == header.payloadLength
    reading = isComplete ? .header : .payload(header, received: total)
    if header.opcode.isControl {
      for index in piece { controlPayload.append(input.unsafeLoad(fromByteOffset: index, as: UInt8.self)) }
      if isComplete { try receiveControlFrame(header.opcode, into: &sink) }
      return
    }
    if message?.kind == .text {
      let valid = message?.validator.validPrefix(of: input.extracting(piece)) ?? 0
      guard valid == piece.count else {
        // What came before the impossible byte is passed on, as it would be had the input been cut there.
        if valid > 0 { sink.payload(piece.lowerBound..<(piece.lowerBound + valid)) }
        throw .invalidUTF8
      }
    }
    if !piece.isEmpty { sink.payload(piece) }
    if isComplete, header.isFinal, let ended = message {
      guard ended.validator.isAtScalarBoundary else { throw .invalidUTF8 }
      message = nil
      sink.messageEnded(ended.kind)
    }
  }

  /// A complete control frame (RFC 6455 §5.5).
  ///
  /// A ping is answered while this endpoint may still send.
  private mutating func receiveControlFrame<Sink: ConnectionSink & ~Copyable>(
    _ opcode: Opcode, into sink: inout Sink
  ) throws(ProtocolViolation) {
    switch opcode {
    case .close: try receiveClose(controlPayload, into: &sink)
    case .ping:
      sink.controlFrame(.ping, payload: controlPayload)
      if canSend { sink.write(.pong, payload: controlPayload) }
    case .pong: sink.controlFrame(.pong, payload: controlPayload)
    case .continuation, .text, .binary: preconditionFailure("only control frames come here")
    }
  }
}
