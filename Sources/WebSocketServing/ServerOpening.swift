import WebSocketCore
import WebSocketTransport

/// What a server does with an opening handshake.
package enum Admission: Sendable, Hashable {
  case accept
  /// Accepts so much later.
  case acceptAfter(Duration)
  /// Answers with that status and ends the connection.
  case refuse(status: Int)
  /// Never answers.
  case stall
}

/// One opening handshake on a new connection: reads the request, and hands the connection over with the answer, or writes
/// a refusal.
final class ServerOpening: TransportHandler {
  /// An agreed handshake, the answer to be written, and the bytes that came after the request's head.
  struct Opened: Sendable {
    var head: HTTPRequestHead
    var subprotocol: String?
    /// What TLS agreed on; nil without TLS.
    var tls: TLSAgreement?
    var transport: any Transport
    var answer: [UInt8]
    var bytes: [UInt8]
  }

  private enum Phase: Sendable {
    case reading(ServerHandshake)
    /// Nothing is read until the decision has been made.
    case deciding
    /// Writing a refusal or a page, of which the first `written` bytes are out.
    case refusing([UInt8], written: Int)
    /// Waiting for the peer's end: it has its answer, which unread bytes must not reset away, or gets none.
    case draining
    case done
  }

  private struct State: Sendable {
    var phase = Phase.reading(ServerHandshake())
    var timer: LoopTimer?
  }

  private enum Step: Sendable {
    case wait
    case decide(ServerHandshake.Offer, bytes: [UInt8])
    /// Go on when others have had their turn.
    case `continue`
    case end
  }

  /// How many reads one connection gets before the others have their turn.
  private static let readsPerTurn = 8

  private let transport: HandoverTransport
  /// The transport under it where that is TLS.
  private let tls: TLSTransport?
  private let loop: any EventLoop
  /// The time from TCP's beginning to the decision, or to the last byte of a refusal.
  private let deadline: Duration
  private let subprotocols: [String]
  private let pages: [Page]
  private let admit: @Sendable (HTTPRequestHead) -> Admission
  private let completion: @Sendable (Opened?) -> Void
  private let state = Lock(State())

  /// - Parameter completion: called once, on the loop's thread or that of ``close()``; nil: no connection came of it.
  init(
    _ transport: any Transport, on loop: any EventLoop, deadline: Duration, subprotocols: [String], pages: [Page],
    admit: @escaping @Sendable (HTTPRequestHead) -> Admission, completion: @escaping @Sendable (Opened?) -> Void
  ) {
    self.transport = HandoverTransport(transport, on: loop)
    tls = transport as? TLSTransport
    self.loop = loop
    self.deadline = deadline
    self.subprotocols = subprotocols
    self.pages = pages
    self.admit = admit
    self.completion = completion
  }

  func start() {
    let timer = loop.schedule(after: deadline) { [weak self] in self?.close() }
    state.withLock { $0.timer = timer }
    do throws(TransportError) { try transport.start(self) } catch { close() }
  }

  /// Gives the handshake up and ends TCP.
  ///
  /// Does nothing once the connection was handed over.
  func close() { perform(.end) }

  func transportIsReady(_ transport: any Transport, readable: Bool, writable: Bool) {
    perform(state.withLock { advance(&$0) })
  }

  private func perform(_ step: Step) {
    switch step {
    case .wait: break
    case .continue:
      loop.execute { [weak self] in self.map { $0.transportIsReady($0.transport, readable: true, writable: false) } }
    case .decide(let offer, let bytes):
      decide(offer, bytes)
    case .end:
      let wasOpen = state.withLock { state in
        if case .done = state.phase { return false }
        finish(&state)
        return true
      }
      guard wasOpen else { return }
      transport.close()
      completion(nil)
    }
  }

  /// Takes the step that the transport allows now.
  private func advance(_ state: inout State) -> Step {
    // A flood must keep the loop neither from others nor from the deadline.
    var reads = 0
    while true {
      switch state.phase {
      case .reading(var handshake):
        switch transport.read(into: loop.readBuffer) {
        case .wouldBlock: return .wait
        case .end: return .end
        case .bytes(let count):
          let input = UnsafeRawBufferPointer(rebasing: loop.readBuffer[..<count])
          switch handshake.receive(input.bytes) {
          case .needsMore:
            state.phase = .reading(handshake)
            reads += 1
            if reads == Self.readsPerTurn { return .continue }
          case .plain(let head): state.phase = .refusing(answer(plain: head), written: 0)
          case .refuse(let head): state.phase = .refusing(head.encoded, written: 0)
          case .upgrade(let offer, let end):
            state.phase = .deciding
            return .decide(offer, bytes: Array(input[end...]))
          }
        }
      case .refusing(let bytes, var written):
        let outcome = bytes.withUnsafeBytes { transport.write(UnsafeRawBufferPointer(rebasing: $0[written...])) }
        switch outcome {
        case .wouldBlock: return .wait
        case .failed: return .end
        case .wrote(let count): written += count
        }
        state.phase = .refusing(bytes, written: written)
        guard written == bytes.count else { continue }
        transport.finishWriting()
        state.phase = .draining
      case .draining:
        switch transport.read(into: loop.readBuffer) {
        case .bytes:
          reads += 1
          if reads == Self.readsPerTurn { return .continue }
        case .wouldBlock: return .wait
        case .end: return .end
        }
      case .deciding, .done: return .wait
      }
    }
  }

  private func decide(_ offer: ServerHandshake.Offer, _ bytes: [UInt8]) {
    switch admit(offer.head) {
    case .accept: accept(offer, bytes)
    case .acceptAfter(let delay): _ = loop.schedule(after: delay) { [weak self] in self?.accept(offer, bytes) }
    case .refuse(let status):
      let fields: HTTPFields = [
        HTTPField(name: "Connection", value: "close"), HTTPField(name: "Content-Length", value: "0"),
      ]
      goOn(with: .refusing(HTTPResponseHead(status: status, reason: "Refused", fields: fields).encoded, written: 0))
    case .stall: goOn(with: .draining, hasDeadline: false)
    }
  }

  /// Hands the connection over, unless the handshake was given up meanwhile.
  private func accept(_ offer: ServerHandshake.Offer, _ bytes: [UInt8]) {
    let isWanted = state.withLock { state in
      guard case .deciding = state.phase else { return false }
      finish(&state)
      return true
    }
    guard isWanted else { return }
    let subprotocol = offer.subprotocols.first { subprotocols.contains($0) }
    completion(
      Opened(
        head: offer.head, subprotocol: subprotocol, tls: tls?.agreement, transport: transport,
        answer: offer.accepted(subprotocol: subprotocol).encoded, bytes: bytes))
  }

  /// Goes on where no connection comes of it, unless the handshake was given up meanwhile.
  private func goOn(with phase: Phase, hasDeadline: Bool = true) {
    let step = state.withLock { state -> Step in
      guard case .deciding = state.phase else { return .wait }
      state.phase = phase
      if !hasDeadline, let timer = state.timer.take() { loop.cancel(timer) }
      return advance(&state)
    }
    perform(step)
  }

  private func finish(_ state: inout State) {
    state.phase = .done
    if let timer = state.timer.take() { loop.cancel(timer) }
  }

  /// The answer to a request that asks for no upgrade: a page, or what is wanted (RFC 7231 §6.5.15).
  private func answer(plain head: HTTPRequestHead) -> [UInt8] {
    if head.method == "GET" || head.method == "HEAD" {
      if let page = pages.first(where: { $0.path == head.path }) { return page.answer(to: head) }
    }
    let body = Array("This is a WebSocket server. Connect with a WebSocket client.\n".utf8)
    let fields: HTTPFields = [
      HTTPField(name: "Upgrade", value: "websocket"),
      HTTPField(name: "Connection", value: "Upgrade, close"),
      HTTPField(name: "Sec-WebSocket-Version", value: "13"),
      HTTPField(name: "Content-Type", value: "text/plain; charset=utf-8"),
      HTTPField(name: "Content-Length", value: String(body.count)),
    ]
    let answer = HTTPResponseHead(status: 426, reason: "Upgrade Required", fields: fields).encoded
    return head.method == "HEAD" ? answer : answer + body
  }
}
