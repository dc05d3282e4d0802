import Foundation
public import WebSocketCore
public import WebSocketTransport

/// A WebSocket client (RFC 6455) on sockets of the operating system.
///
/// Callbacks are serial and in order, by default on a private queue; any method may be called from any thread and any
/// callback. Releasing the last reference closes the connection with 1001 and fails what is pending as
/// ``EngineError/WebSocketError/cancelled``.
public final class DefaultWebSocketHandler: WebSocketHandler {
  let driver: ConnectionDriver
  private let decoder: MessageDecoder
  private let sendsJSONAsText: Bool

  /// A handler without a connection.
  ///
  /// - Parameters:
  ///   - logger: takes the log lines; default: standard error, from ``LogLevel/info`` up.
  ///   - responseHandler: decodes what `receive` asks for; default: JSON.
  ///   - configuration: limits, and where callbacks run.
  ///   - environment: clock, sockets and random bytes; tests bring their own.
  public init(
    logger: any Logger = DefaultLogger.shared,
    responseHandler: any HTTPResponseHandler = DefaultHTTPResponseHandler(),
    configuration: HandlerConfiguration = HandlerConfiguration(), environment: Environment = .system
  ) {
    decoder = MessageDecoder(responseHandler: responseHandler, logger: logger)
    sendsJSONAsText = configuration.sendsJSONAsText
    driver = ConnectionDriver(
      role: .client, configuration: configuration, environment: environment, loop: environment.makeLoop(),
      logger: logger)
  }

  deinit { driver.release() }

  /// Opens a connection; fails where one is open or being opened.
  public func connect(
    request: NetworkRequest, completion: @escaping @Sendable (Result<Void, EngineError.WebSocketError>) -> Void
  ) {
    do throws(EngineError.WebSocketError) {
      driver.connect(try Endpoint(request), times: request.times, completion: completion)
    } catch {
      driver.reject(completion, error)
    }
  }

  /// Closes the connection with code 1000 after what was queued; fails where there is none.
  public func disconnect(completion: @escaping @Sendable (Result<Void, EngineError.WebSocketError>) -> Void) {
    disconnect(code: .normalClosure, reason: "", completion: completion)
  }

  /// Closes the connection with a code that may be sent and a reason of at most 123 bytes of UTF-8.
  public func disconnect(
    code: CloseCode, reason: String,
    completion: @escaping @Sendable (Result<Void, EngineError.WebSocketError>) -> Void
  ) {
    guard code.mayBeSent else { return driver.reject(completion, .misuse(.closeCode(code.rawValue))) }
    guard let payload = ClosePayload(sending: code, reason: reason) else {
      return driver.reject(
        completion,
        .limitExceeded(.closeReason, size: reason.utf8.count, limit: ClosePayload.maximumReasonBytes))
    }
    driver.disconnect(payload, completion: completion)
  }

  /// Sends one message; waits for a connect that is in progress.
  public func send<T>(
    message: T, completion: @escaping @Sendable (Result<Void, EngineError.WebSocketError>) -> Void
  ) where T: Encodable {
    if T.self == WebSocketMessage.self {
      // Safe: the two types are the same one, and so is their form in memory. Lent, so that no copy counts references.
      withUnsafePointer(to: message) { message in
        let lent = UnsafeRawPointer(message).assumingMemoryBound(to: LentValue<WebSocketMessage>.self)
        send(lent.pointee, completion: completion)
      }
      return
    }
    do throws(EngineError.WebSocketError) {
      let (kind, payload) = try encode(message)
      driver.send(kind, payload, completion: completion)
    } catch {
      driver.reject(completion, error)
    }
  }

  private func send(
    _ message: borrowing LentValue<WebSocketMessage>,
    completion: @escaping @Sendable (Result<Void, EngineError.WebSocketError>) -> Void
  ) {
    driver.send(message.value, completion: completion)
  }

  /// Sends one message; returns when the operating system has taken its last byte.
  ///
  /// Where the send queue is full it waits for room; the message is held by the caller so long.
  ///
  /// - Throws: as the callback form, but for a full queue; `cancelled` where the task is cancelled while it waits for
  ///   room.
  public func send<T: Encodable & Sendable>(message: T) async throws(EngineError.WebSocketError) {
    let (kind, payload) = try encode(message)
    while true {
      // Made under the connection's lock, and only where the message is not written at once.
      var answer: Promise<Result<Void, EngineError.WebSocketError>>?
      let outcome = driver.send(kind, payload) {
        let promise = Promise<Result<Void, EngineError.WebSocketError>>()
        answer = promise
        return { promise.give($0) }
      }
      switch outcome {
      case .written: return
      case .refused(.limitExceeded(.sendQueue, size: _, limit: _)): try await waitForRoom()
      case .refused(let error), .failed(let error): throw error
      case .pending:
        if let answer { try await answer.wait().get() }
        return
      }
    }
  }

  private func waitForRoom() async throws(EngineError.WebSocketError) {
    let waiter = Promise<Void>()
    driver.waitForRoom(waiter)
    await withTaskCancellationHandler {
      await waiter.wait()
    } onCancel: {
      driver.stopWaiting(waiter)
    }
    if Task.isCancelled { throw .cancelled }
  }

  private func encode<T: Encodable>(_ message: T) throws(EngineError.WebSocketError) -> (MessageKind, Payload) {
    if let message = identical(message, as: WebSocketMessage.self) {
      return (message.kind, message.payload)
    }
    do {
      return (sendsJSONAsText ? .text : .binary, .data(try JSONEncoder().encode(message)))
    } catch {
      throw .unencodable(reason: String(describing: error), errorType: String(describing: type(of: error)))
    }
  }

  /// Sends a message without telling when it is written.
  ///
  /// What cannot be sent is logged.
  public func send(_ message: WebSocketMessage) { driver.send(message, completion: nil) }

  /// Sends a borrowed message on, without a copy of the caller's.
  public func send(_ message: borrowing BorrowedMessage) { driver.send(message) }

  /// Waits for the next message; kept ones come first, also after the end.
  public func receive<T>(completion: @escaping @Sendable (Result<T, EngineError.WebSocketError>) -> Void)
  where T: Decodable {
    if T.self == WebSocketMessage.self {
      // Safe: the two types are the same one, and so is the form in which their container holds a closure.
      let completion = unsafeBitCast(ReceiveCompletion(call: completion), to: MessageCompletion.self)
      driver.receive(.message(completion))
    } else {
      driver.receive(.pending(DecodingReceive(decoder, completion)))
    }
  }

  /// Installs a standing receiver of borrowed messages, valid during the call only; nil removes it.
  ///
  /// Messages kept so far come first. While it is installed, `receive` fails as
  /// ``EngineError/WebSocketError/misuse(_:)``.
  public func onMessage(_ receiver: (@Sendable (borrowing BorrowedMessage) -> Void)?) { driver.onMessage(receiver) }

  /// Hears once of each end of a connection, on the callbacks' thread, after its last message; nil removes it.
  ///
  /// The only way to learn of an end while a receiver is installed. Pending calls are answered as well.
  public func onClose(_ body: (@Sendable (CloseRecord) -> Void)?) { driver.onEnd(body) }

  /// Hears each time that the send queue, having grown above ``HandlerConfiguration/sendQueueLowMark``, has fallen to
  /// it: the moment to send on after a send was refused; nil removes it.
  public func onSendQueueLow(_ body: (@Sendable () -> Void)?) { driver.onSendQueueLow(body) }

  /// Sends a ping and completes with the time to its pong; 16 may wait at a time.
  public func ping(completion: @escaping @Sendable (Result<Duration, EngineError.WebSocketError>) -> Void) {
    driver.ping(completion)
  }

  /// The server's answer to the opening handshake of the current or last connection.
  public var handshake: HandshakeAnswer? { driver.answer }

  /// What waits to be written: payload bytes, and messages.
  public var buffered: (bytes: Int, messages: Int) { driver.buffered }

  /// How long the pongs of the current or last connection took.
  public var roundTripTimes: RoundTripTimes { driver.roundTripTimes }

  /// What was counted so far, and what waits now.
  ///
  /// Nil where the configuration asks for neither ``HandlerConfiguration/countsTraffic`` nor
  /// ``HandlerConfiguration/onEvent``.
  public var metrics: HandlerMetrics? { driver.metrics }

  /// The next message where one is kept; for the async layer, which then need not suspend.
  @usableFromInline
  func takeMessage() -> WebSocketMessage? { driver.takeMessage() }

  /// Asks for the next message for a task that it wakes.
  func receive(_ pending: any PendingReceive) { driver.receive(.pending(pending)) }

  /// Takes a receive back; false where it is answered already.
  func withdraw(_ pending: any PendingReceive) -> Bool { driver.withdraw(pending) }

  /// Decodes a message as `receive` does.
  @usableFromInline
  func decode<T: Decodable>(_ message: WebSocketMessage, as type: T.Type) throws(EngineError.WebSocketError) -> T {
    try decoder.decode(message, as: type)
  }
}
