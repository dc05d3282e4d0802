import WebSocketCore
import WebSocketHandling
import WebSocketTesting
import TestSupport

/// What came of bytes that a server sent behind its handshake's answer and ended its stream after.
struct Play: Hashable {
  /// What the application received.
  var messages: [WebSocketMessage] = []
  /// The peer's pings and pongs that the application heard of.
  var controls: [ControlFrameEvent] = []
  /// What the receive loop ended with.
  var end: Failure?
  /// What the server got.
  var answers: [Frame] = []

  /// Plays the bytes to a client of its own.
  static func of(
    _ bytes: [UInt8], cut: Cut = .whole, limits: ConnectionLimits = ConnectionLimits(),
    logger: any Logger = SilentLogger()
  ) async throws -> Play {
    let (answers, feed) = AsyncStream.makeStream(of: Frame.self)
    let server = try ScriptedServer { connection in
      defer { feed.finish() }
      try connection.open()
      try connection.send(bytes, cut)
      connection.finish()
      while true { feed.yield(try connection.readFrame()) }
    }
    let controls = SharedList<ControlFrameEvent>()
    let handler = makeHandler(logger: logger) {
      $0.limits = limits
      $0.onControlFrame = { controls.append($0) }
    }
    try await handler.connect(request: request(server))
    var play = Play()
    while play.end == nil {
      do throws(Failure) {
        play.messages.append(try await handler.receive(WebSocketMessage.self))
      } catch {
        play.end = error
      }
    }
    for await answer in answers { play.answers.append(answer) }
    play.controls = controls.all
    return play
  }
}

extension Failure {
  /// The end after a violation of the peer's.
  static func violated(_ violation: ProtocolViolation) -> Failure {
    .closed(
      CloseRecord(
        code: violation.closeCode, reason: violation.description, initiator: .local, isClean: false,
        transportEnd: .finished, violation: violation))
  }

  /// The end after a completed closing handshake that the peer began.
  static func closedByPeer(_ code: CloseCode, _ reason: String = "") -> Failure {
    .closed(CloseRecord(code: code, reason: reason, initiator: .peer, isClean: true, transportEnd: .finished))
  }
}

extension Frame {
  /// The Close frame that a violation earns.
  static func close(for violation: ProtocolViolation) -> Frame {
    .close(violation.closeCode.rawValue, violation.description)
  }
}
