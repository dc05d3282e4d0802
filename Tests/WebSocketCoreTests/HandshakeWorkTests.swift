import Glibc
import Testing
import WebSocketCore

/// Work is measured as the processor time of this thread and compared with itself, so that a slow machine changes
/// nothing.
@Suite("Work of an opening handshake", .timeLimit(.minutes(5)))
struct HandshakeWorkTests {
  @Test func `R13: a long answer costs in single bytes about what it costs in one piece`() throws {
    let head = Array("HTTP/1.1 101 Switching Protocols\r\nX: ".utf8) + [UInt8](repeating: 0x61, count: 60_000)
    let whole = time(of: [head]) { runClient($0) }
    let pieces = time(of: head.map { [$0] }) { runClient($0) }
    // What looks at all bytes again at each piece costs 30,000 times as much; a sanitizer looks at each call.
    #expect(pieces < whole * 1_000 + 100_000_000, "whole: \(whole) ns, in pieces: \(pieces) ns")
  }

  @Test func `R13: a long request costs in single bytes about what it costs in one piece`() throws {
    let head = Array("GET / HTTP/1.1\r\nX: ".utf8) + [UInt8](repeating: 0x61, count: 60_000)
    let whole = time(of: [head]) { runServer($0) }
    let pieces = time(of: head.map { [$0] }) { runServer($0) }
    #expect(pieces < whole * 1_000 + 100_000_000, "whole: \(whole) ns, in pieces: \(pieces) ns")
  }

  @Test func `R13: a field of 64 times as many folded lines costs about 64 times as much`() throws {
    let (few, many) = (try time(ofFoldedLines: 4096), try time(ofFoldedLines: 262_144))
    // Work that grows with the square would be 4,096 times as much.
    #expect(many < few * 160, "4,096 lines: \(few) ns, 262,144 lines: \(many) ns")
  }

  /// The least of three times.
  private func time(ofFoldedLines count: Int) throws -> Int {
    var head = Array("HTTP/1.1 400 Bad Request\r\nX: a\r\n".utf8)
    for _ in 0..<count { head += Array(" b\r\n".utf8) }
    head += Array("\r\n".utf8)
    var least = Int.max
    for _ in 0..<3 {
      var parser = HTTPHeadParser(.response, maximumBytes: head.count)
      let before = threadTime()
      _ = try parser.take(head.span.bytes)
      _ = try parser.responseHead()
      least = min(least, threadTime() - before)
    }
    return least
  }

  private func runClient(_ pieces: [[UInt8]]) {
    var handshake = ClientHandshake(
      ClientHandshake.Request(target: "/", host: "h"),
      key: HandshakeKey(randomBytes: [UInt8](repeating: 0, count: HandshakeKey.byteCount)))
    for piece in pieces { _ = try? handshake.receive(piece.span.bytes) }
  }

  private func runServer(_ pieces: [[UInt8]]) {
    var handshake = ServerHandshake()
    for piece in pieces { _ = handshake.receive(piece.span.bytes) }
  }

  /// The thread's processor time, in nanoseconds.
  private func time(of pieces: [[UInt8]], _ body: ([[UInt8]]) -> Void) -> Int {
    let before = threadTime()
    body(pieces)
    return threadTime() - before
  }

  private func threadTime() -> Int {
    var time = timespec()
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
    return time.tv_sec * 1_000_000_000 + time.tv_nsec
  }
}
