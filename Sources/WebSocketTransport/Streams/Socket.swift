import CSystem
import Glibc
package import WebSocketCore

/// The socket calls, each retried when a signal interrupts it.
///
/// Every descriptor is non-blocking and closed on exec.
package enum Socket {
  package static func open(family: Int32) throws(TransportError) -> FileDescriptor {
    let descriptor = csystem_stream_socket(family)
    guard descriptor >= 0 else { throw .system(call: "socket", errorNumber: errno) }
    return FileDescriptor(owning: descriptor)
  }

  /// Starts to connect: true where it is done, false where readiness will tell.
  package static func connect(
    _ descriptor: borrowing FileDescriptor, to address: SocketAddress
  ) throws(TransportError) -> Bool {
    let raw = descriptor.rawValue
    let status = address.withSystemAddress { Glibc.connect(raw, $0, $1) }
    guard status != 0 else { return true }
    // An interrupted connect goes on in the background, like one in progress (POSIX).
    guard errno == EINPROGRESS || errno == EINTR else {
      throw .connect(address: address.description, errorNumber: errno)
    }
    return false
  }

  /// The error that an asynchronous operation left behind; 0 where it went well.
  package static func pendingError(_ descriptor: borrowing FileDescriptor) -> Int32 {
    var value: Int32 = 0
    var length = socklen_t(MemoryLayout<Int32>.size)
    guard getsockopt(descriptor.rawValue, SOL_SOCKET, SO_ERROR, &value, &length) == 0 else { return errno }
    return value
  }

  /// Sends small writes at once: frames are batched by us, and waiting for the peer's acknowledgement would add 40 ms.
  package static func disableDelay(_ descriptor: borrowing FileDescriptor) {
    var on: Int32 = 1
    _ = setsockopt(
      descriptor.rawValue, Int32(IPPROTO_TCP), TCP_NODELAY, &on, socklen_t(MemoryLayout<Int32>.size))
  }

  package static func read(
    _ descriptor: borrowing FileDescriptor, into buffer: UnsafeMutableRawBufferPointer
  ) -> ReadOutcome {
    while true {
      let count = recv(descriptor.rawValue, buffer.baseAddress, buffer.count, 0)
      if count > 0 { return .bytes(count) }
      if count == 0 { return .end(.finished) }
      switch errno {
      case EINTR: continue
      case EAGAIN: return .wouldBlock
      case let errorNumber: return .end(end(errorNumber))
      }
    }
  }

  /// Writes without SIGPIPE: a peer that is gone is an error, never a signal.
  package static func write(
    _ descriptor: borrowing FileDescriptor, _ bytes: UnsafeRawBufferPointer
  ) -> WriteOutcome {
    while true {
      let count = send(descriptor.rawValue, bytes.baseAddress, bytes.count, Int32(MSG_NOSIGNAL))
      if count >= 0 { return .wrote(count) }
      switch errno {
      case EINTR: continue
      case EAGAIN: return .wouldBlock
      case let errorNumber: return .failed(end(errorNumber))
      }
    }
  }

  /// How the connection broke; nil while it has not.
  package static func failure(_ descriptor: borrowing FileDescriptor) -> TransportEnd? {
    var state = pollfd(fd: descriptor.rawValue, events: 0, revents: 0)
    guard poll(&state, 1, 0) > 0 else { return nil }
    let broken = Int32(state.revents) & (POLLERR | POLLHUP | POLLNVAL)
    guard broken != 0 else { return nil }
    let errorNumber = pendingError(descriptor)
    return errorNumber == 0 ? .finished : end(errorNumber)
  }

  package static func shutdown(_ descriptor: borrowing FileDescriptor, both: Bool) {
    _ = Glibc.shutdown(descriptor.rawValue, Int32(both ? SHUT_RDWR : SHUT_WR))
  }

  /// Binds and listens; the system picks a port where it is 0.
  package static func listen(on address: SocketAddress, backlog: Int32) throws(TransportError) -> FileDescriptor {
    let descriptor = try open(family: address.family)
    var on: Int32 = 1
    _ = setsockopt(descriptor.rawValue, SOL_SOCKET, SO_REUSEADDR, &on, socklen_t(MemoryLayout<Int32>.size))
    let raw = descriptor.rawValue
    guard address.withSystemAddress({ bind(raw, $0, $1) }) == 0 else {
      throw .system(call: "bind", errorNumber: errno)
    }
    guard Glibc.listen(raw, backlog) == 0 else { throw .system(call: "listen", errorNumber: errno) }
    return descriptor
  }

  /// The next connection, or nil where none waits.
  package static func accept(_ listener: borrowing FileDescriptor) throws(TransportError) -> FileDescriptor? {
    while true {
      let descriptor = csystem_accept(listener.rawValue)
      if descriptor >= 0 { return FileDescriptor(owning: descriptor) }
      switch errno {
      case EINTR, ECONNABORTED: continue
      case EAGAIN: return nil
      case let errorNumber: throw .system(call: "accept", errorNumber: errorNumber)
      }
    }
  }

  package static func localAddress(_ descriptor: borrowing FileDescriptor) throws(TransportError) -> SocketAddress {
    var storage = sockaddr_storage()
    var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
    let raw = descriptor.rawValue
    let address: SocketAddress? = withUnsafeMutablePointer(to: &storage) { pointer in
      // Safe: the storage is large enough for every address structure.
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
        getsockname(raw, address, &length) == 0 ? SocketAddress(address, length: length) : nil
      }
    }
    guard let address else { throw .system(call: "getsockname", errorNumber: errno) }
    return address
  }

  /// Makes closing reset the connection (TCP RST) instead of ending it in order.
  package static func resetOnClose(_ descriptor: borrowing FileDescriptor) {
    _ = csystem_reset_on_close(descriptor.rawValue)
  }

  private static func end(_ errorNumber: Int32) -> TransportEnd {
    errorNumber == ECONNRESET || errorNumber == EPIPE ? .reset : .failed(errorNumber: errorNumber)
  }
}
