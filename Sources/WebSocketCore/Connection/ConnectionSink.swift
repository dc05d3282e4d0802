/// Everything a ``ConnectionMachine`` may say, in the order in which it is to be done.
///
/// A sink is passed `inout` to each input, so that nothing is allocated per frame. Ranges are offsets into the input of
/// the call and must be used before that input is reused.
package protocol ConnectionSink: ~Copyable {
  /// A data frame was accepted; its payload follows in pieces. A good moment to make room.
  mutating func dataFrameBegan(_ header: FrameHeader)
  /// A piece of the current message: unmasked in place, and checked where it is text.
  mutating func payload(_ range: Range<Int>)
  /// The current message is complete.
  mutating func messageEnded(_ kind: MessageKind)
  /// A message of one frame that lies whole in that range: what ``dataFrameBegan(_:)``, ``payload(_:)`` and
  /// ``messageEnded(_:)`` would say, in one call.
  mutating func message(_ kind: MessageKind, _ range: Range<Int>, of header: FrameHeader)
  /// A ping, a pong or a valid Close of the peer's. What must be answered is asked for by ``write(_:payload:)``.
  mutating func controlFrame(_ opcode: Opcode, payload: [UInt8])
  /// Write a control frame.
  mutating func write(_ opcode: Opcode, payload: [UInt8])
  /// Call ``ConnectionMachine/closingTimedOut(into:)`` when the close time-out has passed.
  mutating func startClosingTimer()
  /// Nothing more will be written: end this direction of TCP once all is out, and go on reading for the peer's end.
  mutating func finishWriting()
  /// The connection is over: close the transport, forget the timers, tell everyone.
  mutating func ended(_ record: CloseRecord)
}

extension ConnectionSink where Self: ~Copyable {
  package mutating func message(_ kind: MessageKind, _ range: Range<Int>, of header: FrameHeader) {
    dataFrameBegan(header)
    if !range.isEmpty { payload(range) }
    messageEnded(kind)
  }
}
