public import WebSocketHandling
import WebSocketTransport

/// A WebSocket that may be given values before it is open: for one instance of a channel.
///
/// What is given before the socket is open is kept and sent when it opens: of values that are published the newest, of
/// values that are sent all, within a limit, in their order. ``ChannelHandler/webSocket(_:over:for:maximumKept:problem:action:)``
/// is all that most channels need of it.
public final class ChannelSocket: Sendable {
  /// The error of every operation.
  public typealias Failure = EngineError.WebSocketError

  private enum Phase: Sendable {
    case idle
    case connecting
    case open
    case closed
  }

  private struct Kept: Sendable {
    /// Whether a newer one takes its place before the socket is open.
    let isPublished: Bool
    let send: @Sendable (any WebSocketHandler, @escaping @Sendable (Result<Void, Failure>) -> Void) -> Void
  }

  private struct State: Sendable {
    var phase = Phase.idle
    var kept: [Kept] = []
    /// Whether somebody sends what is kept, which keeps the order.
    var isFlushing = false
    var onEnd: (@Sendable (Failure?) -> Void)?

    mutating func beginFlushing() -> Bool {
      guard phase == .open, !isFlushing, !kept.isEmpty else { return false }
      isFlushing = true
      return true
    }

    mutating func takeKept() -> [Kept]? {
      isFlushing = phase == .open && !kept.isEmpty
      defer { kept = [] }
      return isFlushing ? kept : nil
    }
  }

  private let handler: any WebSocketHandler
  private let maximumKept: Int
  private let onProblem: @Sendable (Failure) -> Void
  private let state = Lock(State())

  /// A socket that is not connected.
  ///
  /// - Parameters:
  ///   - handler: makes the connection; nobody else may use it.
  ///   - maximumKept: the most values that are kept until the socket is open. One more is dropped, and told as
  ///     `limitExceeded`. Default: 1,000.
  ///   - onProblem: hears of each value that was not sent, and each message that cannot be decoded; the socket goes on.
  public init(
    _ handler: any WebSocketHandler, maximumKept: Int = 1_000, onProblem: @escaping @Sendable (Failure) -> Void
  ) {
    self.handler = handler
    self.maximumKept = maximumKept
    self.onProblem = onProblem
  }

  /// Connects, once, and receives messages until the connection ends.
  ///
  /// - Parameters:
  ///   - request: the server.
  ///   - onMessage: takes each message, and then calls the function it is given to have the next one.
  ///   - onEnd: hears how the connection ended, or why there was none; nil after a clean close. Not called after
  ///     ``close()``.
  public func open<Message: Decodable & Sendable>(
    _ request: NetworkRequest, onMessage: @escaping @Sendable (Message, @escaping @Sendable () -> Void) -> Void,
    onEnd: @escaping @Sendable (Failure?) -> Void
  ) {
    let mayConnect = state.withLock { state in
      guard state.phase == .idle else { return false }
      state.phase = .connecting
      state.onEnd = onEnd
      return true
    }
    guard mayConnect else { return }
    handler.connect(request: request) { [self] result in
      if case .failure(let failure) = result { return end(failure) }
      let (isWanted, mustFlush) = state.withLock { state in
        guard state.phase == .connecting else { return (false, false) }
        state.phase = .open
        return (true, state.beginFlushing())
      }
      // Closed in between, over a handler whose connect cannot be cancelled.
      guard isWanted else { return handler.disconnect { _ in } }
      if mustFlush { flush() }
      receive(onMessage)
    }
  }

  /// Sends a value; while the socket is not open it takes the place of the one published before.
  public func publish(_ value: some Encodable & Sendable) { give(value, isPublished: true) }

  /// Sends a value, after those given before.
  public func send(_ value: some Encodable & Sendable) { give(value, isPublished: false) }

  /// Closes the connection with code 1000, or gives up the connect; what is kept is dropped.
  public func close() {
    let (mustClose, onEnd) = state.withLock { state in
      defer { state.phase = .closed }
      state.kept = []
      return (state.phase == .connecting || state.phase == .open, state.onEnd.take())
    }
    _ = onEnd
    if mustClose { handler.disconnect { _ in } }
  }

  private func receive<Message: Decodable & Sendable>(
    _ onMessage: @escaping @Sendable (Message, @escaping @Sendable () -> Void) -> Void
  ) {
    handler.receive { [self] (result: Result<Message, Failure>) in
      guard state.withLock({ $0.phase == .open }) else { return }
      switch result {
      case .success(let message):
        onMessage(message) { [self] in receive(onMessage) }
      case .failure(let failure):
        guard failure.endsConnection else {
          onProblem(failure)
          return receive(onMessage)
        }
        if case .closed = failure { return end(failure) }
        // A handler that does not say that the connection is closed may still hold one.
        handler.disconnect { [self] _ in end(failure) }
      }
    }
  }

  private func end(_ failure: Failure) {
    let onEnd = state.withLock { state in
      state.phase = .closed
      state.kept = []
      return state.onEnd.take()
    }
    if case .closed(let record) = failure, record.isClean { onEnd?(nil) } else { onEnd?(failure) }
  }

  private func give<Value: Encodable & Sendable>(_ value: Value, isPublished: Bool) {
    let kept = Kept(isPublished: isPublished) { handler, completion in
      handler.send(message: value, completion: completion)
    }
    let (problem, mustFlush) = state.withLock { state -> (Failure?, Bool) in
      guard state.phase != .closed else { return (nil, false) }
      if isPublished, state.phase != .open { state.kept.removeAll { $0.isPublished } }
      if state.kept.count >= maximumKept {
        return (.limitExceeded(.sendQueue, size: state.kept.count + 1, limit: maximumKept), false)
      }
      state.kept.append(kept)
      return (nil, state.beginFlushing())
    }
    if let problem { onProblem(problem) }
    if mustFlush { flush() }
  }

  private func flush() {
    while let kept = state.withLock({ $0.takeKept() }) {
      for kept in kept {
        kept.send(handler) { [self] result in
          // The end of the connection is told by the receive.
          if case .failure(let failure) = result, !failure.endsConnection { onProblem(failure) }
        }
      }
    }
  }
}

extension ChannelHandler where Value: Encodable {
  /// A WebSocket as a channel: it is opened with the instance, and closed with it.
  ///
  /// Values of the state that come before the socket is open are kept, the newest; broadcasts are kept all, within a
  /// limit. Both are sent when it opens. The next message is received when the action of the one before was dispatched,
  /// so that a slow program holds the server back. When the connection fails or ends, the instance has ended.
  ///
  /// - Parameters:
  ///   - request: the server.
  ///   - handler: makes the connection; nobody else may use it. Default: a new one.
  ///   - context: what the channel's body was given.
  ///   - maximumKept: the most values that are kept until the socket is open. Default: 1,000.
  ///   - problem: the action for a message that cannot be decoded, or a value that was not sent. Default: a log line.
  ///   - action: the action for a message; nil: none.
  public static func webSocket<Action, Message: Decodable & Sendable>(
    _ request: NetworkRequest, over handler: any WebSocketHandler = DefaultWebSocketHandler(),
    for context: ChannelContext<Action>, maximumKept: Int = 1_000,
    problem: (@Sendable (EngineError.WebSocketError) -> Action?)? = nil,
    action: @escaping @Sendable (Message) -> Action?
  ) -> ChannelHandler {
    let socket = ChannelSocket(handler, maximumKept: maximumKept) { failure in
      guard let problem else { return log(failure) }
      if let action = problem(failure) { context.dispatch(action) }
    }
    socket.open(
      request,
      onMessage: { (message: Message, next) in
        if let action = action(message) { context.dispatch(action, then: next) } else { next() }
      },
      onEnd: { context.ended($0) })
    return ChannelHandler(
      receive: { socket.publish($0) }, broadcast: { socket.send($0) }, cancel: { socket.close() })
  }

  private static func log(_ failure: EngineError.WebSocketError) {
    DefaultLogger.shared.log(
      file: #fileID, function: #function, line: #line, logLevel: .warning, "a channel's socket: \(failure)")
  }
}
