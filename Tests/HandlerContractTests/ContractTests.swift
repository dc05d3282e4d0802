import Foundation
import Testing
import WebSocketCore
import WebSocketHandling
import WebSocketTesting
import WebSocketTransport
import TestSupport

/// The numbered promises of a handler, first half: completions, callbacks, messages, the receive buffer.
@Suite("The contract, 1 to 4")
struct ContractTests {
  // MARK: 1. Each completion is called exactly once, and never before its method returns

  @Test("1: every call in every stage is answered exactly once", arguments: Stage.allCases, Place.allCases)
  func exactlyOnce(stage: Stage, place: Place) throws {
    let client = Client(place)
    let waiting = try stage.reach(client)
    for round in 1...2 {
      client.handler?.connect(request: Client.request()) { [journal = client.journal] in
        journal.note("connect \(round)", $0)
      }
      client.send("new \(round)")
      client.receive()
      client.ping()
      client.disconnect("disconnect \(round)")
    }
    client.manual.advance(by: .seconds(60))
    client.handler = nil
    client.manual.advance(by: .seconds(60))
    var counts: [String: Int] = [:]
    for event in client.journal.all {
      switch event {
      case .ok(let name), .failed(let name, _): counts[name, default: 0] += 1
      case .message: counts["receive", default: 0] += 1
      case .pong: counts["ping", default: 0] += 1
      case .step: break
      }
    }
    var expected = ["receive": 2, "ping": 2]
    for round in 1...2 {
      for name in ["connect \(round)", "send new \(round)", "disconnect \(round)"] { expected[name] = 1 }
    }
    for name in waiting { expected[name, default: 0] += 1 }
    #expect(counts == expected)
    #expect(client.manual.everythingIsClosed)
    #expect(client.isGone)
  }

  @Test("1, 2: no completion runs before its method returns, also inside a callback", arguments: Place.allCases)
  func neverBeforeReturn(place: Place) throws {
    let client = Client(place)
    _ = try client.open()
    let handler = try #require(client.handler)
    let journal = client.journal
    handler.send(message: WebSocketMessage.text("x")) { [weak handler] _ in
      handler?.connect(request: Client.request()) { _ in journal.note(.step("connect")) }
      handler?.send(message: WebSocketMessage.text("y")) { _ in journal.note(.step("send")) }
      handler?.disconnect(code: CloseCode(1005), reason: "") { _ in journal.note(.step("disconnect")) }
      handler?.onMessage { _ in }
      handler?.receive { (_: Result<WebSocketMessage, Failure>) in journal.note(.step("receive")) }
      handler?.onMessage(nil)
      journal.note(.step("returned"))
    }
    client.manual.settle()
    #expect(journal.all.first == .step("returned"))
    #expect(
      journal.all.map(\.description).sorted() == ["connect", "disconnect", "receive", "returned", "send"])
  }

  // MARK: 2. Callbacks are serial, in order, and may call every method

  @Test("2: every method may be called from every callback", arguments: Place.allCases)
  func reentrancy(place: Place) throws {
    let manual = ManualEnvironment()
    let journal = Journal(manual)
    let caller = EveryMethod(manual, journal, place)
    caller.callAll(from: "test")
    let server = try manual.nextConnection()
    try server.open()
    server.send(frame: Frame(.ping))
    server.send(.text("m"))
    manual.settle()
    while let frame = try? server.readFrame() {
      if frame.opcode == .ping { server.send(frame: Frame(.pong, frame.payload)) }
    }
    manual.settle()
    server.sendClose(.normalClosure)
    server.finish()
    manual.advance(by: .seconds(60))
    caller.release()
    manual.advance(by: .seconds(60))
    let lines = journal.all.map(\.description)
    #expect(caller.unanswered == 0)
    #expect(
      Set(lines).isSuperset(of: ["in connect", "in send", "in receive", "in ping", "in disconnect", "in control"]))
    #expect(!lines.contains { $0.hasPrefix("nested") })
    #expect(manual.everythingIsClosed)
  }

  @Test(
    "2: disconnect's completion is the last of its connection; later calls are on their own", arguments: Place.allCases)
  func disconnectIsLast(place: Place) throws {
    let client = Client(place)
    let server = try client.open()
    server.setWriteRoom(0)
    client.disconnect()
    client.receive()
    client.ping()
    client.send("late")
    server.reset()
    client.manual.settle()
    client.send("afterwards")
    client.manual.settle()
    let record = lost(.reset, by: .local)
    #expect(
      client.journal.all == [
        .failed("ping", .closing), .failed("send late", .closing), .failed("receive", record),
        .failed("disconnect", record), .failed("send afterwards", record),
      ])
  }

  // MARK: 3. Whole messages, in order; a send succeeds when its last byte is taken

  @Test("3: messages arrive whole and in order, one per receive", arguments: Place.allCases)
  func order(place: Place) throws {
    let client = Client(place)
    let server = try client.open()
    for _ in 0..<3 { client.receive() }
    server.send(frame: .text("one, ", isFinal: false))
    server.send(frame: Frame(.ping, "between".utf8))
    server.send(frame: Frame(.continuation, "in pieces".utf8))
    server.send(.binary(Data([1, 2, 3])))
    for number in 3...5 { server.send(.text("\(number)")) }
    client.manual.settle()
    for _ in 0..<2 { client.receive() }
    client.manual.settle()
    #expect(
      client.journal.all == [
        .message(.text("one, in pieces")), .message(.binary(Data([1, 2, 3]))), .message(.text("3")),
        .message(.text("4")), .message(.text("5")),
      ])
    #expect(try server.readFrame() == Frame(.pong, "between".utf8))
  }

  @Test(
    "3: receives made in callbacks, of either kind, have their turn in the order of the calls",
    arguments: Place.allCases)
  func receivesInCallbacks(place: Place) throws {
    let client = Client(place)
    let server = try client.open()
    for number in 1...8 { server.send(.text("\(number)")) }
    client.manual.settle()
    let (handler, journal) = (try #require(client.handler), client.journal)
    @Sendable func message(_ name: String, _ next: @escaping @Sendable () -> Void = {}) {
      handler.receive { (result: Result<WebSocketMessage, Failure>) in
        journal.note(.step("\(name) \((try? result.get().data).map { String(decoding: $0, as: UTF8.self) } ?? "")"))
        next()
      }
    }
    @Sendable func number(_ name: String, _ next: @escaping @Sendable () -> Void = {}) {
      handler.receive { (result: Result<Int, Failure>) in
        journal.note(.step("\(name) \((try? result.get()) ?? 0)"))
        next()
      }
    }
    message("a") {
      message("c")
      number("d") { message("f") { handler.send(message: WebSocketMessage.text("x")) { journal.note("send", $0) } } }
    }
    number("b") { message("e") { number("g") { message("h") } } }
    client.manual.settle()
    #expect(
      client.journal.take().filter { $0 != .ok("send") }
        == ["a 1", "b 2", "c 3", "d 4", "e 5", "f 6", "g 7", "h 8"].map(Event.step))
    #expect(handler.buffered.messages == 0)
  }

  @Test("3: a send succeeds when its last byte was taken, not before", arguments: Place.allCases)
  func sendCompletion(place: Place) throws {
    let client = Client(place)
    let server = try client.open()
    // A frame of one byte takes seven: two, the key, the byte.
    server.setWriteRoom(13)
    for text in ["a", "b", "c"] { client.send(text) }
    client.manual.settle()
    #expect(client.journal.take() == [.ok("send a")])
    #expect(client.handler?.buffered.messages == 2)
    server.setWriteRoom(1)
    client.manual.settle()
    #expect(client.journal.take() == [.ok("send b")])
    server.setWriteRoom(nil)
    client.manual.settle()
    #expect(client.journal.take() == [.ok("send c")])
    let texts = try (0..<3).map { _ in try server.readMessage() }
    #expect(texts == [.text("a"), .text("b"), .text("c")])
    #expect(client.handler?.buffered.messages == 0)
    #expect(client.handler?.buffered.bytes == 0)
  }

  @Test("3: long and short messages keep their order whatever each write takes", arguments: [1, 7, 4096, 100_000])
  func longMessages(write: Int) throws {
    let client = Client(.queue)
    let server = try client.open()
    server.setLargestWrite(write)
    server.setWriteRoom(10)
    let count = write == 1 ? 20_000 : 200_000
    let texts = ["short", String(repeating: "long", count: count / 4), "", String(repeating: "x", count: count), "end"]
    for text in texts { client.send(text) }
    server.setWriteRoom(nil)
    let seen = try texts.map { _ in try server.readMessage() }
    #expect(seen == texts.map { .text($0) })
    #expect(client.journal.all == texts.map { .ok("send \($0.prefix(20))") })
  }

  @Test("3: calls made while connecting wait for it, and its completion comes first", arguments: Place.allCases)
  func earlyCalls(place: Place) throws {
    let client = Client(place)
    client.receive()
    client.manual.settle()
    #expect(client.journal.take() == [.failed("receive", .messageReceiveFailed("WebSocket is not connected"))])
    client.connect()
    client.send("early")
    client.receive()
    client.ping()
    let server = try client.manual.nextConnection()
    #expect(client.journal.all == [])
    try server.open(with: Frame.text("welcome").encoded())
    client.manual.settle()
    #expect(try server.readMessage() == .text("early"))
    let ping = try server.readFrame()
    server.send(frame: Frame(.pong, ping.payload))
    client.manual.settle()
    #expect(client.journal.all.first == .ok("connect"))
    #expect(
      Set(client.journal.all) == [.ok("connect"), .ok("send early"), .message(.text("welcome")), .pong(after: .zero)])
    #expect(client.journal.all.count == 4)
  }

  @Test("3: early calls obey the limit of the send queue", arguments: Place.allCases)
  func earlyLimit(place: Place) throws {
    let client = Client(place) { $0.sendQueueLimit = 200 }
    client.connect()
    for text in ["a", "b", "c", "d"] { client.send(text) }
    try client.manual.nextConnection().open()
    client.manual.settle()
    #expect(
      client.journal.all.filter { $0 != .ok("connect") } == [
        .failed("send d", .limitExceeded(.sendQueue, size: 260, limit: 200)), .ok("send a"), .ok("send b"),
        .ok("send c"),
      ])
  }

  @Test("3: without any connection the article's texts come back", arguments: Place.allCases)
  func neverConnected(place: Place) {
    let client = Client(place)
    client.send("x")
    client.receive()
    client.disconnect()
    client.manual.settle()
    #expect(
      client.journal.all == [
        .failed("send x", .messageSendFailed("WebSocket is not connected")),
        .failed("receive", .messageReceiveFailed("WebSocket is not connected")),
        .failed("disconnect", .connectionFailed("WebSocket is not connected")),
      ])
  }

  // MARK: 4. Messages are kept, up to a limit

  @Test(
    "4, R02: messages that nobody asked for yet are kept, also those glued to the answer", arguments: Place.allCases)
  func kept(place: Place) throws {
    let client = Client(place)
    let server = try client.open(with: Frame.text("first").encoded())
    server.send(.text("second"))
    client.manual.advance(by: .seconds(60))
    for _ in 0..<3 { client.receive() }
    client.manual.settle()
    #expect(client.journal.all == [.message(.text("first")), .message(.text("second"))])
    server.send(.text("third"))
    client.manual.settle()
    #expect(client.journal.all.last == .message(.text("third")))
  }

  @Test("4, R118: past the limit nothing is read until half is consumed", arguments: Place.allCases)
  func heldBack(place: Place) throws {
    let client = Client(place) { $0.receiveBufferLimit = 1_000 }
    let server = try client.open()
    // Each costs 100: with the eleventh the limit is passed.
    let message = String(repeating: "x", count: 36)
    for _ in 0..<11 { server.send(.text(message)) }
    server.send(frame: Frame(.ping, "p".utf8))
    for _ in 0..<5 { server.send(.text(message)) }
    #expect(server.unreadByClient == 3 + 5 * 38)
    for _ in 0..<5 { client.receive() }
    #expect(server.unreadByClient == 3 + 5 * 38)
    client.receive()
    #expect(server.unreadByClient == 0)
    #expect(try server.readFrame() == Frame(.pong, "p".utf8))
    for _ in 0..<10 { client.receive() }
    client.manual.settle()
    #expect(client.journal.all == Array(repeating: .message(.text(message)), count: 16))
  }

  @Test("4: a hang-up behind the limit still ends the connection", arguments: Place.allCases)
  func hangUpWhileHeldBack(place: Place) throws {
    let client = Client(place) { $0.receiveBufferLimit = 100 }
    let server = try client.open()
    for number in 1...3 { server.send(.text(String(repeating: "\(number)", count: 100))) }
    client.manual.settle()
    client.ping()
    server.reset()
    client.manual.settle()
    #expect(client.journal.take() == [.failed("ping", lost(.reset))])
    client.receive()
    client.receive()
    client.manual.settle()
    #expect(
      client.journal.take() == [
        .message(.text(String(repeating: "1", count: 100))), .failed("receive", lost(.reset)),
      ])
  }
}

/// Calls every method from every callback, and counts the answers.
private final class EveryMethod: Sendable {
  private struct State: Sendable {
    var handler: DefaultWebSocketHandler?
    var unanswered = 0
    var calls = 0
    var isInside = false
  }

  private let journal: Journal
  private let state = Lock(State())

  init(_ manual: ManualEnvironment, _ journal: Journal, _ place: Place) {
    self.journal = journal
    var configuration = HandlerConfiguration()
    configuration.callbacks = place == .queue ? .privateQueue : .eventLoop
    configuration.onControlFrame = { [weak self] _ in self?.inside("control") }
    let handler = DefaultWebSocketHandler(
      logger: SilentLogger(), configuration: configuration, environment: manual.environment)
    state.withLock { $0.handler = handler }
  }

  var unanswered: Int { state.withLock { $0.unanswered } }

  func release() { _ = state.withLock { $0.handler.take() } }

  /// Each callback comes here: it must not interrupt another one.
  private func inside(_ name: String) {
    let wasInside = state.withLock { state in
      defer { state.isInside = true }
      return state.isInside
    }
    journal.note(.step(wasInside ? "nested in \(name)" : "in \(name)"))
    callAll(from: name)
    state.withLock { $0.isInside = false }
  }

  private func answer(_ name: String) {
    state.withLock { $0.unanswered -= 1 }
    inside(name)
  }

  /// Calls everything once; a round of its own for the first few callbacks only, so that it ends.
  func callAll(from name: String) {
    let handler = state.withLock { state -> DefaultWebSocketHandler? in
      state.calls += 1
      guard state.calls <= 50 else { return nil }
      state.unanswered += name == "disconnect" || name == "test" ? 4 : 5
      return state.handler
    }
    guard let handler else { return }
    handler.connect(request: Client.request()) { [self] _ in answer("connect") }
    handler.send(message: WebSocketMessage.text("x")) { [self] _ in answer("send") }
    handler.receive { [self] (_: Result<WebSocketMessage, Failure>) in answer("receive") }
    handler.ping { [self] _ in answer("ping") }
    _ = (handler.buffered, handler.handshake)
    if name != "disconnect", name != "test" { handler.disconnect { [self] _ in answer("disconnect") } }
  }
}
