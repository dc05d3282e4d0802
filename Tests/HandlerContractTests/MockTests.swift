import Dispatch
import Testing
import WebSocketCore
import WebSocketHandling
import WebSocketTesting
import WebSocketTransport

/// What a program, its server and the network do, one after the other.
private enum Step: Int, CaseIterable, Sendable, CustomStringConvertible {
  /// A connect that the server will accept.
  case connect
  /// A connect that the server will refuse.
  case connectToBeRefused
  /// The server answers the connect that waits.
  case answer
  case send
  case receive
  case ping
  case disconnect
  /// With a code that may not be sent.
  case disconnectWrongly
  /// The server completes the closing handshake that waits.
  case completeClose
  case message
  case peerClose
  case loss

  var description: String {
    switch self {
    case .connect: "connect"
    case .connectToBeRefused: "connect to be refused"
    case .answer: "answer"
    case .send: "send"
    case .receive: "receive"
    case .ping: "ping"
    case .disconnect: "disconnect"
    case .disconnectWrongly: "disconnect wrongly"
    case .completeClose: "complete close"
    case .message: "message"
    case .peerClose: "peer's close"
    case .loss: "loss"
    }
  }
}

private let refused = Failure.handshakeRefused(
  HandshakeRefusal(status: 403, headers: [HTTPField(name: "Content-Length", value: "0")], body: []))

/// A handler under test, and the other end of it.
private protocol Subject: AnyObject {
  var handler: (any WebSocketHandler)? { get set }
  var journal: Journal { get }
  /// What the server has read of messages.
  var sent: [WebSocketMessage] { get }
  /// Before and behind a step's call, where it is one.
  func begin(_ step: Step) throws
  func end(_ step: Step)
  /// Lets everything happen that is due.
  func settle()
}

extension Subject {
  /// What the calls said after each step, then after the handler was released; last what was sent.
  func run(_ steps: [Step]) throws -> [[Event]] {
    var told: [[Event]] = []
    for (number, step) in steps.enumerated() {
      try begin(step)
      call(step, number)
      end(step)
      settle()
      told.append(journal.take())
    }
    told.append(sent.map { .message($0) })
    handler = nil
    settle()
    try begin(.completeClose)
    settle()
    return told + [journal.take()]
  }

  private func call(_ step: Step, _ number: Int) {
    let name = "\(step) \(number)"
    switch step {
    case .connect, .connectToBeRefused:
      handler?.connect(request: Client.request()) { [journal] in journal.note(name, $0) }
    case .send:
      handler?.send(message: WebSocketMessage.text("\(number)")) { [journal] in journal.note(name, $0) }
    case .receive:
      handler?.receive { [journal] (result: Result<WebSocketMessage, Failure>) in
        switch result {
        case .success(let message): journal.note(.message(message))
        case .failure(let failure): journal.note(.failed(name, failure))
        }
      }
    case .ping:
      handler?.ping { [journal] result in
        switch result {
        case .success(let duration): journal.note(.pong(after: duration))
        case .failure(let failure): journal.note(.failed(name, failure))
        }
      }
    case .disconnect: handler?.disconnect { [journal] in journal.note(name, $0) }
    case .disconnectWrongly:
      handler?.disconnect(code: CloseCode(1006), reason: "") { [journal] in journal.note(name, $0) }
    case .answer, .completeClose, .message, .peerClose, .loss: break
    }
  }
}

/// The real handler, and a server that does what a step says where that has a meaning.
private final class Real: Subject {
  private let client = Client(.queue)
  private var server: MemoryConnection?
  private var refuses = false
  private var isOpen = false
  private var sawClose = false
  private(set) var sent: [WebSocketMessage] = []

  var journal: Journal { client.journal }
  var handler: (any WebSocketHandler)? {
    get { client.handler }
    set { client.handler = newValue as? DefaultWebSocketHandler }
  }

  func begin(_ step: Step) throws {
    switch step {
    case .connect, .connectToBeRefused: if server == nil { refuses = step == .connectToBeRefused }
    case .answer:
      guard let server, !isOpen else { return }
      if refuses {
        server.send(text: "HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n")
      } else {
        try server.open()
        isOpen = true
      }
    case .message: if isOpen { server?.send(.text("message")) }
    case .peerClose:
      guard isOpen, !sawClose else { return }
      server?.sendClose(.goingAway)
      server?.finish()
    case .completeClose:
      guard sawClose else { return }
      server?.sendClose(.normalClosure)
      server?.finish()
    case .loss: if isOpen { server?.reset() }
    case .send, .receive, .ping, .disconnect, .disconnectWrongly: break
    }
  }

  func end(_ step: Step) {}

  func settle() {
    client.manual.settle()
    if isOpen, let server {
      while let frame = try? server.readFrame() {
        switch frame.opcode {
        case .ping: server.send(frame: Frame(.pong, frame.payload))
        case .text: sent.append(.text(String(decoding: frame.payload, as: UTF8.self)))
        case .close: sawClose = true
        case .binary, .continuation, .pong: break
        }
      }
    }
    if server == nil || server?.clientHasClosed == true {
      (server, isOpen, sawClose) = (try? client.manual.nextConnection(), false, false)
    }
  }
}

/// The mock, told the same.
private final class Mock: Subject {
  private enum Stage { case none, connecting, open, closing }

  private let queue = DispatchQueue(label: "test")
  private var mock: MockWebSocketHandler?
  private var stage = Stage.none
  private var refuses = false
  let journal = Journal(ManualEnvironment())

  init() {
    mock = MockWebSocketHandler(queue: queue)
    mock?.hold(.connect)
    mock?.hold(.disconnect)
  }

  var sent: [WebSocketMessage] { mock?.sent ?? [] }
  var handler: (any WebSocketHandler)? {
    get { mock }
    set { mock = newValue as? MockWebSocketHandler }
  }

  func begin(_ step: Step) {
    switch step {
    case .connect, .connectToBeRefused:
      guard stage == .none else { return }
      (stage, refuses) = (.connecting, step == .connectToBeRefused)
      mock?.script(.connect, refuses ? .failure(refused) : .success(()))
    case .answer:
      guard stage == .connecting else { return }
      stage = refuses ? .none : .open
      mock?.release(.connect)
      mock?.hold(.connect)
    case .message: if stage == .open || stage == .closing { mock?.inject(.text("message")) }
    case .peerClose: if stage == .open { lose(closed(.goingAway, by: .peer)) }
    case .completeClose:
      guard stage == .closing else { return }
      stage = .none
      mock?.release(.disconnect)
      mock?.hold(.disconnect)
    case .loss:
      if stage == .open { lose(lost(.reset)) }
      if stage == .closing { lose(lost(.reset, by: .local)) }
    case .disconnect:
      guard stage == .connecting else { return }
      // The attempt is given up before its answer comes.
      queue.suspend()
      mock?.release(.connect)
    case .send, .receive, .ping, .disconnectWrongly: break
    }
  }

  func end(_ step: Step) {
    guard step == .disconnect else { return }
    switch stage {
    case .none, .closing: break
    case .connecting:
      stage = .none
      mock?.hold(.connect)
      queue.resume()
    case .open: stage = .closing
    }
  }

  private func lose(_ failure: Failure) {
    stage = .none
    mock?.fail(with: failure)
    mock?.release(.disconnect)
    mock?.hold(.disconnect)
  }

  // Twice, for what the first brings about.
  func settle() { for _ in 1...2 { queue.sync {} } }
}

@Suite("The mock beside the real handler")
struct MockTests {
  private static let beginnings: [[Step]] = [
    [], [.connect], [.connectToBeRefused], [.connectToBeRefused, .answer], [.connect, .disconnect],
    [.connect, .answer],
    [.connect, .answer, .message], [.connect, .answer, .disconnect], [.connect, .answer, .disconnect, .completeClose],
    [.connect, .answer, .peerClose], [.connect, .answer, .loss],
  ]

  @Test("answers every two calls alike in every state", arguments: beginnings)
  private func pairs(beginning: [Step]) throws {
    let walks = Step.allCases.flatMap { first in Step.allCases.map { beginning + [first, $0] } }
    try compare(walks)
  }

  @Test("answers long walks alike")
  func walks() throws {
    var generator = SeededGenerator(seed: 5)
    try compare(
      (0..<300).map { _ in (0..<15).map { _ in Step.allCases.randomElement(using: &generator) ?? .send } })
  }

  private func compare(_ walks: [[Step]]) throws {
    var differences = 0
    for walk in walks where differences < 3 {
      let (real, mock) = (try Real().run(walk), try Mock().run(walk))
      #expect(mock == real, "\(walk)")
      if mock != real { differences += 1 }
    }
  }

  @Test("R115: a mock that is released answers what waits, also what was held back")
  func release() throws {
    let queue = DispatchQueue(label: "test")
    let journal = Journal(ManualEnvironment())
    var mock: MockWebSocketHandler? = MockWebSocketHandler(queue: queue)
    weak let released = mock
    mock?.hold(.connect)
    mock?.hold(.ping)
    mock?.connect(request: Client.request()) { journal.note("connect", $0) }
    mock?.send(message: WebSocketMessage.text("x")) { journal.note("send", $0) }
    mock?.receive { (result: Result<WebSocketMessage, Failure>) in journal.note("receive", result.map { _ in }) }
    mock?.ping { journal.note("ping", $0.map { _ in }) }
    queue.sync {}
    mock = nil
    queue.sync {}
    #expect(released == nil)
    #expect(journal.all == ["connect", "send", "receive", "ping"].map { Event.failed($0, .cancelled) })
  }
}
