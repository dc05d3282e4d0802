import Foundation
import Glibc
import Testing
import WebSocketCore
import WebSocketTransport

@testable import WebSocketServing

/// A blocking TCP client that speaks raw bytes.
private struct RawClient: ~Copyable {
  private let descriptor: FileDescriptor

  init(port: Int) throws {
    let address = try #require(SocketAddress.literal(host: "127.0.0.1", port: port))
    let socket = try Socket.open(family: address.family)
    _ = try Socket.connect(socket, to: address)
    let flags = fcntl(socket.rawValue, F_GETFL)
    _ = fcntl(socket.rawValue, F_SETFL, flags & ~O_NONBLOCK)
    var ready = pollfd(fd: socket.rawValue, events: Int16(POLLOUT), revents: 0)
    _ = poll(&ready, 1, -1)
    descriptor = socket
  }

  func send(_ bytes: [UInt8]) {
    _ = bytes.withUnsafeBytes { Socket.write(descriptor, $0) }
  }

  /// What the server sends until it ends its stream, or until `isEnough`.
  func read(until isEnough: ([UInt8]) -> Bool = { _ in false }) -> [UInt8] {
    var received: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: 4096)
    while !isEnough(received) {
      guard case .bytes(let count) = buffer.withUnsafeMutableBytes({ Socket.read(descriptor, into: $0) }) else { break }
      received += buffer[..<count]
    }
    return received
  }
}

@Suite("The server's opening over TCP (RFC 6455 §4.2)", .timeLimit(.minutes(5)))
struct OpeningTests {
  private static let upgrade =
    "GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"

  private func answer(
    to request: String, pages: [Page] = []
  ) throws -> (status: String, head: Set<String>, body: String) {
    let server = try WebSocketServer(pages: pages, onConnection: WebSocketServer.echo)
    let client = try RawClient(port: server.port)
    client.send(Array(request.utf8))
    let text = String(decoding: client.read(), as: UTF8.self)
    let parts = text.split(separator: "\r\n\r\n", maxSplits: 1, omittingEmptySubsequences: false)
    let lines = parts[0].components(separatedBy: "\r\n")
    return (lines[0], Set(lines.dropFirst()), parts.count > 1 ? String(parts[1]) : "")
  }

  @Test func `a page is served at its path, to GET and HEAD, and nowhere else`() throws {
    let page = Page(path: "/hello", "<p>Grüße</p>")
    let fields: Set = ["Content-Type: text/html; charset=utf-8", "Content-Length: 14", "Connection: close"]
    for target in ["/hello", "/hello?query=1"] {
      let answer = try answer(to: "GET \(target) HTTP/1.1\r\nHost: x\r\n\r\n", pages: [page])
      #expect(answer.status == "HTTP/1.1 200 OK")
      #expect(answer.head.isSuperset(of: fields))
      #expect(answer.body == "<p>Grüße</p>")
    }
    let head = try answer(to: "HEAD /hello HTTP/1.1\r\nHost: x\r\n\r\n", pages: [page])
    #expect(head.head.isSuperset(of: fields))
    #expect(head.body == "")
    for request in ["GET / HTTP/1.1", "GET /hello/ HTTP/1.1", "POST /hello HTTP/1.1"] {
      let answer = try answer(to: "\(request)\r\nHost: x\r\n\r\n", pages: [page])
      #expect(answer.status == "HTTP/1.1 426 Upgrade Required")
    }
    let upgrade = Self.upgrade.replacing("GET / ", with: "GET /hello ") + "Sec-WebSocket-Version: 12\r\n\r\n"
    #expect(try answer(to: upgrade, pages: [page]).status == "HTTP/1.1 426 Upgrade Required")
  }

  @Test func `a request without an upgrade is told what is wanted (RFC 7231 §6.5.15)`() throws {
    let answer = try answer(to: "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    #expect(answer.status == "HTTP/1.1 426 Upgrade Required")
    #expect(
      answer.head.isSuperset(of: ["Upgrade: websocket", "Connection: Upgrade, close", "Sec-WebSocket-Version: 13"]))
    #expect(answer.body == "This is a WebSocket server. Connect with a WebSocket client.\n")
  }

  @Test func `HEAD is answered without a body`() throws {
    let answer = try answer(to: "HEAD / HTTP/1.1\r\nHost: x\r\n\r\n")
    #expect(answer.status == "HTTP/1.1 426 Upgrade Required")
    #expect(answer.body == "")
  }

  @Test func `another version is refused with ours (§4.4)`() throws {
    let answer = try answer(to: Self.upgrade + "Sec-WebSocket-Version: 8\r\n\r\n")
    #expect(answer.status.hasPrefix("HTTP/1.1 426 "))
    #expect(answer.head.contains("Sec-WebSocket-Version: 13"))
  }

  @Test(
    "what is no request ends in 400",
    arguments: ["GET /\r\n\r\n", "GET / HTTP/1.1\r\nUpgrade : websocket\r\n\r\n", "GET / HTTP/1.1\nHost: x\n\n"])
  func malformed(request: String) throws {
    #expect(try answer(to: request).status.hasPrefix("HTTP/1.1 400 "))
  }

  @Test("frames behind the request are the first messages, wherever the bytes are cut", arguments: [1, 3, 1000])
  func glued(piece: Int) throws {
    let server = try WebSocketServer.echo()
    let client = try RawClient(port: server.port)
    let key = MaskingKey(1, 2, 3, 4)
    var frames: [UInt8] = []
    for text in ["one", "two"] {
      frames += [0x81, 0x80 | UInt8(text.utf8.count), 1, 2, 3, 4]
      let octets = [key.octets.0, key.octets.1, key.octets.2, key.octets.3]
      frames += text.utf8.enumerated().map { $1 ^ octets[$0 % 4] }
    }
    let all = Array((Self.upgrade + "Sec-WebSocket-Version: 13\r\n\r\n").utf8) + frames
    for start in stride(from: 0, to: all.count, by: piece) {
      client.send(Array(all[start..<min(start + piece, all.count)]))
    }
    let echoes = Frame.text("one").encoded() + Frame.text("two").encoded()
    let received = client.read { $0.count > echoes.count && Array($0.suffix(echoes.count)) == echoes }
    #expect(String(decoding: received, as: UTF8.self).hasPrefix("HTTP/1.1 101 Switching Protocols\r\n"))
    #expect(Array(received.suffix(echoes.count)) == echoes)
  }

  @Test func `a handshake that is never answered ends when its client has gone`() async {
    let (steps, feed) = AsyncStream.makeStream(of: String.self)
    let loop = EpollEventLoop(name: "test")
    let client = LeavingTransport(on: loop, Self.upgrade + "Sec-WebSocket-Version: 13\r\n\r\n")
    let opening = ServerOpening(
      client, on: loop, deadline: .seconds(600), subprotocols: [], pages: [],
      admit: { _ in
        feed.yield("stalled")
        return .stall
      },
      completion: { opened in
        feed.yield(opened == nil ? "over" : "open")
        feed.finish()
      })
    opening.start()
    // Behind all that the loop has to do by itself.
    client.afterEnd { feed.finish() }
    var all: [String] = []
    for await step in steps { all.append(step) }
    #expect(all == ["stalled", "over"])
    withExtendedLifetime(opening) {}
  }

  @Test(
    "a flood instead of a request, and one behind it, is read in turns, with others on the loop between",
    arguments: ["", "GET / HTTP/1.1\r\nHost: x\r\n\r\n"])
  func flood(request: String) async {
    let (steps, feed) = AsyncStream.makeStream(of: String.self)
    let loop = EpollEventLoop(name: "test")
    let flood = FloodingTransport(on: loop, request, feed)
    let opening = ServerOpening(
      flood, on: loop, deadline: .seconds(600), subprotocols: [], pages: [], admit: { _ in .accept },
      completion: { _ in
        feed.yield("over")
        feed.finish()
      })
    opening.start()
    var all: [String] = []
    for await step in steps { all.append(step) }
    #expect(all == ["another's turn", "end", "over"])
    withExtendedLifetime(opening) {}
  }
}

/// A peer who sends its request, and ends its stream at the next turn of the loop.
private final class LeavingTransport: Transport {
  private struct State: Sendable {
    var request: [UInt8]
    var hasLeft = false
    var handler: (any TransportHandler)?
  }

  private let loop: any EventLoop
  private let state: Lock<State>

  init(on loop: any EventLoop, _ request: String) {
    self.loop = loop
    state = Lock(State(request: Array(request.utf8)))
  }

  func start(_ handler: any TransportHandler) {
    state.withLock { $0.handler = handler }
    tell()
    loop.execute { [self] in
      state.withLock { $0.hasLeft = true }
      tell()
    }
  }

  private func tell() {
    loop.execute { [self] in
      state.withLock { $0.handler }?.transportIsReady(self, readable: true, writable: true)
    }
  }

  /// Calls when the end has been told for a while.
  func afterEnd(_ body: @escaping @Sendable () -> Void) { again(8, body) }

  private func again(_ turns: Int, _ body: @escaping @Sendable () -> Void) {
    loop.execute { [self] in turns > 0 ? again(turns - 1, body) : body() }
  }

  func read(into buffer: UnsafeMutableRawBufferPointer) -> ReadOutcome {
    state.withLock { state in
      guard !state.request.isEmpty else { return state.hasLeft ? .end(.finished) : .wouldBlock }
      buffer.copyBytes(from: state.request)
      defer { state.request = [] }
      return .bytes(state.request.count)
    }
  }

  var peerHasFinished: Bool { state.withLock { $0.hasLeft } }
  var failure: TransportEnd? { nil }
  func write(_ bytes: UnsafeRawBufferPointer) -> WriteOutcome { .wrote(bytes.count) }
  func finishWriting() {}
  func close() { state.withLock { $0.handler = nil } }
}

/// A peer who sends a request that is refused, if any, and then empty lines without a pause: a thousand reads are full.
private final class FloodingTransport: Transport {
  private let loop: any EventLoop
  private let request: [UInt8]
  private let feed: AsyncStream<String>.Continuation
  private let reads = Lock(0)

  init(on loop: any EventLoop, _ request: String, _ feed: AsyncStream<String>.Continuation) {
    self.loop = loop
    self.request = Array(request.utf8)
    self.feed = feed
  }

  func start(_ handler: any TransportHandler) {
    loop.execute { handler.transportIsReady(self, readable: true, writable: true) }
  }

  func read(into buffer: UnsafeMutableRawBufferPointer) -> ReadOutcome {
    let number = reads.withLock { reads in
      reads += 1
      return reads
    }
    if number == 1 {
      loop.execute { [feed] in feed.yield("another's turn") }
      if !request.isEmpty {
        buffer.copyBytes(from: request)
        return .bytes(request.count)
      }
    }
    guard number < 1000 else {
      feed.yield("end")
      return .end(.finished)
    }
    let lines = Array("\r\n".utf8)
    for index in 0..<1024 { buffer[index] = lines[index % 2] }
    return .bytes(1024)
  }

  var peerHasFinished: Bool { false }
  var failure: TransportEnd? { nil }
  func write(_ bytes: UnsafeRawBufferPointer) -> WriteOutcome { .wrote(bytes.count) }
  func finishWriting() {}
  func close() {}
}
