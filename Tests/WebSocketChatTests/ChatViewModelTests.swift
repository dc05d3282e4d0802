import Foundation
import Testing
import WebSocketChat
import WebSocketHandling
import WebSocketTesting

private let lost = Failure.timedOut(.pong)

@Suite("The chat view model")
struct ChatViewModelTests {
  @Test func `a message can be sent on the line after connectToChat`() throws {
    let chat = try Chat()
    chat.model.connectToChat()
    chat.send("hello")
    #expect(try chat.results.next() == "hello sent")
    #expect(try chat.mock.decodedSent(as: ChatMessage.self) == [ChatMessage(sender: "Ann", content: "hello")])
    try chat.expect(.stateChanged(.connecting), .stateChanged(.connected))
    chat.finish()
  }

  @Test func `what others write arrives in order`() throws {
    let chat = try Chat()
    try chat.connect()
    for number in 1...50 { try chat.mock.inject(ChatMessage(sender: "Bob", content: "\(number)")) }
    for number in 1...50 { try chat.expect(.message(ChatMessage(sender: "Bob", content: "\(number)"))) }
    chat.finish()
  }

  @Test func `a message that cannot be decoded is a problem, and the chat goes on`() throws {
    let chat = try Chat()
    try chat.connect()
    chat.mock.inject(.text("{"))
    let event = try chat.events.next()
    guard case .problem(.undecodable(.text("{"), _, _)) = event else {
      Issue.record("\(event)")
      return
    }
    try chat.mock.inject(ChatMessage(sender: "Bob", content: "still here"))
    try chat.expect(.message(ChatMessage(sender: "Bob", content: "still here")))
    chat.finish()
  }

  @Test func `messages wait for the connection in order, up to the limit`() throws {
    let chat = try Chat(outboxLimit: 2)
    for content in ["a", "b", "c"] { chat.send(content) }
    let full = Failure.limitExceeded(.sendQueue, size: 3, limit: 2)
    #expect(try chat.results.next() == "c failed: \(full)")
    try chat.expect(.messageDropped(ChatMessage(sender: "Ann", content: "c"), full))
    try chat.connect()
    #expect(try chat.results.next(2) == ["a sent", "b sent"])
    #expect(try chat.sentContents == ["a", "b"])
    chat.finish()
  }

  @Test func `after a loss it connects again, and messages wait meanwhile`() throws {
    let chat = try Chat()
    try chat.connect()
    chat.mock.fail(with: lost)
    try chat.expect(.problem(lost), .stateChanged(.waiting(attempt: 1, delay: .seconds(5))))
    #expect(try chat.time.delays.next() == .seconds(5))
    chat.send("later")
    #expect(try chat.sentContents == [])
    chat.time.fire()
    try chat.expect(.stateChanged(.connecting), .stateChanged(.connected))
    #expect(try chat.results.next() == "later sent")
    try chat.mock.inject(ChatMessage(sender: "Bob", content: "welcome back"))
    try chat.expect(.message(ChatMessage(sender: "Bob", content: "welcome back")))
    chat.finish()
  }

  @Test func `failed attempts wait longer and longer until one succeeds`() throws {
    let chat = try Chat()
    let refused = Failure.connectionFailed("refused")
    chat.mock.script(.connect, .failure(refused), .failure(refused), .failure(refused))
    chat.model.connectToChat()
    for (attempt, bound) in [(1, 5), (2, 2), (3, 4)] {
      let waiting = ChatState.waiting(attempt: attempt, delay: .seconds(bound))
      try chat.expect(.stateChanged(.connecting), .problem(refused), .stateChanged(waiting))
      #expect(try chat.time.delays.next() == .seconds(bound))
      chat.time.fire()
    }
    try chat.expect(.stateChanged(.connecting), .stateChanged(.connected))
    chat.finish()
  }

  @Test("uptime decides whether the schedule begins anew", arguments: [(4, 2, 2), (5, 1, 5)])
  func uptime(seconds: Int, attempt: Int, delay: Int) throws {
    let chat = try Chat()
    try chat.connect()
    chat.mock.fail(with: lost)
    try chat.expect(.problem(lost), .stateChanged(.waiting(attempt: 1, delay: .seconds(5))))
    _ = try chat.time.delays.next()
    chat.time.fire()
    try chat.expect(.stateChanged(.connecting), .stateChanged(.connected))
    chat.time.advance(.seconds(seconds))
    chat.mock.fail(with: lost)
    try chat.expect(.problem(lost), .stateChanged(.waiting(attempt: attempt, delay: .seconds(delay))))
    chat.finish()
  }

  @Test func `R109: a clock that jumps while the chat waits makes one attempt due, at once`() throws {
    let chat = try Chat()
    try chat.connect()
    chat.mock.fail(with: lost)
    try chat.expect(.problem(lost), .stateChanged(.waiting(attempt: 1, delay: .seconds(5))))
    _ = try chat.time.delays.next()
    chat.time.advance(.seconds(3_600))
    chat.time.fire()
    try chat.expect(.stateChanged(.connecting), .stateChanged(.connected))
    chat.time.fire()
    chat.send("x")
    #expect(try chat.results.next() == "x sent")
    #expect(chat.mock.requests.count == 2)
    chat.finish()
  }

  @Test func `R102: connectToChat inside the last event works, twenty times`() throws {
    let model = Lock<ChatViewModel?>(nil)
    let states = Recorder<ChatState>()
    let mock = MockWebSocketHandler()
    let url = try #require(URL(string: "ws://chat.example/"))
    model.withLock {
      $0 = ChatViewModel(
        webSocketHandler: mock, request: NetworkRequest(url: url), environment: ManualTime().environment
      ) { event in
        guard case .stateChanged(let state) = event else { return }
        if state == .stopped { model.withLock { $0 }?.connectToChat() }
        states.record(state)
      }
    }
    model.withLock { $0 }?.connectToChat()
    for _ in 1...20 {
      #expect(try states.next(2) == [.connecting, .connected])
      model.withLock { $0 }?.disconnect()
      #expect(try states.next() == .stopped)
    }
    #expect(try states.next(2) == [.connecting, .connected])
    #expect(mock.requests.count == 21)
    #expect(mock.misuses == [])
    _ = model.withLock { $0.take() }
  }

  @Test func `connectToChat ends a wait and forgets its timer`() throws {
    let chat = try Chat()
    try chat.connect()
    chat.mock.fail(with: lost)
    try chat.expect(.problem(lost), .stateChanged(.waiting(attempt: 1, delay: .seconds(5))))
    _ = try chat.time.delays.next()
    try chat.connect()
    chat.time.fire()
    chat.send("x")
    #expect(try chat.results.next() == "x sent")
    #expect(chat.mock.requests.count == 2)
    chat.finish()
  }

  @Test func `a request that can never succeed stops the chat`() throws {
    let chat = try Chat()
    let invalid = Failure.invalidRequest(.host)
    chat.mock.script(.connect, .failure(invalid))
    chat.send("x")
    chat.model.connectToChat()
    #expect(try chat.results.next() == "x failed: \(invalid)")
    try chat.expect(
      .stateChanged(.connecting), .problem(invalid),
      .messageDropped(ChatMessage(sender: "Ann", content: "x"), invalid), .stateChanged(.stopped))
    #expect(chat.model.currentState == .stopped)
    #expect(!chat.time.hasTimers)
    chat.finish()
  }

  @Test func `a message refused before it was written goes out once after the reconnect, in its place`() throws {
    let chat = try Chat()
    try chat.connect()
    chat.mock.script(.send, .failure(.closing), .failure(.closing))
    chat.mock.hold(.send)
    for content in ["a", "b"] { chat.send(content) }
    _ = try chat.sends.next(2)
    chat.mock.release(.send)
    chat.mock.fail(with: lost)
    try chat.expect(.problem(lost), .stateChanged(.waiting(attempt: 1, delay: .seconds(5))))
    chat.send("c")
    _ = try chat.time.delays.next()
    chat.time.fire()
    #expect(Set(try chat.results.next(3)) == ["a sent", "b sent", "c sent"])
    try chat.expect(.stateChanged(.connecting), .stateChanged(.connected))
    #expect(try chat.sentContents == ["a", "b", "c"])
    chat.finish()
  }

  @Test func `a message that may have been written is not sent again`() throws {
    let chat = try Chat()
    try chat.connect()
    chat.mock.script(.send, .failure(lost))
    chat.send("a")
    #expect(try chat.results.next() == "a failed: \(lost)")
    try chat.expect(.messageInDoubt(ChatMessage(sender: "Ann", content: "a"), lost))
    chat.finish()
  }

  @Test func `disconnect is final until connectToChat`() throws {
    let chat = try Chat()
    try chat.connect()
    let closed = Recorder<Bool>()
    chat.model.disconnect { result in closed.record((try? result.get()) != nil) }
    #expect(try closed.next())
    try chat.expect(.stateChanged(.stopped))
    #expect(chat.mock.closes == [.normalClosure])
    #expect(!chat.time.hasTimers)
    chat.model.disconnect { result in closed.record((try? result.get()) != nil) }
    #expect(try closed.next())
    #expect(chat.mock.closes.count == 1)
    try chat.connect()
    chat.send("again")
    #expect(try chat.results.next() == "again sent")
    chat.finish()
  }

  @Test func `a message to a stopped chat fails at once`() throws {
    let chat = try Chat()
    try chat.connect()
    chat.model.disconnect()
    chat.send("x")
    #expect(try chat.results.next() == "x failed: \(Failure.cancelled)")
    try chat.expect(.stateChanged(.stopped), .messageDropped(ChatMessage(sender: "Ann", content: "x"), .cancelled))
    chat.finish()
  }

  @Test func `disconnect while waiting forgets the timer and fails what waits`() throws {
    let chat = try Chat()
    let closed = Failure.closed(.init(code: .goingAway, initiator: .peer, isClean: true, transportEnd: .finished))
    try chat.connect()
    chat.mock.fail(with: closed)
    try chat.expect(.problem(closed), .stateChanged(.waiting(attempt: 1, delay: .seconds(5))))
    _ = try chat.time.delays.next()
    chat.send("a")
    let done = Recorder<Void>()
    chat.model.disconnect { _ in done.record(()) }
    try done.next()
    try chat.expect(
      .messageDropped(ChatMessage(sender: "Ann", content: "a"), .cancelled), .stateChanged(.stopped))
    #expect(try chat.results.next() == "a failed: \(Failure.cancelled)")
    #expect(!chat.time.hasTimers)
    #expect(chat.mock.closes == [])
    chat.finish()
  }

  @Test func `a connect that succeeds after a disconnect is ignored`() throws {
    let chat = try Chat()
    chat.mock.hold(.connect)
    chat.model.connectToChat()
    try chat.expect(.stateChanged(.connecting))
    let done = Recorder<Void>()
    chat.model.disconnect { _ in done.record(()) }
    try done.next()
    try chat.expect(.stateChanged(.stopped))
    chat.mock.release(.connect)
    try chat.connect()
    #expect(chat.mock.requests.count == 2)
    chat.finish()
  }

  @Test func `connecting again waits for the close to end`() throws {
    let chat = try Chat()
    try chat.connect()
    chat.mock.hold(.disconnect)
    let order = Recorder<String>()
    chat.model.disconnect { [mock = chat.mock] _ in order.record("closed after \(mock.requests.count) connect") }
    chat.model.connectToChat()
    chat.send("x")
    try chat.expect(.stateChanged(.stopped), .stateChanged(.connecting))
    chat.mock.release(.disconnect)
    #expect(try order.next() == "closed after 1 connect")
    try chat.expect(.stateChanged(.connected))
    #expect(try chat.results.next() == "x sent")
    chat.finish()
  }

  @Test func `a released chat closes and answers what waits`() throws {
    let mock = MockWebSocketHandler()
    mock.hold(.connect)
    let results = Recorder<Failure?>()
    let events = Recorder<ChatEvent>()
    do {
      let url = try #require(URL(string: "ws://chat.example/"))
      let model = ChatViewModel(
        webSocketHandler: mock, request: NetworkRequest(url: url), environment: ManualTime().environment,
        onEvent: { events.record($0) })
      model.connectToChat()
      model.sendMessage("x") { result in
        if case .failure(let failure) = result { results.record(failure) } else { results.record(nil) }
      }
      #expect(try events.next() == .stateChanged(.connecting))
    }
    #expect(try results.next() == .cancelled)
    #expect(mock.closes == [.goingAway])
    #expect(mock.misuses == [])
  }

  @Test func `a handler that completes within the call does not grow the stack`() throws {
    let count = 100_000
    let events = Recorder<ChatEvent>()
    let url = try #require(URL(string: "ws://chat.example/"))
    let model = ChatViewModel(
      webSocketHandler: SynchronousHandler(messages: count), request: NetworkRequest(url: url),
      onEvent: { event in if case .message = event { return } else { events.record(event) } })
    model.connectToChat()
    let done = Recorder<Void>()
    model.sendMessage("x") { _ in done.record(()) }
    try done.next()
    #expect(try events.next(2) == [.stateChanged(.connecting), .stateChanged(.connected)])
    model.disconnect { _ in done.record(()) }
    try done.next()
    #expect(try events.next() == .stateChanged(.stopped))
  }
}

@Suite("The mock handler")
struct MockWebSocketHandlerTests {
  @Test func `a connect that fails says so before what waited for it`() throws {
    let mock = MockWebSocketHandler()
    mock.script(.connect, .failure(.cancelled))
    let results = Recorder<String>()
    mock.connect(request: NetworkRequest(url: try #require(URL(string: "ws://chat.example/")))) { _ in
      results.record("connect")
    }
    mock.receive { (_: Result<WebSocketMessage, Failure>) in results.record("receive") }
    #expect(try results.next(2) == ["connect", "receive"])
  }

  @Test func `calls before connect are misuses and fail`() throws {
    let mock = MockWebSocketHandler()
    let results = Recorder<Failure?>()
    mock.send(message: WebSocketMessage.text("x")) { results.record($0.failure) }
    mock.receive { (result: Result<WebSocketMessage, Failure>) in results.record(result.failure) }
    mock.disconnect { results.record($0.failure) }
    #expect(
      try results.next(3) == [
        .messageSendFailed("WebSocket is not connected"), .messageReceiveFailed("WebSocket is not connected"),
        .connectionFailed("WebSocket is not connected"),
      ])
    #expect(mock.misuses == ["send before connect", "receive before connect", "disconnect before connect"])
  }

  @Test func `receives are served in the order of the calls`() throws {
    let mock = MockWebSocketHandler()
    let results = Recorder<String>()
    let connected = Recorder<Void>()
    mock.connect(request: NetworkRequest(url: try #require(URL(string: "ws://chat.example/")))) { _ in
      connected.record(())
    }
    try connected.next()
    for name in ["first", "second", "third"] {
      mock.receive { (result: Result<WebSocketMessage, Failure>) in
        results.record("\(name) \(result.failure.map { "\($0)" } ?? "message")")
      }
    }
    mock.inject(.text("a"))
    mock.inject(.text("b"))
    mock.fail(with: .cancelled)
    #expect(try results.next(3) == ["first message", "second message", "third cancelled"])
    #expect(mock.misuses == [])
  }
}

extension Result {
  fileprivate var failure: Failure? {
    if case .failure(let failure) = self { failure } else { nil }
  }
}
