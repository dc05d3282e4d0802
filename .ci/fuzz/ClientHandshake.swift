import WebSocketCore

/// A server's answer, whole and cut, must give the same verdict, and nothing may trap.
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
private func verdict(on pieces: [[UInt8]], _ hasSmallLimits: Bool) -> Result<ClientHandshake.Verdict, HandshakeFailure> {
  let request = ClientHandshake.Request(target: "/", host: "h", subprotocols: ["a", "b"])
  let key = HandshakeKey(randomBytes: [UInt8](repeating: 0, count: HandshakeKey.byteCount))
  var handshake =
    hasSmallLimits
    ? ClientHandshake(request, key: key, maximumHeadBytes: 200, maximumFields: 5, maximumBodyBytes: 8)
    : ClientHandshake(request, key: key)
  var offset = 0
  do throws(HandshakeFailure) {
    for piece in pieces {
      switch try handshake.receive(piece.span.bytes) {
      case .needsMore: offset += piece.count
      case .accepted(let head, let subprotocol, let end):
        return .success(.accepted(head, subprotocol: subprotocol, end: offset + end))
      case .refused(let head, let body): return .success(.refused(head, body: body))
      }
    }
    return .success(try handshake.streamEnded())
  } catch {
    return .failure(error)
  }
}
