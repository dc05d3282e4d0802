import Testing
import WebSocketHandling
import WebSocketTesting

@Suite("Faults of a loopback server, by seed", .timeLimit(.minutes(5)))
struct FaultPlanTests {
  /// What a client met.
  private enum Met: Hashable, Sendable {
    case refused(status: Int)
    case silence
    case lost(after: Int)
    case served
  }

  private static let messages = 4
  private static let plan = FaultPlan(
    seed: 11, refusals: 0.25, stalls: 0.2, losses: 0.5, messagesBeforeLoss: 3, delay: .milliseconds(2))

  @Test("each client meets what the plan says for it")
  func fates() async throws {
    let server = try LoopbackServer(faults: Self.plan)
    let expected = (0..<20).map { Self.expected(Self.plan.fate(of: $0)) }
    #expect(Set(expected).isSuperset(of: [.refused(status: 503), .silence, .served]))
    #expect(expected.contains { if case .lost = $0 { true } else { false } })
    var met: [Met] = []
    for client in expected { met.append(try await meet(server, isStalled: client == .silence)) }
    #expect(met == expected)

    server.accept()
    #expect(try await meet(server, isStalled: false) == .served)
    server.inject(Self.plan)
    #expect(try await meet(server, isStalled: expected[0] == .silence) == expected[0])
  }

  @Test("in a room a client that is lost leaves, and the others stay")
  func room() async throws {
    let server = try LoopbackServer(
      .room, faults: FaultPlan(seed: 1, losses: 1, messagesBeforeLoss: 0))
    let lost = DefaultWebSocketHandler(logger: Silent())
    try await lost.connect(request: patient(server.url))
    server.accept()
    let staying = DefaultWebSocketHandler(logger: Silent())
    try await staying.connect(request: patient(server.url))
    try await lost.send(message: WebSocketMessage.text("never answered"))
    await #expect(throws: EngineError.WebSocketError.self) { try await lost.receive(WebSocketMessage.self) }
    try await staying.send(message: WebSocketMessage.text("hello"))
    #expect(try await staying.receive(WebSocketMessage.self) == .text("hello"))
  }

  @Test("a delay is a part of the longest one, and a plan without faults has none")
  func delays() {
    let fates = (0..<1_000).map { FaultPlan(seed: 3, delay: .milliseconds(100)).fate(of: $0) }
    let delays = fates.compactMap { fate -> Duration? in
      if case .served(let delay, lostAfter: nil) = fate { delay } else { nil }
    }
    #expect(delays.count == 1_000)
    #expect(delays.allSatisfy { $0 >= .zero && $0 < .milliseconds(100) })
    #expect(Set(delays).count > 900)
    #expect((0..<100).allSatisfy { FaultPlan(seed: 3).fate(of: $0) == .served(after: .zero, lostAfter: nil) })
  }

  @Test("less than no message is none")
  func negative() {
    var plan = FaultPlan(seed: 1, losses: 1)
    plan.messagesBeforeLoss = -1
    #expect(plan.fate(of: 0) == .served(after: .zero, lostAfter: 0))
  }

  private static func expected(_ fate: FaultPlan.Fate) -> Met {
    switch fate {
    case .refused(let status): .refused(status: status)
    case .stalled: .silence
    case .served(_, lostAfter: nil): .served
    case .served(_, lostAfter: .some(let count)): .lost(after: count)
    }
  }

  private func meet(_ server: LoopbackServer, isStalled: Bool) async throws -> Met {
    let handler = DefaultWebSocketHandler(logger: Silent())
    let before = server.handshakeCount
    async let connect: Void = handler.connect(request: patient(server.url))
    if isStalled {
      // Given up once the server has decided, however slow this machine is.
      while server.handshakeCount == before { await Task.yield() }
      try? await handler.disconnect()
    }
    do {
      try await connect
    } catch EngineError.WebSocketError.handshakeRefused(let refusal) {
      return .refused(status: refusal.status)
    } catch EngineError.WebSocketError.cancelled {
      return .silence
    }
    for number in 0..<Self.messages {
      do {
        try await handler.send(message: WebSocketMessage.text("\(number)"))
        guard try await handler.receive(WebSocketMessage.self) == .text("\(number)") else { break }
      } catch {
        return .lost(after: number)
      }
    }
    return .served
  }
}

private struct Silent: Logger {
  func log(file: String, function: String, line: Int, logLevel: LogLevel, _ message: @autoclosure () -> Any) {}
}
