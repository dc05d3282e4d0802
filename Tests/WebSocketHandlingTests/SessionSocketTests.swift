import Testing
import WebSocketHandling
import WebSocketTesting

@Suite("The reconnecting session on sockets", .timeLimit(.minutes(5)))
struct SessionSocketTests {
  @Test func `a receive that waits when the server drops everybody is served after each of ten losses`() async throws {
    let server = try LoopbackServer()
    defer { server.shutDown() }
    let (states, state) = AsyncStream.makeStream(of: SessionState.self)
    let session = ReconnectingSession(
      DefaultWebSocketHandler(logger: SilentLogger()), policy: .atOnce(), logger: SilentLogger()
    ) { event in
      guard case .stateChanged(let new) = event else { return }
      state.yield(new)
      if case .stopped = new { state.finish() }
    }
    var changes = states.makeAsyncIterator()
    try await session.connect(
      request: NetworkRequest(url: server.url, connectTimeout: .seconds(240), closeTimeout: .seconds(240)))
    #expect(await changes.next() == .connecting)
    #expect(await changes.next() == .connected)
    try await echo("first", session)
    for number in 1...10 {
      async let message = session.receive(WebSocketMessage.self)
      server.dropAll()
      while let new = await changes.next(), new != .connected {}
      try await session.send(message: WebSocketMessage.text("\(number)"))
      #expect(try await message == .text("\(number)"))
    }
    #expect(server.handshakeCount >= 11)
    try await session.disconnect()
    #expect(await changes.next() == .stopped(.requested))
    #expect(await changes.next() == nil)
  }

  /// Sends a message and waits for it: the server knows the connection then.
  private func echo(_ text: String, _ session: ReconnectingSession) async throws {
    try await session.send(message: WebSocketMessage.text(text))
    #expect(try await session.receive(WebSocketMessage.self) == .text(text))
  }
}
