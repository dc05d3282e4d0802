import Dispatch
import Foundation
import WebSocketChat
import WebSocketHandling
import WebSocketServing
import WebSocketTransport

/// `websocket chat`: a server and two chat clients in one process; their connections are cut and come back.
///
/// With a URL it is a ``ChatClient``.
final class ChatCommand: Sendable {
  static let usage = """
    usage: websocket chat serve [--port P]
             a chat room on 127.0.0.1, with a page for browsers at the same address
           websocket chat [options] [URL]
      --name NAME           the sender of what is written; default: User
      --ping-interval S     seconds between pings, and for an answer to each; default: 20
      without a URL         a demonstration with a server of its own
    """

  /// A step that did not happen in time.
  private struct Missed: Error {
    var step: String
  }

  private static let stepTimeout = Duration.seconds(6)

  private enum Part: Sendable {
    case demonstration
    case client(ChatClient)
    case server(ChatServer)
  }

  private let part: Part

  init(_ arguments: some Sequence<String>) throws(UsageError) {
    let arguments = Array(arguments)
    if arguments.first == "serve" {
      part = .server(try ChatServer(arguments.dropFirst()))
      return
    }
    let options = try CommandLineOptions(arguments, valued: ["--name", "--ping-interval"])
    let interval = try options.seconds("--ping-interval")
    if options.operands.isEmpty {
      part = .demonstration
    } else {
      let text = try options.operand("URL")
      guard let url = URL(string: text) else { throw UsageError(message: "\(text) is not a URL") }
      part = .client(ChatClient(url: url, name: options.string("--name") ?? "User", pingInterval: interval))
    }
  }

  func run() {
    switch part {
    case .client(let client): return client.run()
    case .server(let server): return server.run()
    case .demonstration: break
    }
    let thread = Thread {
      do {
        try Self.demonstrate()
        exit(0)
      } catch {
        Terminal.complain("\(error)")
        exit(1)
      }
    }
    thread.start()
  }

  private static func demonstrate() throws {
    let room = Room()
    let isDown = Lock(false)
    let server = try WebSocketServer(
      host: "127.0.0.1", port: 0, subprotocols: [], configuration: WebSocketServer.defaultConfiguration,
      environment: .system,
      admit: { head in
        // Ann comes back after Bob, so that he is there to hear what she wrote meanwhile.
        let mustWait = isDown.withLock { $0 } || (head.path == "/ann" && room.count == 0)
        return mustWait ? .refuse(status: 503) : .accept
      },
      onConnection: { room.join($0) })
    Terminal.print("server    listens at \(server.url)")
    let bob = Person("bob", server)
    let ann = Person("ann", server)

    bob.model.connectToChat()
    try wait("bob connects") { bob.connections == 1 && room.count == 1 }
    ann.model.connectToChat()
    try wait("ann connects") { ann.connections == 1 && room.count == 2 }

    ann.model.sendMessage("hello, Bob")
    try wait("bob hears ann") { bob.hasHeard("hello, Bob") }
    bob.model.sendMessage("hello, Ann")
    try wait("ann hears bob") { ann.hasHeard("hello, Ann") }

    Terminal.print("server    cuts both connections")
    isDown.withLock { $0 = true }
    for connection in server.connections { connection.drop() }
    try wait("both notice") { ann.isWaiting && bob.isWaiting && room.count == 0 }
    Terminal.print("ann       writes while nobody is connected")
    ann.model.sendMessage("are you still there?")
    isDown.withLock { $0 = false }
    try wait("both come back") { ann.connections == 2 && bob.connections == 2 }
    try wait("bob hears what was written meanwhile") { bob.hasHeard("are you still there?") }

    for person in [ann, bob] {
      let isDone = Lock<Result<Void, EngineError.WebSocketError>?>(nil)
      person.disconnect { result in isDone.withLock { $0 = result } }
      try wait("\(person.name) disconnects") { isDone.withLock { $0 } != nil }
      try isDone.withLock { $0 }?.get()
    }
    server.shutDown()
    Terminal.print("done")
  }

  private static func wait(_ step: String, until condition: () -> Bool) throws(Missed) {
    let deadline = ContinuousClock.now + stepTimeout
    while !condition() {
      guard ContinuousClock.now < deadline else { throw Missed(step: step) }
      usleep(5_000)
    }
  }
}

/// One who chats, and what came of it.
private final class Person: Sendable {
  private final class Log: Sendable {
    struct State: Sendable {
      var connections = 0
      var isWaiting = false
      var heard: [String] = []
    }

    let state = Lock(State())

    func note(_ name: String, _ event: ChatEvent) {
      let line = state.withLock { state -> String in
        switch event {
        case .stateChanged(.connected):
          state.connections += 1
          state.isWaiting = false
          return state.connections == 1 ? "connected" : "reconnected"
        case .stateChanged(.waiting(let attempt, let delay)):
          state.isWaiting = true
          return "attempt \(attempt) follows in \(Int(delay / .milliseconds(1))) ms"
        case .stateChanged(.connecting): return "connecting"
        case .stateChanged(.stopped): return "disconnecting"
        case .stateChanged(.idle): return "idle"
        case .message(let message):
          state.heard.append(message.content)
          return "hears \(message.sender): \(message.content)"
        case .problem(let error): return "\(error)"
        case .messageDropped(let message, let error): return "gives up \(message.content): \(error)"
        case .messageInDoubt(let message, let error): return "may have sent \(message.content): \(error)"
        }
      }
      Terminal.print(name.padding(toLength: 10, withPad: " ", startingAt: 0) + line)
    }
  }

  let name: String
  let model: ChatViewModel
  private let log: Log

  init(_ name: String, _ server: WebSocketServer) {
    let log = Log()
    self.name = name
    self.log = log
    model = ChatViewModel(
      webSocketHandler: DefaultWebSocketHandler(logger: SilentLogger()),
      request: NetworkRequest(url: server.url.appending(path: name)), sender: name,
      policy: ReconnectPolicy(
        backoff: Backoff(first: .milliseconds(300), base: .milliseconds(200), maximum: .milliseconds(400)))
    ) { log.note(name, $0) }
  }

  var connections: Int { log.state.withLock { $0.connections } }
  var isWaiting: Bool { log.state.withLock { $0.isWaiting } }

  func hasHeard(_ content: String) -> Bool { log.state.withLock { $0.heard.contains(content) } }

  func disconnect(completion: @escaping ChatViewModel.Completion) { model.disconnect(completion: completion) }
}
