public import Dispatch
import Foundation
public import WebSocketHandling
import WebSocketTransport

/// A handler without a network: a test says what arrives and what fails, and reads what was sent.
///
/// Completions run on one serial queue, never inside the call and never under a lock. Every call succeeds unless it was
/// scripted otherwise or does not fit the state. Calls that do not fit are recorded in ``misuses``.
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

  private enum Connection {
    case none
    case connecting
    case connected
    case ended(Failure)
  }

  private struct State: Sendable {
    var connection = Connection.none
    var scripts: [Method: [Result<Void, Failure>]] = [:]
    var held: [Method: [@Sendable () -> Void]] = [:]
    var inbox: [WebSocketMessage] = []
    var receives: [any PendingReceive] = []
    var requests: [NetworkRequest] = []
    var sent: [WebSocketMessage] = []
    var closes: [CloseCode] = []
    var misuses: [String] = []
    var attempt = 0

    mutating func scripted(_ method: Method) -> Result<Void, Failure> {
      guard let first = scripts[method]?.first else { return .success(()) }
      scripts[method]?.removeFirst()
      return first
    }

    /// Ends the connection and gives back the receives that wait.
    mutating func end(_ failure: Failure) -> [any PendingReceive] {
      connection = .ended(failure)
      inbox = []
      defer { receives = [] }
      return receives
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

  // MARK: What a test says

  /// Results for the next calls of that method, in order; afterwards calls succeed again.
  public func script(_ method: Method, _ results: Result<Void, Failure>...) {
    state.withLock { $0.scripts[method, default: []] += results }
  }

  /// Keeps the completions of that method back until ``release(_:)``.
  ///
  /// For `receive` only those that end at once, with a message that has arrived or an error.
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
  /// Without a connection it is a misuse and is lost.
  public func inject(_ message: WebSocketMessage) {
    let receive = state.withLock { state -> (any PendingReceive)? in
      guard case .connected = state.connection else {
        state.misuses.append("inject without a connection")
        return nil
      }
      guard state.receives.isEmpty else { return state.receives.removeFirst() }
      state.inbox.append(message)
      return nil
    }
    if let receive { queue.async { receive.complete(.success(message)) } }
  }

  /// Lets a value arrive as JSON in a text message.
  public func inject<T: Encodable>(_ value: T) throws {
    inject(try Self.message(of: value))
  }

  /// Loses the connection: receives that wait fail, and so does every later call until the next `connect`.
  ///
  /// Messages that nobody has received are lost.
  public func fail(with failure: Failure) {
    let receives = state.withLock { $0.end(failure) }
    queue.async { for receive in receives { receive.complete(.failure(failure)) } }
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

  /// The calls that did not fit the state, in words; a test expects none.
  public var misuses: [String] { state.withLock { $0.misuses } }

  // MARK: WebSocketHandler

  /// Connects as scripted; a second call while connected is a misuse.
  public func connect(request: NetworkRequest, completion: @escaping @Sendable (Result<Void, Failure>) -> Void) {
    let begun = state.withLock { state -> (attempt: Int, result: Result<Void, Failure>)? in
      state.requests.append(request)
      switch state.connection {
      case .connecting, .connected:
        state.misuses.append("connect while connecting or connected")
        return nil
      case .none, .ended:
        state.connection = .connecting
        state.attempt += 1
        return (state.attempt, state.scripted(.connect))
      }
    }
    guard let begun else {
      return complete(.connect) { completion(.failure(.connectionFailed("already connected"))) }
    }
    complete(.connect) { [self] in finishConnecting(begun.attempt, begun.result, completion) }
  }

  private func finishConnecting(
    _ attempt: Int, _ scripted: Result<Void, Failure>, _ completion: @Sendable (Result<Void, Failure>) -> Void
  ) {
    let (result, receives) = state.withLock { state in
      guard state.attempt == attempt, case .connecting = state.connection else {
        return (Result<Void, Failure>.failure(.cancelled), [any PendingReceive]())
      }
      switch scripted {
      case .success:
        state.connection = .connected
        return (scripted, [])
      case .failure(let failure):
        return (scripted, state.end(failure))
      }
    }
    completion(result)
    if case .failure(let failure) = result {
      for receive in receives { receive.complete(.failure(failure)) }
    }
  }

  /// Ends the connection; before the first `connect` it is a misuse.
  public func disconnect(completion: @escaping @Sendable (Result<Void, Failure>) -> Void) {
    disconnect(code: .normalClosure, reason: "", completion: completion)
  }

  /// Ends the connection and records the code.
  public func disconnect(
    code: CloseCode, reason: String, completion: @escaping @Sendable (Result<Void, Failure>) -> Void
  ) {
    let closed = Failure.closed(
      CloseRecord(code: code, reason: reason, initiator: .local, isClean: true, transportEnd: .finished))
    let (result, receives) = state.withLock { state in
      state.closes.append(code)
      switch state.connection {
      case .none:
        state.misuses.append("disconnect before connect")
        return (
          Result<Void, Failure>.failure(.connectionFailed("never connected")),
          [any PendingReceive]()
        )
      case .connecting, .connected, .ended:
        return (state.scripted(.disconnect), state.end(closed))
      }
    }
    queue.async { for receive in receives { receive.complete(.failure(closed)) } }
    complete(.disconnect) { completion(result) }
  }

  /// Records the message, unless the script or the state says otherwise.
  public func send<T: Encodable>(message: T, completion: @escaping @Sendable (Result<Void, Failure>) -> Void) {
    let encoded: WebSocketMessage
    do {
      encoded = try Self.message(of: message)
    } catch {
      let failure = Failure.unencodable(reason: "\(error)", errorType: "\(type(of: error))")
      return complete(.send) { completion(.failure(failure)) }
    }
    let result = state.withLock { state -> Result<Void, Failure> in
      switch state.connection {
      case .none:
        state.misuses.append("send before connect")
        return .failure(.messageSendFailed("never connected"))
      case .ended(let failure):
        return .failure(failure)
      case .connecting, .connected:
        let result = state.scripted(.send)
        if case .success = result { state.sent.append(encoded) }
        return result
      }
    }
    complete(.send) { completion(result) }
  }

  /// Takes the next message, or waits for one; first asked, first served.
  public func receive<T: Decodable>(completion: @escaping @Sendable (Result<T, Failure>) -> Void) {
    let waiting: any PendingReceive = TypedReceive(completion: completion)
    let result = state.withLock { state -> Result<WebSocketMessage, Failure>? in
      switch state.connection {
      case .none:
        state.misuses.append("receive before connect")
        return .failure(.messageReceiveFailed("never connected"))
      case .ended(let failure):
        return .failure(failure)
      case .connecting, .connected:
        if case .failure(let failure) = state.scripted(.receive) { return .failure(failure) }
        guard state.inbox.isEmpty else { return .success(state.inbox.removeFirst()) }
        state.receives.append(waiting)
        return nil
      }
    }
    guard let result else { return onCall(.receive) }
    complete(.receive) { waiting.complete(result) }
  }

  /// Answers at once with a round trip of zero.
  public func ping(completion: @escaping @Sendable (Result<Duration, Failure>) -> Void) {
    let result = state.withLock { state -> Result<Duration, Failure> in
      switch state.connection {
      case .none:
        state.misuses.append("ping before connect")
        return .failure(.connectionFailed("never connected"))
      case .ended(let failure):
        return .failure(failure)
      case .connecting, .connected:
        return state.scripted(.ping).map { .zero }
      }
    }
    complete(.ping) { completion(result) }
  }

  // MARK: Helpers

  /// Runs a completion later, or keeps it where its method is held.
  private func complete(_ method: Method, _ work: @escaping @Sendable () -> Void) {
    onCall(method)
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
