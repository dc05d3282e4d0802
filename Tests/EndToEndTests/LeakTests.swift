import Foundation
import Testing
import WebSocketCore
import WebSocketHandling
import WebSocketTesting
import TestSupport

@Suite("Nothing is left behind", .timeLimit(.minutes(5)))
struct LeakTests {
  /// Where a handler stands when its last reference goes.
  enum Stage: CaseIterable {
    case unused
    case connecting
    case refused
    case open
    case waiting
    case closing
    case closedByPeer
  }

  @Test(
    "R114, R115: a handler released in each state is gone, and what waited is answered", arguments: Stage.allCases,
    Place.allCases)
  func release(stage: Stage, place: Place) async throws {
    let silent = try ScriptedServer { connection in connection.waitForEnd() }
    let mute = try ScriptedServer { connection in
      try connection.open()
      connection.waitForEnd()
    }
    let closing = try ScriptedServer { connection in try connection.open(with: Frame.close(1000).encoded()) }
    let refusing = try ScriptedServer { connection in
      try connection.readRequest()
      try connection.send(text: "HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n")
    }
    let tally = Tally()
    weak var gone: DefaultWebSocketHandler?
    do {
      let handler = place.makeHandler()
      gone = handler
      func connect(_ server: ScriptedServer) async throws {
        try await handler.connect(request: request(server) { $0.closeTimeout = .milliseconds(50) })
      }
      switch stage {
      case .unused: break
      case .connecting: handler.connect(request: request(silent), completion: tally.completion("connect"))
      case .refused: _ = await failure { () throws(Failure) in try await handler.connect(request: request(refusing)) }
      case .open: try await connect(mute)
      case .waiting:
        try await connect(mute)
        let received: @Sendable (Result<WebSocketMessage, Failure>) -> Void = tally.completion("receive")
        handler.receive(completion: received)
        handler.ping(completion: tally.completion("ping"))
      case .closing:
        try await connect(mute)
        handler.disconnect(completion: tally.completion("disconnect"))
      case .closedByPeer:
        try await connect(closing)
        _ = await failure { () throws(Failure) in _ = try await handler.receive(WebSocketMessage.self) }
      }
    }
    await tally.allAnswered()
    #expect(gone == nil)
    #expect(tally.doubled == [])
    for (name, answers) in tally.all where name != "disconnect" { #expect(answers == [.cancelled], "\(name)") }
  }

  @Test func `R114: after 1,000 connections no descriptor and no thread is left`() async {
    await #expect(processExitsWith: .success) {
      let server = try LoopbackServer()
      func cycle(_ place: Place) async throws {
        let handler = place.makeHandler()
        try await handler.connect(request: request(server.url))
        try await handler.send(message: WebSocketMessage.text("x"))
        _ = try await handler.receive(WebSocketMessage.self)
        try await handler.disconnect()
      }
      for number in 0..<100 { try await cycle(number.isMultiple(of: 2) ? .queue : .eventLoop) }
      let before = ProcessCounts.now
      for number in 0..<1_000 { try await cycle(number.isMultiple(of: 2) ? .queue : .eventLoop) }
      before.isReachedAgain()
    }
  }

  @Test func `R18, R79, R101: cancelled and failed attempts leave no descriptor and no thread`() async {
    await #expect(processExitsWith: .success) {
      let silent = try ScriptedServer { connection in connection.waitForEnd() }
      let refusing = try RefusingPort()
      let faulty = try ScriptedServer { connection in
        switch try connection.readRequest().split(separator: " ")[1] {
        case "/reset": connection.reset()
        case "/garbage": try connection.send(text: "SSH-2.0-OpenSSH\r\n\r\n")
        case "/accept":
          try connection.send(text: "HTTP/1.1 101 Ok\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
        default: try connection.send(text: "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n")
        }
      }
      func url(_ port: Int, _ path: String) -> NetworkRequest {
        NetworkRequest(url: URL(string: "ws://127.0.0.1:\(port)\(path)") ?? URL(filePath: "/"))
      }
      func fail(_ request: NetworkRequest) async {
        let error = await failure { () throws(Failure) in try await Place.queue.makeHandler().connect(request: request)
        }
        #expect(error != nil)
      }
      func disconnect() async {
        let (handler, tally) = (Place.queue.makeHandler(), Tally())
        handler.connect(request: url(silent.port, "/"), completion: tally.completion("connect"))
        handler.disconnect(completion: tally.completion("disconnect"))
        await tally.allAnswered()
      }
      func release() async {
        let tally = Tally()
        do {
          let handler = Place.queue.makeHandler()
          handler.connect(request: url(silent.port, "/"), completion: tally.completion("connect"))
        }
        await tally.allAnswered()
      }
      func round() async {
        for path in ["/reset", "/garbage", "/accept", "/503"] { await fail(url(faulty.port, path)) }
        await fail(url(refusing.port, "/"))
        var hanging = url(silent.port, "/")
        hanging.connectTimeout = .milliseconds(1)
        await fail(hanging)
        await disconnect()
        await release()
      }
      for _ in 0..<20 { await round() }
      let before = ProcessCounts.now
      for _ in 0..<250 { await round() }
      before.isReachedAgain()
    }
  }
}
