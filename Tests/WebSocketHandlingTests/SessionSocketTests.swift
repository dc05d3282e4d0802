import Testing
import WebSocketHandling
import WebSocketTesting
import WebSocketTransport
import TestSupport

@Suite("The reconnecting session on sockets", .timeLimit(.minutes(5)))
struct SessionSocketTests {
  /// A session over sockets, and its states.
  private struct Subject {
    let session: ReconnectingSession
    private var changes: AsyncStream<SessionState>.Iterator

    init() {
      let (states, state) = AsyncStream.makeStream(of: SessionState.self)
      session = ReconnectingSession(
        DefaultWebSocketHandler(logger: SilentLogger()), policy: .atOnce(),
        outbox: OutboxLimits(age: .seconds(240)), logger: SilentLogger()
      ) { event in
        guard case .stateChanged(let new) = event else { return }
        state.yield(new)
        if case .stopped = new { state.finish() }
      }
      changes = states.makeAsyncIterator()
    }

    static func request(_ server: LoopbackServer) -> NetworkRequest {
      NetworkRequest(url: server.url, connectTimeout: .seconds(240), closeTimeout: .seconds(240))
    }

    mutating func next() async -> SessionState? { await changes.next() }

    /// Waits until there is a connection, or never will be.
    mutating func connected() async { while let new = await changes.next(), new != .connected {} }
  }

  @Test func `a receive that waits when the server drops everybody is served after each of ten losses`() async throws {
    let server = try LoopbackServer()
    defer { server.shutDown() }
    var subject = Subject()
    let session = subject.session
    try await session.connect(request: Subject.request(server))
    #expect(await subject.next() == .connecting)
    #expect(await subject.next() == .connected)
    try await echo("first", session)
    for number in 1...10 {
      async let message = session.receive(WebSocketMessage.self)
      server.dropAll()
      await subject.connected()
      try await session.send(message: WebSocketMessage.text("\(number)"))
      #expect(try await message == .text("\(number)"))
    }
    #expect(server.handshakeCount >= 11)
    try await session.disconnect()
    #expect(await subject.next() == .stopped(.requested))
    #expect(await subject.next() == nil)
  }

  /// A service as many are written, without a thought of reconnecting: it connects, then loops over receives.
  private final class ChatViewModel: Sendable {
    struct Line: Codable, Sendable {
      var sender: String
      var content: String
    }

    private let webSocketHandler: any WebSocketHandler
    private let heard: AsyncStream<String>.Continuation

    init(webSocketHandler: any WebSocketHandler, heard: AsyncStream<String>.Continuation) {
      self.webSocketHandler = webSocketHandler
      self.heard = heard
    }

    func connectToChat(_ request: NetworkRequest) {
      webSocketHandler.connect(request: request) { [self] result in
        if case .success = result { receiveMessage() } else { heard.finish() }
      }
    }

    func sendMessage(_ content: String) {
      webSocketHandler.send(message: Line(sender: "User", content: content)) { _ in }
    }

    private func receiveMessage() {
      webSocketHandler.receive { [self] (result: Result<Line, EngineError.WebSocketError>) in
        guard case .success(let line) = result else { return heard.finish() }
        heard.yield(line.content)
        receiveMessage()
      }
    }

    func disconnect() { webSocketHandler.disconnect { _ in } }
  }

  @Test func `a service that knows nothing of reconnecting works through ten losses, given the session`() async throws {
    let server = try LoopbackServer()
    defer { server.shutDown() }
    var subject = Subject()
    let (lines, heard) = AsyncStream.makeStream(of: String.self)
    var received = lines.makeAsyncIterator()
    let chat = ChatViewModel(webSocketHandler: subject.session, heard: heard)
    chat.connectToChat(Subject.request(server))
    chat.sendMessage("hello")
    #expect(await received.next() == "hello")
    await subject.connected()
    for number in 1...10 {
      server.dropAll()
      await subject.connected()
      chat.sendMessage("\(number)")
      #expect(await received.next() == "\(number)")
    }
    chat.disconnect()
    #expect(await received.next() == nil)
  }

  @Test func `acknowledged messages arrive, all and in order, however often the server is lost`() async throws {
    let server = try LoopbackServer()
    defer { server.shutDown() }
    let session = Subject().session
    let (outcomes, outcome) = AsyncStream.makeStream(of: DeliveryOutcome.self)
    let seen = SharedList<Int>()
    try await session.connect(request: Subject.request(server))
    // The server's echo is the acknowledgement.
    let reading = Task {
      for try await message in session.messages(of: WebSocketMessage.self) {
        guard case .text(let text) = message, let number = Int(text) else { continue }
        seen.append(number)
        session.acknowledge(text)
      }
    }
    var all = outcomes.makeAsyncIterator()
    for batch in 0..<10 {
      for number in batch * 20 + 1...batch * 20 + 20 {
        session.send(.text("\(number)"), delivery: .again, acknowledgementKey: "\(number)") { outcome.yield($0) }
      }
      // Half of the batch has come back: the server knows the connection. The other half is under way.
      for _ in 0..<(batch == 0 ? 10 : 20) { #expect(await all.next() == .acknowledged) }
      server.dropAll()
    }
    for _ in 0..<10 { #expect(await all.next() == .acknowledged) }
    // What comes again comes in order: each number is the next new one, or one that came before.
    let numbers = seen.take()
    let firsts = numbers.reduce(into: [Int]()) { if !$0.contains($1) { $0.append($1) } }
    #expect(firsts == Array(1...200))
    #expect(server.handshakeCount >= 10)
    // The last answers may be those of a connection that is lost by now, and has no clean end.
    await withCheckedContinuation { stopped in session.stop { _ in stopped.resume() } }
    _ = await reading.result
  }

  /// Sends a message and waits for it: the server knows the connection then.
  private func echo(_ text: String, _ session: ReconnectingSession) async throws {
    try await session.send(message: WebSocketMessage.text(text))
    #expect(try await session.receive(WebSocketMessage.self) == .text(text))
  }
}
