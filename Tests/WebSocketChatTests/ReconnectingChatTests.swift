import Foundation
import Testing
import WebSocketChat
import WebSocketCore
import WebSocketHandling
import WebSocketTesting
import WebSocketTransport

/// A chat event and its time in milliseconds.
private struct Timed: Sendable, Hashable, CustomStringConvertible {
  var milliseconds: Int
  var event: ChatEvent

  init(_ milliseconds: Int, _ event: ChatEvent) {
    self.milliseconds = milliseconds
    self.event = event
  }

  var description: String { "\(milliseconds) ms: \(event)" }
}

/// A model on a real handler, both in one manual environment.
private final class ManualChat {
  let manual = ManualEnvironment()
  let model: ChatViewModel
  private let log: Log

  /// - Parameter hasJitter: whether delays are drawn; otherwise each is its whole bound.
  init(hasJitter: Bool = false) throws {
    let events = Log(manual)
    var environment = manual.environment
    if !hasJitter { environment.random = ManualTime.WholeBound() }
    log = events
    model = ChatViewModel(
      webSocketHandler: DefaultWebSocketHandler(logger: RecordingLogger(), environment: manual.environment),
      request: NetworkRequest(url: try #require(URL(string: "ws://chat.example/"))), sender: "Ann",
      logger: RecordingLogger(),
      environment: environment, onEvent: { events.note($0) })
  }

  private final class Log: Sendable {
    private let manual: ManualEnvironment
    private let state = Lock<(events: [Timed], answers: [String])>(([], []))

    init(_ manual: ManualEnvironment) { self.manual = manual }

    func note(_ event: ChatEvent) {
      let milliseconds = Int(manual.elapsed.nanoseconds / 1_000_000)
      state.withLock { $0.events.append(Timed(milliseconds, event)) }
    }

    func note(_ answer: String) { state.withLock { $0.answers.append(answer) } }

    func takeEvents() -> [Timed] {
      state.withLock { state in
        defer { state.events = [] }
        return state.events
      }
    }

    func takeAnswers() -> [String] {
      state.withLock { state in
        defer { state.answers = [] }
        return state.answers
      }
    }
  }

  /// The events since the last call.
  func events() -> [Timed] { log.takeEvents() }

  /// What became of messages since the last call.
  func results() -> [String] { log.takeAnswers() }

  func send(_ content: String) {
    model.sendMessage(content) { [log] result in
      switch result {
      case .success: log.note("\(content) sent")
      case .failure(let failure): log.note("\(content) failed: \(failure)")
      }
    }
  }

  /// Takes the connection that the model has dialled, and opens it.
  func accept() throws -> MemoryConnection {
    let server = try manual.nextConnection()
    try server.open()
    manual.settle()
    return server
  }
}

@Suite("A chat that reconnects, to the millisecond")
struct ReconnectingChatTests {
  private let refused = Failure.unreachable(
    address: "192.0.2.1:80", errorNumber: ECONNREFUSED, reason: "Connection refused")
  private let reset = Failure.closed(
    CloseRecord(code: .abnormalClosure, initiator: .peer, isClean: false, transportEnd: .reset))

  @Test func `after a loss it connects again on the schedule, and a message sent meanwhile is delivered once`() throws {
    let chat = try ManualChat()
    chat.model.connectToChat()
    let first = try chat.accept()
    chat.manual.advance(by: .seconds(10))
    #expect(chat.events() == [Timed(0, .stateChanged(.connecting)), Timed(0, .stateChanged(.connected))])

    chat.manual.script(address: "192.0.2.1", .refused())
    first.reset()
    chat.manual.settle()
    chat.send("meanwhile")
    chat.manual.advance(by: .seconds(90))
    var expected = [Timed(10_000, .problem(reset))]
    var time = 10_000
    for (index, delay) in [5, 2, 4, 8, 16, 30].enumerated() {
      expected.append(Timed(time, .stateChanged(.waiting(attempt: index + 1, delay: .seconds(delay)))))
      time += delay * 1_000
      expected += [Timed(time, .stateChanged(.connecting)), Timed(time, .problem(refused))]
    }
    expected.append(Timed(time, .stateChanged(.waiting(attempt: 7, delay: .seconds(30)))))
    #expect(chat.events() == expected)
    #expect(chat.results() == [])
    #expect(chat.manual.dialled.count == 7)

    chat.manual.script(address: "192.0.2.1", .accepted())
    chat.manual.advance(by: .seconds(5))
    let second = try chat.accept()
    #expect(chat.events() == [Timed(105_000, .stateChanged(.connecting)), Timed(105_000, .stateChanged(.connected))])
    let delivered = try JSONDecoder().decode(ChatMessage.self, from: second.readMessage().data)
    #expect(delivered == ChatMessage(sender: "Ann", content: "meanwhile"))
    #expect(second.unread == [])
    #expect(chat.results() == ["meanwhile sent"])

    second.send(.text(#"{"sender":"Bob","content":"welcome back"}"#))
    chat.manual.settle()
    #expect(
      chat.events() == [Timed(105_000, .message(ChatMessage(sender: "Bob", content: "welcome back")))])
  }

  @Test func `R100: a server that falls silent is noticed by pings, after 20 s and 20 s by default`() throws {
    let chat = try ManualChat()
    chat.model.connectToChat()
    let server = try chat.accept()
    chat.manual.advance(by: .seconds(20))
    server.send(frame: Frame(.pong, try server.readFrame().payload))
    chat.manual.advance(by: .seconds(20))
    #expect(try server.readFrame().opcode == .ping)
    #expect(chat.events() == [Timed(0, .stateChanged(.connecting)), Timed(0, .stateChanged(.connected))])
    chat.manual.advance(by: .seconds(20))
    let dead = Failure.closed(
      CloseRecord(code: .abnormalClosure, initiator: .local, isClean: false, transportEnd: .timedOut))
    #expect(
      chat.events() == [
        Timed(60_000, .problem(dead)), Timed(60_000, .stateChanged(.waiting(attempt: 1, delay: .seconds(5)))),
      ])
    #expect(server.unread == [])
    chat.manual.advance(by: .seconds(5))
    _ = try chat.accept()
    #expect(chat.events() == [Timed(65_000, .stateChanged(.connecting)), Timed(65_000, .stateChanged(.connected))])
  }

  @Test func `disconnect closes with 1000 and is final`() throws {
    let chat = try ManualChat()
    chat.model.connectToChat()
    let server = try chat.accept()
    chat.model.disconnect()
    #expect(try server.readClose() == .normalClosure)
    server.sendClose(.normalClosure)
    server.finish()
    chat.manual.advance(by: .seconds(3_600))
    #expect(
      chat.events() == [
        Timed(0, .stateChanged(.connecting)), Timed(0, .stateChanged(.connected)), Timed(0, .stateChanged(.stopped)),
      ])
    #expect(chat.manual.dialled.count == 1)
    #expect(!chat.manual.hasTimers)
  }

  @Test func `R107: disconnect while it waits to connect again ends the waiting for good`() throws {
    let chat = try ManualChat()
    chat.manual.script(address: "192.0.2.1", .refused())
    chat.model.connectToChat()
    chat.manual.settle()
    chat.send("never")
    chat.manual.advance(by: .seconds(3))
    chat.model.disconnect()
    chat.manual.advance(by: .seconds(3_600))
    #expect(
      chat.events() == [
        Timed(0, .stateChanged(.connecting)), Timed(0, .problem(refused)),
        Timed(0, .stateChanged(.waiting(attempt: 1, delay: .seconds(5)))),
        Timed(3_000, .messageDropped(ChatMessage(sender: "Ann", content: "never"), .cancelled)),
        Timed(3_000, .stateChanged(.stopped)),
      ])
    #expect(chat.results() == ["never failed: cancelled"])
    #expect(chat.manual.dialled.count == 1)
    #expect(!chat.manual.hasTimers)
  }

  @Test func `R107: disconnect while it connects gives the attempt up; connecting again works`() throws {
    let chat = try ManualChat()
    chat.manual.script(address: "192.0.2.1", .never)
    chat.model.connectToChat()
    chat.manual.advance(by: .seconds(1))
    chat.model.disconnect()
    chat.manual.advance(by: .seconds(60))
    #expect(
      chat.events() == [Timed(0, .stateChanged(.connecting)), Timed(1_000, .stateChanged(.stopped))])
    #expect(chat.manual.pendingDials == 0)
    chat.manual.script(address: "192.0.2.1", .accepted())
    chat.model.connectToChat()
    _ = try chat.accept()
    #expect(
      chat.events() == [Timed(61_000, .stateChanged(.connecting)), Timed(61_000, .stateChanged(.connected))])
  }

  @Test func `R106: a server that accepts and drops at once is asked at a growing distance`() throws {
    let chat = try ManualChat()
    chat.model.connectToChat()
    var waits: [Duration] = []
    for _ in 0..<8 {
      let server = try chat.accept()
      server.reset()
      chat.manual.settle()
      guard case .stateChanged(.waiting(_, let delay))? = chat.events().last?.event else {
        Issue.record("the chat does not wait")
        return
      }
      waits.append(delay)
      chat.manual.advance(by: delay)
    }
    #expect(waits == [5, 2, 4, 8, 16, 30, 30, 30].map { .seconds($0) })
  }

  @Test func `delays are drawn below their bounds, and kept to exactly`() throws {
    let chat = try ManualChat(hasJitter: true)
    chat.manual.script(address: "192.0.2.1", .refused())
    chat.model.connectToChat()
    chat.manual.settle()
    var waits: [Duration] = []
    for _ in 0..<20 {
      guard case .stateChanged(.waiting(let attempt, let delay))? = chat.events().last?.event else {
        Issue.record("the chat does not wait")
        return
      }
      #expect(delay >= .zero && delay <= Backoff().bound(attempt: attempt))
      waits.append(delay)
      let count = chat.manual.dialled.count
      chat.manual.advance(by: delay - .nanoseconds(1))
      #expect(chat.manual.dialled.count == count)
      chat.manual.advance(by: .nanoseconds(1))
      #expect(chat.manual.dialled.count == count + 1)
    }
    #expect(Set(waits).count == waits.count)
  }

  @Test func `a released chat closes its connection and leaves nothing behind`() throws {
    var chat: ManualChat? = try ManualChat()
    let manual = try #require(chat?.manual)
    chat?.model.connectToChat()
    let server = try #require(try chat?.accept())
    chat = nil
    #expect(try server.readClose() == .goingAway)
    manual.advance(by: .seconds(5))
    #expect(server.clientHasClosed)
    #expect(!manual.hasTimers)
  }
}
