import WebSocketCore

/// The same bytes, whole and cut, must give the same outputs in either role; text must be UTF-8, and nothing may trap.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
  var input = FuzzInput(start, count)
  let options = input.byte()
  let cuts = input.cuts()
  let bytes = input.bytes
  let whole = outputs(of: [bytes], options)
  expectEqual(whole, outputs(of: bytes.pieces(cutAt: cuts), options))
  expectEqual(whole, outputs(of: bytes.map { [$0] }, options))
  checkText(whole)
  return 0
}

/// What a machine says to the pieces and to the end of the stream.
///
/// - Parameter options: bit 0: the server's role; bit 1: small limits; bit 2: closing when the bytes come; bit 3: the
///   close time-out passes at the end.
private func outputs(of pieces: [[UInt8]], _ options: UInt8) -> [MachineOutput] {
  let limits =
    options & 2 == 0
    ? ConnectionLimits() : ConnectionLimits(maximumMessageBytes: 300, maximumFrameBytes: 200, maximumFragments: 4)
  var connection = RecordedConnection(role: options & 1 == 0 ? .client : .server, limits: limits)
  if options & 4 != 0 { connection.perform(.close(.empty)) }
  for piece in pieces { connection.perform(.receive(piece)) }
  connection.perform(options & 8 == 0 ? .transportEnded(.finished) : .closingTimedOut)
  return connection.sink.outputs
}

/// A message that ends as text is UTF-8 in the standard library's eyes too.
private func checkText(_ outputs: [MachineOutput]) {
  var message: [UInt8] = []
  for output in outputs {
    switch output {
    case .payload(let bytes): message += bytes
    case .message(let kind):
      if kind == .text, String(validating: message, as: UTF8.self) == nil { fatalError("text that is no UTF-8") }
      message = []
    default: break
    }
  }
}
