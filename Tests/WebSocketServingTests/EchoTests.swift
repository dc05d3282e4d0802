import Foundation
import Testing
import WebSocketHandling
import WebSocketServing
import WebSocketTesting
import WebSocketTransport

/// A request whose time-outs a slow machine does not reach.
func patient(_ url: URL, subprotocols: [String] = []) -> NetworkRequest {
  NetworkRequest(
    url: url, subprotocols: subprotocols, connectTimeout: .seconds(240), closeTimeout: .seconds(240))
}

/// A handler connected to a server, with its calls as async functions.
private struct Client {
  let handler = DefaultWebSocketHandler(logger: DefaultLogger(minimumLevel: .error))

  func connect(_ request: NetworkRequest) async throws {
    try await withCheckedThrowingContinuation { continuation in
      handler.connect(request: request) { continuation.resume(with: $0) }
    }
  }

  func send(_ message: WebSocketMessage) async throws {
    try await withCheckedThrowingContinuation { continuation in
      handler.send(message: message) { continuation.resume(with: $0) }
    }
  }

  func receive() async throws -> WebSocketMessage {
    try await withCheckedThrowingContinuation { continuation in
      handler.receive { (result: Result<WebSocketMessage, EngineError.WebSocketError>) in
        continuation.resume(with: result)
      }
    }
  }

  func disconnect() async throws {
    try await withCheckedThrowingContinuation { continuation in
      handler.disconnect { continuation.resume(with: $0) }
    }
  }
}

@Suite("Server and client over loopback", .timeLimit(.minutes(5)))
struct EchoTests {
  /// The lengths at which the frame's header changes its form (RFC 6455 §5.2), and more than one read takes.
  static let lengths = [0, 125, 126, 65_535, 65_536, 1 << 20]

  @Test("binary comes back", arguments: lengths)
  func binaryComesBack(length: Int) async throws {
    let server = try WebSocketServer.echo()
    let client = Client()
    try await client.connect(patient(server.url))
    let message = WebSocketMessage.binary(Data((0..<length).map { UInt8(truncatingIfNeeded: $0) }))
    try await client.send(message)
    #expect(try await client.receive() == message)
    try await client.disconnect()
  }

  @Test("text comes back", arguments: lengths)
  func textComesBack(length: Int) async throws {
    let server = try WebSocketServer.echo()
    let client = Client()
    try await client.connect(patient(server.url))
    let message = WebSocketMessage.text(
      String(repeating: "é", count: length / 2) + String(repeating: "x", count: length % 2))
    try await client.send(message)
    #expect(try await client.receive() == message)
    try await client.disconnect()
  }

  @Test func `a close of the client's reaches the server clean`() async throws {
    let (records, continuation) = AsyncStream.makeStream(of: CloseRecord.self)
    let server = try WebSocketServer { connection in connection.onClose { continuation.yield($0) } }
    let client = Client()
    try await client.connect(patient(server.url))
    try await client.disconnect()
    var iterator = records.makeAsyncIterator()
    let record = await iterator.next()
    #expect(record?.code == .normalClosure)
    #expect(record?.isClean == true)
    #expect(record?.initiator == .peer)
  }

  @Test func `the first subprotocol of the client's that the server speaks is chosen`() async throws {
    let server = try WebSocketServer.echo(subprotocols: ["one", "two"])
    let client = Client()
    try await client.connect(patient(server.url, subprotocols: ["three", "two", "one"]))
    #expect(client.handler.handshake?.subprotocol == "two")
    try await client.disconnect()
  }

  @Test func `a room sends every message to every member`() async throws {
    let (joined, continuation) = AsyncStream.makeStream(of: Void.self)
    let server = try LoopbackServer(.room) { _ in continuation.yield() }
    let clients = [Client(), Client()]
    for client in clients { try await client.connect(patient(server.url)) }
    var iterator = joined.makeAsyncIterator()
    for _ in clients { await iterator.next() }
    try await clients[0].send(.text("hello"))
    for client in clients { #expect(try await client.receive() == .text("hello")) }
    for client in clients { try await client.disconnect() }
  }

  @Test func `a message that is too long for a room is for nobody, and all members stay`() async throws {
    let room = Room()
    var configuration = WebSocketServer.defaultConfiguration
    configuration.limits.maximumMessageBytes = 10
    let server = try WebSocketServer(configuration: configuration) { room.join($0) }
    let client = Client()
    try await client.connect(patient(server.url))
    room.send(.text("longer than ten"))
    room.send(.text("short"))
    #expect(try await client.receive() == .text("short"))
    try await client.disconnect()
  }

  @Test func `a client is among the connections, and set up, before it hears that it is connected`() async throws {
    let (met, feed) = AsyncStream.makeStream(of: String.self)
    let held = Lock<LoopbackServer?>(nil)
    let answered = DispatchSemaphore(value: 0)
    let server = try LoopbackServer { connection in
      // A time-out that must come: the answer waits for this call.
      let isAnswered = answered.wait(timeout: .now() + 0.1) == .success
      let count = held.withLock { $0?.connectionCount } ?? 0
      feed.yield("answered: \(isAnswered), connections: \(count)")
      feed.finish()
    }
    held.withLock { $0 = server }
    let client = Client()
    client.handler.connect(request: patient(server.url)) { _ in answered.signal() }
    var all: [String] = []
    for await step in met { all.append(step) }
    #expect(all == ["answered: false, connections: 1"])
    try await client.disconnect()
    held.withLock { $0 = nil }
  }

  @Test func `a client that is dropped as it comes was connected`() async throws {
    let server = try LoopbackServer { $0.drop() }
    let client = Client()
    try await client.connect(patient(server.url))
    await #expect {
      _ = try await client.receive()
    } throws: { error in
      guard case .closed(let record) = error as? EngineError.WebSocketError else { return false }
      return !record.isClean
    }
  }

  @Test func `a receiver that is installed behind the end gets what came before it, and is released`() async throws {
    let (steps, feed) = AsyncStream.makeStream(of: String.self)
    let held = Lock<ServerConnection?>(nil)
    let (ends, ended) = AsyncStream.makeStream(of: Void.self)
    let server = try WebSocketServer { connection in
      held.withLock { $0 = connection }
      connection.onClose { _ in ended.yield() }
    }
    let client = Client()
    try await client.connect(patient(server.url))
    try await client.send(.text("kept"))
    try await client.disconnect()
    var iterator = ends.makeAsyncIterator()
    await iterator.next()
    let connection = try #require(held.withLock { $0.take() })
    install(Witness(feed), on: connection)
    connection.onClose { _ in
      feed.yield("end")
      feed.finish()
    }
    var all: [String] = []
    for await step in steps { all.append(step) }
    #expect(all == ["kept", "released", "end"])
  }

  /// Apart, so that nothing holds the witness any longer once it returns.
  private func install(_ witness: consuming Witness, on connection: ServerConnection) {
    let witness = witness
    connection.onMessage { [connection] message in
      witness.note(message.text ?? "")
      withExtendedLifetime(connection) {}
    }
  }

  /// Tells when nobody holds it any more.
  private final class Witness: Sendable {
    private let feed: AsyncStream<String>.Continuation

    init(_ feed: AsyncStream<String>.Continuation) { self.feed = feed }

    deinit { feed.yield("released") }

    func note(_ text: String) { feed.yield(text) }
  }

  @Test func `a cut connection ends unclean`() async throws {
    let (joined, continuation) = AsyncStream.makeStream(of: Void.self)
    let server = try LoopbackServer { _ in continuation.yield() }
    let client = Client()
    try await client.connect(patient(server.url))
    var iterator = joined.makeAsyncIterator()
    await iterator.next()
    server.dropAll()
    await #expect {
      _ = try await client.receive()
    } throws: { error in
      guard case .closed(let record) = error as? EngineError.WebSocketError else { return false }
      return !record.isClean && record.code == .abnormalClosure
    }
  }

  @Test func `a refusal carries its status`() async throws {
    let server = try LoopbackServer()
    server.refuse(status: 503)
    let client = Client()
    await #expect {
      try await client.connect(patient(server.url))
    } throws: { error in
      guard case .handshakeRefused(let refusal) = error as? EngineError.WebSocketError else { return false }
      return refusal.status == 503
    }
    server.accept()
    try await client.connect(patient(server.url))
    try await client.disconnect()
  }

  @Test func `a stalled handshake meets the connect deadline`() async throws {
    let server = try LoopbackServer()
    server.stall()
    await #expect(throws: EngineError.WebSocketError.timedOut(.connect)) {
      try await Client().connect(NetworkRequest(url: server.url, connectTimeout: .milliseconds(100)))
    }
  }

  @Test func `all callbacks of a server's connection come where its configuration says`() async throws {
    let key = DispatchSpecificKey<Bool>()
    let queue = DispatchQueue(label: "test")
    queue.setSpecific(key: key, value: true)
    var configuration = WebSocketServer.defaultConfiguration
    configuration.callbacks = .queue(queue)
    let (calls, feed) = AsyncStream.makeStream(of: String.self)
    @Sendable func note(_ name: String) {
      feed.yield(DispatchQueue.getSpecific(key: key) == true ? name : "\(name) elsewhere")
    }
    let server = try WebSocketServer(configuration: configuration) { connection in
      connection.onClose { _ in
        note("closed")
        connection.onClose { _ in
          note("closed before")
          feed.finish()
        }
      }
      connection.close(code: CloseCode(1005)) { _ in note("no such code") }
      connection.close(reason: String(repeating: "x", count: 124)) { _ in note("too long") }
    }
    let client = Client()
    try await client.connect(patient(server.url))
    try await client.disconnect()
    var all: [String] = []
    for await call in calls { all.append(call) }
    #expect(all == ["no such code", "too long", "closed", "closed before"])
  }
}
