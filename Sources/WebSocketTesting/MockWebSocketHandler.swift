public import Dispatch
import Foundation
import WebSocketCore
public import WebSocketHandling
import WebSocketTransport

/// A handler without a network: a test says what arrives and what fails, and reads what was sent.
///
/// Completions run on one serial queue, never inside the call and never under a lock. Every call succeeds unless it was
/// scripted otherwise or does not fit the state; then it fails as with ``DefaultWebSocketHandler``. Calls that show a
/// mistake are recorded in ``misuses``.
public final class MockWebSocketHandler: WebSocketHandler {
  /// The error of every operation.
  public typealias Failure = EngineError.WebSocketError

  /// The methods that can be scripted and held.
  public enum Method: Sendable, Hashable {
    /// `connect`.
    case connect
    /// Both forms of `disconnect`.
    case disconnect
    /// `send`.
    case send
    /// `receive`; a scripted success means that it is served as usual.
    case receive
    /// `ping`.
    case ping
  }

  private typealias Completion = @Sendable (Result<Void, Failure>) -> Void
  private typealias Work = @Sendable () -> Void

  private enum Connection {
    /// Never connected, or the last attempt failed.
    case none
    /// The attempt will have that result.
    case connecting(Result<Void, Failure>)
    case connected
    /// A disconnect is under way; its result, and how the connection will have ended.
    case closing(Result<Void, Failure>, Failure)
    case ended(Failure)
  }

  private struct State: Sendable {
    var connection = Connection.none
    var scripts: [Method: [Result<Void, Failure>]] = [:]
    var held: [Method: [Work]] = [:]
    var inbox: [WebSocketMessage] = []
    var receives: [any PendingReceive] = []
    /// Sends and pings that wait for the connect.
    var sends: [(message: WebSocketMessage, completion: Completion)] = []
    var pings: [Completion] = []
    /// Those that close the connection together.
    var disconnects: [Completion] = []
    var requests: [NetworkRequest] = []
    var sent: [WebSocketMessage] = []
    var closes: [CloseCode] = []
    var misuses: [String] = []
    /// Counts calls of `connect` that fitted.
    var attempt = 0

    mutating func scripted(_ method: Method) -> Result<Void, Failure> {
      guard let first = scripts[method]?.first else { return .success(()) }
      scripts[method]?.removeFirst()
      return first
    }

    mutating func send(_ message: WebSocketMessage) -> Result<Void, Failure> {
      let result = scripted(.send)
      if case .success = result { sent.append(message) }
      return result
    }

    /// Notes a call that needs a connection where there was none ever.
    mutating func note(_ call: String) {
      if attempt == 0 { misuses.append("\(call) before connect") }
    }

    /// Fails what waits.
    mutating func takeWaiting(_ failure: Failure) -> [Work] {
      defer { (sends, receives, pings) = ([], [], []) }
      var works: [Work] = []
      for (_, completion) in sends { works.append { completion(.failure(failure)) } }
      for receive in receives { works.append { receive.complete(.failure(failure)) } }
      for completion in pings { works.append { completion(.failure(failure)) } }
      return works
    }

    /// Answers what waited for the connect that has succeeded.
    mutating func takeReady() -> [(Method, Work)] {
      defer { (sends, pings) = ([], []) }
      var ready: [(Method, Work)] = []
      for (message, completion) in sends {
        let result = send(message)
        ready.append((.send, { completion(result) }))
      }
      for completion in pings {
        let result = scripted(.ping)
        ready.append((.ping, { completion(result) }))
      }
      return ready
    }

    mutating func takeDisconnects(_ result: Result<Void, Failure>) -> [Work] {
      defer { disconnects = [] }
      return disconnects.map { completion -> Work in { completion(result) } }
    }
  }

  private let queue: DispatchQueue
  private let onCall: @Sendable (Method) -> Void
  private let state = Lock(State())

  /// A handler that is not connected.
  ///
  /// - Parameters:
  ///   - queue: a serial queue for the completions. Default: one of its own.
  ///   - onCall: hears of each call once it has been taken in, on the caller's thread, so that a test can wait for it.
  public init(
    queue: DispatchQueue = DispatchQueue(label: "websocket.mock"),
    onCall: @escaping @Sendable (Method) -> Void = { _ in }
  ) {
    self.queue = queue
    self.onCall = onCall
  }

  /// Answers what waits: as cancelled, but for what was only kept back.
  deinit {
    let works = state.withLock { state -> [Work] in
      let connects = state.held.removeValue(forKey: .connect) ?? []
      var works = connects + state.takeWaiting(.cancelled) + state.held.values.flatMap(\.self)
      if case .closing(let result, _) = state.connection { works += state.takeDisconnects(result) }
      return works
    }
    for work in works { queue.async(execute: work) }
  }

  // MARK: What a test says

  /// Results for the next calls of that method, in order; afterwards calls succeed again.
  public func script(_ method: Method, _ results: Result<Void, Failure>...) {
    state.withLock { $0.scripts[method, default: []] += results }
  }

  /// Keeps the completions of that method back until ``release(_:)``.
  ///
  /// So long a connect is under way, and a disconnect closing; those that begin neither are not kept. For `receive` only
  /// those are that end at once, with a message that has arrived or an error.
  public func hold(_ method: Method) {
    state.withLock { $0.held[method, default: []] += [] }
  }

  /// Runs the completions that were kept back, in order, and keeps no more.
  public func release(_ method: Method) {
    let works = state.withLock { $0.held.removeValue(forKey: method) } ?? []
    for work in works { queue.async(execute: work) }
  }

  /// Lets a message arrive.
  ///
  /// Without a connection it is a misuse and is lost; while closing it is lost where no receive waits.
  public func inject(_ message: WebSocketMessage) {
    let receive = state.withLock { state -> (any PendingReceive)? in
      switch state.connection {
      case .none, .connecting, .ended: state.misuses.append("inject without a connection")
      case .connected, .closing:
        guard state.receives.isEmpty else { return state.receives.removeFirst() }
        if case .connected = state.connection { state.inbox.append(message) }
      }
      return nil
    }
    if let receive { queue.async { receive.complete(.success(message)) } }
  }

  /// Lets a value arrive as JSON in a text message.
  public func inject<T: Encodable>(_ value: T) throws {
    inject(try Self.message(of: value))
  }

  /// Loses the connection: what waits fails, and so does every later call until the next `connect`.
  ///
  /// Messages that arrived before are received first. A connect that is under way will fail; without either nothing
  /// happens.
  public func fail(with failure: Failure) {
    let (works, disconnects) = state.withLock { state -> ([Work], [Work]) in
      switch state.connection {
      case .none, .ended: return ([], [])
      case .connecting:
        state.connection = .connecting(.failure(failure))
        return ([], [])
      case .connected, .closing:
        state.connection = .ended(failure)
        return (state.takeWaiting(failure), state.takeDisconnects(.failure(failure)))
      }
    }
    for work in works { queue.async(execute: work) }
    for work in disconnects { finish(.disconnect, work) }
  }

  // MARK: What a test reads

  /// Every message of a `send` that succeeded, the oldest first.
  public var sent: [WebSocketMessage] { state.withLock { $0.sent } }

  /// What was sent, decoded from JSON.
  public func decodedSent<T: Decodable>(as type: T.Type) throws -> [T] {
    try sent.map { try JSONDecoder().decode(type, from: $0.data) }
  }

  /// The requests of all calls of `connect`.
  public var requests: [NetworkRequest] { state.withLock { $0.requests } }

  /// The close codes of all calls of `disconnect`.
  public var closes: [CloseCode] { state.withLock { $0.closes } }

  /// How many receives wait for a message.
  public var pendingReceives: Int { state.withLock { $0.receives.count } }

  /// The calls that show a mistake, in words; a test expects none.
  ///
  /// Other calls before the first `connect`, a `connect` before the end of a connection, and messages without one.
  public var misuses: [String] { state.withLock { $0.misuses } }

  // MARK: WebSocketHandler

  /// Connects as scripted; a second call before the connection's end is a misuse.
  public func connect(request: NetworkRequest, completion: @escaping @Sendable (Result<Void, Failure>) -> Void) {
    let attempt = state.withLock { state -> Int? in
      state.requests.append(request)
      switch state.connection {
      case .connecting, .connected, .closing:
        state.misuses.append("connect while connecting or connected")
        return nil
      case .none, .ended:
        state.connection = .connecting(state.scripted(.connect))
        state.inbox = []
        state.attempt += 1
        return state.attempt
      }
    }
    onCall(.connect)
    guard let attempt else {
      return queue.async { completion(.failure(.connectionFailed("WebSocket is already connected"))) }
    }
    finish(.connect) { [weak self] in
      guard let self else { return completion(.failure(.cancelled)) }
      finishConnecting(attempt, completion)
    }
  }

  /// Ends an attempt: `connect` first, then what waited for it.
  private func finishConnecting(_ attempt: Int, _ completion: Completion) {
    let (result, failed, ready) = state.withLock { state -> (Result<Void, Failure>, [Work], [(Method, Work)]) in
      guard state.attempt == attempt, case .connecting(let result) = state.connection else {
        return (.failure(.cancelled), [], [])
      }
      switch result {
      case .success:
        state.connection = .connected
        return (result, [], state.takeReady())
      case .failure(let failure):
        state.connection = .none
        return (result, state.takeWaiting(failure), [])
      }
    }
    completion(result)
    for work in failed { work() }
    for (method, work) in ready { finish(method, work) }
  }

  /// Ends the connection; before the first `connect` it is a misuse.
  public func disconnect(completion: @escaping @Sendable (Result<Void, Failure>) -> Void) {
    disconnect(code: .normalClosure, reason: "", completion: completion)
  }

  /// Ends the connection and records the code.
  public func disconnect(
    code: CloseCode, reason: String, completion: @escaping @Sendable (Result<Void, Failure>) -> Void
  ) {
    let refusal = Self.refusal(code, reason)
    // Nil: the completion is among those of the connection that is closing.
    let (result, waiting, begins) = state.withLock { state -> (Result<Void, Failure>?, [Work], Bool) in
      state.closes.append(code)
      if let refusal { return (.failure(refusal), [], false) }
      switch state.connection {
      case .none, .ended:
        state.note("disconnect")
        return (.failure(.connectionFailed("WebSocket is not connected")), [], false)
      case .connecting:
        state.connection = .none
        return (state.scripted(.disconnect), state.takeWaiting(.cancelled), false)
      case .connected:
        let result = state.scripted(.disconnect)
        state.connection = .closing(result, .closed(Self.record(of: result, code, reason)))
        state.disconnects = [completion]
        return (nil, [], true)
      case .closing:
        state.disconnects.append(completion)
        return (nil, [], false)
      }
    }
    onCall(.disconnect)
    for work in waiting { queue.async(execute: work) }
    if let result {
      queue.async { completion(result) }
    } else if begins {
      finish(.disconnect) { [weak self] in self?.finishClosing() }
    }
  }

  private static func refusal(_ code: CloseCode, _ reason: String) -> Failure? {
    guard code.mayBeSent else { return .misuse(.closeCode(code.rawValue)) }
    let (size, limit) = (reason.utf8.count, ClosePayload.maximumReasonBytes)
    return size > limit ? .limitExceeded(.closeReason, size: size, limit: limit) : nil
  }

  /// How a connection ends whose disconnect has that result.
  private static func record(of result: Result<Void, Failure>, _ code: CloseCode, _ reason: String) -> CloseRecord {
    switch result {
    case .success: CloseRecord(code: code, reason: reason, initiator: .local, isClean: true, transportEnd: .finished)
    case .failure(.closed(let record)): record
    case .failure:
      CloseRecord(code: .abnormalClosure, initiator: .local, isClean: false, transportEnd: .timedOut)
    }
  }

  /// Ends a connection that is closing: receives first, `disconnect` last.
  private func finishClosing() {
    let works = state.withLock { state -> [Work] in
      guard case .closing(let result, let failure) = state.connection else { return [] }
      state.connection = .ended(failure)
      return state.takeWaiting(failure) + state.takeDisconnects(result)
    }
    for work in works { work() }
  }

  /// Records the message, unless the script or the state says otherwise; waits for a connect that is under way.
  public func send<T: Encodable>(message: T, completion: @escaping @Sendable (Result<Void, Failure>) -> Void) {
    var result: Result<Void, Failure>?
    do {
      let message = try Self.message(of: message)
      result = state.withLock { state in
        switch state.connection {
        case .none:
          state.note("send")
          return .failure(.messageSendFailed("WebSocket is not connected"))
        case .connecting:
          state.sends.append((message, completion))
          return nil
        case .connected: return state.send(message)
        case .closing: return .failure(.closing)
        case .ended(let failure): return .failure(failure)
        }
      }
    } catch {
      result = .failure(.unencodable(reason: "\(error)", errorType: "\(type(of: error))"))
    }
    onCall(.send)
    if let result { finish(.send) { completion(result) } }
  }

  /// Takes the next message, or waits for one; first asked, first served.
  public func receive<T: Decodable>(completion: @escaping @Sendable (Result<T, Failure>) -> Void) {
    let waiting: any PendingReceive = TypedReceive(completion: completion)
    let result = state.withLock { state -> Result<WebSocketMessage, Failure>? in
      switch state.connection {
      case .none:
        state.note("receive")
        return .failure(.messageReceiveFailed("WebSocket is not connected"))
      case .ended(let failure):
        return state.inbox.isEmpty ? .failure(failure) : .success(state.inbox.removeFirst())
      case .connecting, .connected, .closing:
        if case .failure(let failure) = state.scripted(.receive) { return .failure(failure) }
        guard state.inbox.isEmpty else { return .success(state.inbox.removeFirst()) }
        state.receives.append(waiting)
        return nil
      }
    }
    onCall(.receive)
    if let result { finish(.receive) { waiting.complete(result) } }
  }

  /// Answers at once with a round trip of zero; waits for a connect that is under way.
  public func ping(completion: @escaping @Sendable (Result<Duration, Failure>) -> Void) {
    let answer: Completion = { completion($0.map { .zero }) }
    let result = state.withLock { state -> Result<Void, Failure>? in
      switch state.connection {
      case .none:
        state.note("ping")
        return .failure(.messageSendFailed("WebSocket is not connected"))
      case .connecting:
        state.pings.append(answer)
        return nil
      case .connected: return state.scripted(.ping)
      case .closing: return .failure(.closing)
      case .ended(let failure): return .failure(failure)
      }
    }
    onCall(.ping)
    if let result { finish(.ping) { answer(result) } }
  }

  // MARK: Helpers

  /// Runs a completion later, or keeps it where its method is held.
  private func finish(_ method: Method, _ work: @escaping Work) {
    let isHeld = state.withLock { state in
      state.held[method]?.append(work)
      return state.held[method] != nil
    }
    if !isHeld { queue.async(execute: work) }
  }

  private static func message<T: Encodable>(of value: T) throws -> WebSocketMessage {
    if let message = value as? WebSocketMessage { return message }
    return .text(String(decoding: try JSONEncoder().encode(value), as: UTF8.self))
  }
}

/// A receive that waits, whatever type it asks for.
private protocol PendingReceive: Sendable {
  func complete(_ result: Result<WebSocketMessage, EngineError.WebSocketError>)
}

private struct TypedReceive<Value: Decodable>: PendingReceive {
  let completion: @Sendable (Result<Value, EngineError.WebSocketError>) -> Void

  func complete(_ result: Result<WebSocketMessage, EngineError.WebSocketError>) {
    completion(result.flatMap(decode))
  }

  private func decode(_ message: WebSocketMessage) -> Result<Value, EngineError.WebSocketError> {
    if let message = message as? Value { return .success(message) }
    do {
      return .success(try JSONDecoder().decode(Value.self, from: message.data))
    } catch {
      return .failure(.undecodable(message, reason: "\(error)", errorType: "\(type(of: error))"))
    }
  }
}
