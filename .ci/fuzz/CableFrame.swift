/// A server's frame of Action Cable, as text whatever its bytes are: it is read, or fails with a documented error, and
/// what it says about places is true.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
  // Safe: libFuzzer passes the memory and its length together, and keeps it during the call.
  let text = String(decoding: UnsafeBufferPointer(start: start, count: count), as: UTF8.self)
  let message: ServerMessage
  do throws(FrameFault) {
    message = try ServerMessage(parsing: text)
  } catch {
    switch error {
    case .malformed(let offset): expectEqual((0...text.utf8.count).contains(offset), true)
    case .tooDeep: break
    case .notAnObject: expectEqual((try? JSONValue(parsing: text)).isObject, false)
    }
    return 0
  }
  switch message {
  case .message(let identifier, _, let body):
    let bytes = Array(text.utf8)[body]
    checkValue(String(decoding: bytes, as: UTF8.self))
    checkIdentifier(identifier)
  case .confirmSubscription(let identifier), .rejectSubscription(let identifier): checkIdentifier(identifier)
  case .disconnect(let reason?, _): expectEqual(DisconnectReason(reason.word), reason)
  case .disconnect(nil, _), .welcome, .ping, .unknown: break
  }
  return 0
}

extension JSONValue? {
  fileprivate var isObject: Bool {
    if case .object = self { true } else { false }
  }
}

/// Canonical text says the same as what it was made of, and is its own canonical form.
private func checkValue(_ text: String) {
  guard let value = try? JSONValue(parsing: text) else { return }
  let canonical = CanonicalJSON.text(value)
  expectEqual((try? JSONValue(parsing: canonical)).map(CanonicalJSON.text), canonical)
}

private func checkIdentifier(_ text: String) {
  let key = IdentifierKey(text)
  guard let canonical = key.canonical else { return }
  expectEqual(canonical.canonical, canonical)
}
