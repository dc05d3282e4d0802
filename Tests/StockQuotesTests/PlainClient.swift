import Glibc
import StockQuotes
import Testing
import WebSocketTransport

/// A client on a blocking socket of its own; TCP ends with it, without a closing handshake.
final class PlainClient {
  let socket: FileDescriptor
  private var received = ""

  init(_ server: QuoteServer) throws {
    let address = try #require(SocketAddress.literal(host: "127.0.0.1", port: server.port))
    let socket = try Socket.open(family: address.family)
    _ = try Socket.connect(socket, to: address)
    let flags = fcntl(socket.rawValue, F_GETFL)
    _ = fcntl(socket.rawValue, F_SETFL, flags & ~O_NONBLOCK)
    var ready = pollfd(fd: socket.rawValue, events: Int16(POLLOUT), revents: 0)
    _ = poll(&ready, 1, -1)
    let upgrade = """
      GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
      Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n
      """
    _ = Array(upgrade.utf8).withUnsafeBytes { Socket.write(socket, $0) }
    self.socket = socket
  }

  /// Has TCP reset at its end, which is in order otherwise.
  func resetOnClose() { Socket.resetOnClose(socket) }

  /// Sends a text of less than 64 KiB; false where TCP has ended.
  @discardableResult
  func send(_ text: String) -> Bool { send(Array(text.utf8), as: 0x81) }

  /// Sends a binary message of less than 64 KiB; false where TCP has ended.
  @discardableResult
  func send(_ bytes: [UInt8]) -> Bool { send(bytes, as: 0x82) }

  private func send(_ payload: [UInt8], as opcode: UInt8) -> Bool {
    let length: [UInt8] =
      payload.count < 126
      ? [0x80 | UInt8(payload.count)] : [0x80 | 126, UInt8(payload.count >> 8), UInt8(payload.count & 0xFF)]
    // A masking key of zeros changes nothing.
    let frame: [UInt8] = [opcode] + length + [0, 0, 0, 0] + payload
    return frame.withUnsafeBytes {
      if case .wrote(frame.count) = Socket.write(socket, $0) { true } else { false }
    }
  }

  /// Waits for what contains a text; false where TCP ends before.
  ///
  /// - Parameter forgetting: whether what was received until then counts no more.
  func hears(_ text: String, forgetting: Bool = false) -> Bool {
    defer { if forgetting { received = "" } }
    var buffer = [UInt8](repeating: 0, count: 4096)
    while !received.contains(text) {
      guard case .bytes(let count) = buffer.withUnsafeMutableBytes({ Socket.read(socket, into: $0) }) else {
        return false
      }
      received += String(decoding: buffer[..<count], as: UTF8.self)
    }
    return true
  }

  /// Waits for its first price.
  ///
  /// - Returns: its id.
  func idOnceItHears() throws -> Int {
    _ = hears("trading.quote")
    let digits = received.split(separator: "\"connectionId\":").dropFirst().first?.prefix(while: \.isNumber)
    return try #require(digits.flatMap { Int($0) })
  }
}
