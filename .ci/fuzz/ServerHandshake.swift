import WebSocketCore

/// A client's request, whole and cut, must give the same verdict, and nothing may trap.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
  var input = FuzzInput(start, count)
  let hasSmallLimits = input.byte() & 1 != 0
  let cuts = input.cuts()
  let bytes = input.bytes
  let whole = verdict(on: [bytes], hasSmallLimits)
  expectEqual(whole, verdict(on: bytes.pieces(cutAt: cuts), hasSmallLimits))
  expectEqual(whole, verdict(on: bytes.map { [$0] }, hasSmallLimits))
  return 0
}

/// What the handshake comes to, with the place in all bytes where frames begin.
private func verdict(on pieces: [[UInt8]], _ hasSmallLimits: Bool) -> ServerHandshake.Verdict {
  var handshake = hasSmallLimits ? ServerHandshake(maximumHeadBytes: 200, maximumFields: 5) : ServerHandshake()
  var offset = 0
  for piece in pieces {
    switch handshake.receive(piece.span.bytes) {
    case .needsMore: offset += piece.count
    case .upgrade(let offer, let end): return .upgrade(offer, end: offset + end)
    case let other: return other
    }
  }
  return .needsMore
}
