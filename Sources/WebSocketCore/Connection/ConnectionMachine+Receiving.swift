extension ConnectionMachine {
  /// Takes bytes of the peer's.
  ///
  /// Masked payloads are unmasked in place.
  package mutating func receive<Sink: ConnectionSink & ~Copyable>(
    _ input: inout MutableRawSpan, into sink: inout Sink
  ) {
    var offset = 0
    do throws(ProtocolViolation) {
      while state.canReceive {
        switch reading {
        case .header:
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
      if state.canSend { sink.write(.pong, payload: controlPayload) }
    case .pong: sink.controlFrame(.pong, payload: controlPayload)
    case .continuation, .text, .binary: preconditionFailure("only control frames come here")
    }
  }
}
