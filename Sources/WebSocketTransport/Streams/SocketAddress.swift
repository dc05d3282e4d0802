package import Glibc

/// An address to connect to or listen on: IPv4, IPv6 or a path.
package struct SocketAddress: Sendable, Hashable {
  /// The bytes of the system's structure for this family.
  private let bytes: [UInt8]

  private init(bytes: [UInt8]) { self.bytes = bytes }

  /// Copies a structure of the system's.
  package init(_ address: UnsafePointer<sockaddr>, length: socklen_t) {
    // Safe: the caller passes the address and the length that the system gave together.
    bytes = Array(UnsafeRawBufferPointer(start: address, count: Int(length)))
  }

  package var family: Int32 {
    withSystemAddress { address, _ in Int32(address.pointee.sa_family) }
  }

  /// Calls with the system's structure, valid during the call.
  package func withSystemAddress<Result>(_ body: (UnsafePointer<sockaddr>, socklen_t) -> Result) -> Result {
    var storage = sockaddr_storage()
    return withUnsafeMutableBytes(of: &storage) { target in
      target.copyBytes(from: bytes.prefix(target.count))
      // Safe: the storage is at least as large and as strictly aligned as every address structure.
      let address = UnsafeRawPointer(target.baseAddress!).assumingMemoryBound(to: sockaddr.self)
      return body(address, socklen_t(min(bytes.count, target.count)))
    }
  }

  /// The port; nil for an address without one.
  package var port: Int? {
    // sin_port and sin6_port both stand behind the family, in network order.
    family == AF_INET || family == AF_INET6 ? Int(bytes[2]) << 8 | Int(bytes[3]) : nil
  }

  /// The numeric host, without brackets.
  package var host: String {
    withSystemAddress { address, length in
      var buffer = [CChar](repeating: 0, count: Int(NI_MAXHOST))
      guard
        getnameinfo(address, length, &buffer, socklen_t(buffer.count), nil, 0, NI_NUMERICHOST) == 0
      else { return "?" }
      return String(decoding: buffer.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }
  }

  /// The addresses of a name or a literal, in the order that the system prefers (RFC 6724).
  ///
  /// May block.
  package static func resolve(
    host: String, port: Int, passive: Bool = false
  ) throws(TransportError) -> [SocketAddress] {
    var hints = addrinfo()
    hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
    hints.ai_protocol = Int32(IPPROTO_TCP)
    hints.ai_flags = AI_NUMERICSERV | (passive ? AI_PASSIVE : 0)
    return try resolve(host: host, port: port, hints: hints)
  }

  /// The address that `host` is written as; nil where it is a name.
  ///
  /// Never blocks.
  package static func literal(host: String, port: Int) -> SocketAddress? {
    // The usual form of IPv4; the system's resolver knows the others, and IPv6 with its zones.
    var address = sockaddr_in()
    if let port = UInt16(exactly: port), inet_pton(AF_INET, host, &address.sin_addr) == 1 {
      address.sin_family = sa_family_t(AF_INET)
      address.sin_port = port.bigEndian
      return SocketAddress(bytes: withUnsafeBytes(of: address) { Array($0) })
    }
    var hints = addrinfo()
    hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
    hints.ai_flags = AI_NUMERICSERV | AI_NUMERICHOST
    return try? resolve(host: host, port: port, hints: hints).first
  }

  private static func resolve(host: String, port: Int, hints: addrinfo) throws(TransportError) -> [SocketAddress] {
    var hints = hints
    var list: UnsafeMutablePointer<addrinfo>?
    let status = getaddrinfo(host, String(port), &hints, &list)
    guard status == 0 else {
      let reason = status == EAI_SYSTEM ? TransportError.text(errno) : String(cString: gai_strerror(status))
      throw .resolution(host: host, reason: reason)
    }
    defer { freeaddrinfo(list) }
    var addresses: [SocketAddress] = []
    var entry = list
    while let current = entry {
      if let address = current.pointee.ai_addr {
        addresses.append(SocketAddress(address, length: current.pointee.ai_addrlen))
      }
      entry = current.pointee.ai_next
    }
    return addresses
  }
}

extension SocketAddress: CustomStringConvertible {
  package var description: String {
    guard let port else { return host }
    return family == AF_INET6 ? "[\(host)]:\(port)" : "\(host):\(port)"
  }
}
