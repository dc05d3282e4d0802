import Glibc

/// What the machine, not the peer, answers: a system call or the resolver failed.
package enum TransportError: Error, Sendable, Hashable {
  /// The name cannot be resolved; the text is the resolver's.
  case resolution(host: String, reason: String)
  /// No address could be connected to; the last one tried and why.
  case connect(address: String, errorNumber: Int32)
  /// Another system call failed.
  case system(call: String, errorNumber: Int32)
}

extension TransportError: CustomStringConvertible {
  package var description: String {
    switch self {
    case .resolution(let host, let reason): "cannot resolve \(host): \(reason)"
    case .connect(let address, let errorNumber): "cannot connect to \(address): \(Self.text(errorNumber))"
    case .system(let call, let errorNumber): "\(call) failed: \(Self.text(errorNumber))"
    }
  }

  /// The system's words for an error number.
  package static func text(_ errorNumber: Int32) -> String {
    var buffer = [CChar](repeating: 0, count: 128)
    // The XSI form writes into the buffer and ends it with NUL.
    _ = strerror_r(errorNumber, &buffer, buffer.count)
    let bytes = buffer.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }
    return bytes.isEmpty ? "error \(errorNumber)" : String(decoding: bytes, as: UTF8.self)
  }
}
