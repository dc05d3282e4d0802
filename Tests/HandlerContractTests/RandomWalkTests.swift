import Foundation
import Testing
import WebSocketCore
import WebSocketHandling
import WebSocketTesting
import WebSocketTransport

/// Every call of a walk and how it was answered, checked against the contract while it goes.
private final class Ledger: Sendable {
  enum Kind: String, Sendable {
    case connect
    case send
    case receive
    case ping
    case disconnect
  }

  private struct State: Sendable {
    var kinds: [Kind] = []
    var open: Set<Int> = []
    /// Methods of the handler that have not returned.
    var depth = 0
    var isInside = false
    var sent: [Int] = []
    var cancelled: Set<Int> = []
    var lastServedReceive = -1
    var received: [String] = []
    var faults: [String] = []

    mutating func begin(_ kind: Kind) -> Int {
      kinds.append(kind)
      open.insert(kinds.count - 1)
      return kinds.count - 1
    }

    mutating func answer(_ id: Int, _ failure: Failure?) {
      let name = "\(kinds[id].rawValue) \(id)"
      if depth > 0 { faults.append("\(name) was answered within a call") }
      if open.remove(id) == nil { faults.append("\(name) was answered again") }
      switch (kinds[id], failure) {
      case (.send, nil):
        if let last = sent.last, last > id { faults.append("\(name) succeeded after \(last)") }
        sent.append(id)
      case (.send, .cancelled): cancelled.insert(id)
      case (.receive, nil):
        if lastServedReceive > id { faults.append("\(name) was served after \(lastServedReceive)") }
        lastServedReceive = id
      case (.disconnect, _):
        let earlier = open.filter { $0 < id }.sorted()
        if !earlier.isEmpty { faults.append("\(name) was answered before \(earlier)") }
      case (.connect, _), (.ping, _), (.send, _), (.receive, _): break
      }
    }
  }

  private let state = Lock(State())

  func begin(_ kind: Kind) -> Int { state.withLock { $0.begin(kind) } }

  func answer(_ id: Int, _ failure: Failure?) { state.withLock { $0.answer(id, failure) } }

  func received(_ text: String) { state.withLock { $0.received.append(text) } }

  /// Runs a call of the handler's.
  func during(_ call: () -> Void) {
    state.withLock { $0.depth += 1 }
    call()
    state.withLock { $0.depth -= 1 }
  }

  /// Runs the user's part of a callback.
  func inside(_ body: () -> Void) {
    state.withLock { state in
      if state.isInside { state.faults.append("a callback interrupted another") }
      state.isInside = true
    }
    body()
    state.withLock { $0.isInside = false }
  }

  var unanswered: [Int] { state.withLock { $0.open.sorted() } }
  var sent: [Int] { state.withLock { $0.sent } }
  var cancelled: Set<Int> { state.withLock { $0.cancelled } }
  var received: [String] { state.withLock { $0.received } }
  var faults: [String] { state.withLock { $0.faults } }
}

/// Calls a handler by chance, also from inside its callbacks.
private final class Caller: Sendable {
  let ledger = Ledger()
  private let handler: Lock<DefaultWebSocketHandler?>
  private let generator: Lock<SeededGenerator>

  init(_ handler: DefaultWebSocketHandler, seed: UInt64) {
    self.handler = Lock(handler)
    generator = Lock(SeededGenerator(seed: seed))
  }

  func release() { _ = handler.withLock { $0.take() } }

  private func chance(_ count: Int) -> Int { generator.withLock { Int.random(in: 0..<count, using: &$0) } }

  func call() {
    guard let handler = handler.withLock({ $0 }) else { return }
    ledger.during { call(handler) }
  }

  private func call(_ handler: DefaultWebSocketHandler) {
    switch chance(40) {
    case 0...5: handler.connect(request: Client.request(), completion: answer(.connect))
    case 6...18:
      let id = ledger.begin(.send)
      let padding = String(repeating: ".", count: chance(30) == 0 ? 40_000 : chance(50))
      handler.send(message: WebSocketMessage.text("\(id)\(padding)")) { [self] in answered(id, $0.failure) }
    case 19...32:
      let id = ledger.begin(.receive)
      handler.receive { [self] (result: Result<WebSocketMessage, Failure>) in
        if case .success(.text(let text)) = result { ledger.received(text) }
        answered(id, result.failure)
      }
    case 33...36: handler.ping(completion: answer(.ping))
    case 37: handler.disconnect(completion: answer(.disconnect))
    default:
      // For the time of one message, or none.
      if chance(3) == 0 {
        handler.onMessage(nil)
      } else {
        handler.onMessage { [weak self, weak handler] message in
          if let text = message.text { self?.ledger.received(text) }
          handler?.onMessage(nil)
        }
      }
    }
  }

  private func answer<Value>(_ kind: Ledger.Kind) -> @Sendable (Result<Value, Failure>) -> Void {
    let id = ledger.begin(kind)
    return { [self] in answered(id, $0.failure) }
  }

  private func answered(_ id: Int, _ failure: Failure?) {
    ledger.answer(id, failure)
    ledger.inside { if chance(4) == 0 { call() } }
  }
}

/// A handler, its caller, servers and a network that do things by chance.
private final class Walk {
  private let manual: ManualEnvironment
  private let caller: Caller
  private weak var logger: RecordingLogger?
  private var generator: SeededGenerator
  private var server: MemoryConnection?
  private var isOpen = false
  private var hasSeenClose = false
  private var messageNumber = 0
  private var seenByServers: [Int] = []
  private var faults: [String] = []

  init(seed: UInt64, _ place: Place) {
    manual = ManualEnvironment(seed: seed, readBufferBytes: seed.isMultiple(of: 3) ? 7 : 64 << 10)
    generator = SeededGenerator(seed: seed)
    var configuration = HandlerConfiguration()
    configuration.callbacks = place == .queue ? .privateQueue : .eventLoop
    if seed.isMultiple(of: 2) { configuration.receiveBufferLimit = 300 }
    if seed.isMultiple(of: 5) { configuration.sendQueueLimit = 500 }
    if seed.isMultiple(of: 4) { configuration.keepalive = Keepalive(interval: .seconds(3), deadline: .seconds(4)) }
    let logger = RecordingLogger(minimumLevel: seed.isMultiple(of: 7) ? .debug : .error)
    self.logger = logger
    caller = Caller(
      DefaultWebSocketHandler(logger: logger, configuration: configuration, environment: manual.environment),
      seed: seed &+ 1_000_000)
  }

  private func chance(_ count: Int) -> Int { Int.random(in: 0..<count, using: &generator) }

  /// Takes that many steps and an end; returns everything that went against the contract.
  func faults(afterSteps count: Int) -> [String] {
    for _ in 0..<count {
      switch chance(10) {
      case 0...4: caller.call()
      case 5...7: serve()
      case 8: manual.settle()
      default: manual.advance(by: .milliseconds([1, 1, 100, 100, 1_000, 10_000][chance(6)]))
      }
      if chance(20) == 0 {
        let answers: [DialAnswer] = [.accepted(), .accepted(), .accepted(after: .seconds(2)), .refused(), .never]
        manual.script(address: "192.0.2.1", answers[chance(5)])
      }
    }
    caller.release()
    manual.advance(by: .seconds(120))
    read()
    let ledger = caller.ledger
    faults += ledger.faults
    if !ledger.unanswered.isEmpty { faults.append("never answered: \(ledger.unanswered)") }
    if seenByServers != seenByServers.sorted() { faults.append("the servers saw \(seenByServers)") }
    let lost = Set(ledger.sent).subtracting(seenByServers)
    if !lost.isEmpty { faults.append("succeeded, but not seen by a server: \(lost.sorted())") }
    let unexpected = Set(seenByServers).subtracting(ledger.sent).subtracting(ledger.cancelled)
    if !unexpected.isEmpty { faults.append("failed, but seen by a server: \(unexpected.sorted())") }
    let numbers = ledger.received.compactMap { Int($0) }
    if numbers.count != ledger.received.count { faults.append("messages that were never sent arrived") }
    if numbers != numbers.sorted() || Set(numbers).count != numbers.count { faults.append("received \(numbers)") }
    if !manual.everythingIsClosed { faults.append("a connection or an attempt is left") }
    if manual.hasTimers { faults.append("a timer is left") }
    if logger != nil { faults.append("the handler is left") }
    return faults
  }

  // MARK: The server

  /// Does something with the newest connection.
  private func serve() {
    if let next = try? manual.nextConnection() {
      read()
      (server, isOpen, hasSeenClose) = (next, false, false)
    }
    guard let server else { return }
    guard isOpen else { return answer(server) }
    messageNumber += 1
    switch chance(60) {
    case 0...19: server.send(.text("\(messageNumber)"))
    case 20...22: server.send(Frame.text("\(messageNumber)").encoded(), piece: 1)
    case 23...25:
      let text = Array("\(messageNumber)".utf8)
      server.send(frame: Frame(.text, text[..<1], isFinal: false))
      server.send(frame: Frame(.ping, "between".utf8))
      server.send(frame: Frame(.continuation, text[1...]))
    case 26...28: server.send(frame: Frame(.ping, "\(messageNumber)".utf8))
    case 29...31: server.setWriteRoom([0, 3, 100, 30_000][chance(4)])
    case 32...36: server.setWriteRoom(nil)
    case 37: server.sendClose(CloseCode([1000, 1001, 4000][chance(3)]))
    case 38: server.finish()
    case 39: server.reset()
    case 40: server.send([0x83, 0x00])
    default: read()
    }
  }

  private func answer(_ server: MemoryConnection) {
    switch chance(20) {
    case 0: server.reset()
    case 1: server.send(text: "HTTP/1.1 503 Busy\r\nContent-Length: 3\r\n\r\nx")
    case 2: server.send(text: "nonsense\r\n")
    default:
      messageNumber += 1
      let glued = chance(2) == 0 ? Frame.text("\(messageNumber)").encoded() : []
      isOpen = (try? server.open(with: glued)) != nil
    }
  }

  /// Reads what the client sent, strictly; answers pings and Close.
  private func read() {
    guard let server, isOpen else { return }
    while true {
      do {
        let frame = try server.readFrame()
        if hasSeenClose { faults.append("\(frame) follows the Close") }
        switch frame.opcode {
        case .text:
          let number = frame.payload.prefix { $0 != UInt8(ascii: ".") }
          seenByServers.append(Int(String(decoding: number, as: UTF8.self)) ?? -1)
        case .ping: if chance(3) > 0 { server.send(frame: Frame(.pong, frame.payload)) }
        case .close:
          hasSeenClose = true
          if chance(3) > 0 { server.send(frame: frame) }
          if chance(3) > 0 { server.finish() }
        case .pong: break
        case .binary, .continuation: faults.append("\(frame) was never sent")
        }
      } catch ScriptFailure.missing, ScriptFailure.ended {
        return
      } catch {
        faults.append("\(error)")
        return
      }
    }
  }
}

extension Result where Failure == EngineError.WebSocketError {
  fileprivate var failure: EngineError.WebSocketError? {
    if case .failure(let failure) = self { return failure }
    return nil
  }
}

@Suite("The contract on random walks")
struct RandomWalkTests {
  @Test("1 to 8: whatever caller, server and network do, the contract holds", arguments: Place.allCases)
  func walk(place: Place) {
    for seed in 0..<100 as Range<UInt64> {
      let faults: [String] = Walk(seed: seed, place).faults(afterSteps: 200)
      guard faults.isEmpty else {
        Issue.record("seed \(seed): \(faults)")
        return
      }
    }
  }
}
