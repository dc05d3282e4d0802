import Foundation
public import WebSocketCore
public import WebSocketHandling
import WebSocketTransport

/// The server's end of a connection in a ``ManualEnvironment``, played by the test.
///
/// What it sends arrives when the environment runs next, each call by itself. What it reads must be there: reading
/// lets everything happen first that is due, then takes or throws.
public final class MemoryConnection: Sendable {
  /// The address that the client dialled, with its port.
  public let address: String

  private let transport: MemoryTransport

  init(address: String, transport: MemoryTransport) {
    self.address = address
    self.transport = transport
  }

  // MARK: Sending

  /// Sends bytes, in pieces of `piece` bytes where one is given; each piece arrives by itself.
  public func send(_ bytes: [UInt8], piece: Int? = nil) {
    let size = max(1, piece ?? bytes.count)
    for start in stride(from: 0, to: bytes.count, by: size) {
      let part = Array(bytes[start..<min(start + size, bytes.count)])
      transport.happen { state in
        guard state.end == nil else { return (readable: false, writable: false) }
        state.incoming += part
        return (readable: true, writable: false)
      }
    }
  }

  /// Sends text as it is, such as the head of an answer.
  public func send(text: String) { send(Array(text.utf8)) }

  /// Sends a message in one frame.
  public func send(_ message: WebSocketMessage) {
    send(frame: Frame(message.kind == .text ? .text : .binary, message.data))
  }

  /// Sends a Close frame, whatever its code.
  public func sendClose(_ code: CloseCode, reason: String = "") { send(frame: Frame.close(code.rawValue, reason)) }

  package func send(frame: Frame) { send(frame.encoded()) }

  /// Ends the stream to the client (TCP FIN); what the client sends can still be read.
  public func finish() {
    transport.happen { state in
      state.end = state.end ?? .finished
      return (readable: true, writable: false)
    }
  }

  /// Resets the connection (TCP RST): what the client has not read is lost, and its next write fails.
  public func reset() {
    transport.happen { state in
      state.incoming = []
      state.end = .reset
      return (readable: true, writable: true)
    }
  }

  // MARK: Reading

  /// Reads the opening handshake's request and returns its text, the empty line included.
  @discardableResult
  public func readRequest() throws -> String { try take { $0.takeRequest() } }

  /// A correct answer to the request, ready to be sent with whatever follows it.
  ///
  /// - Parameter fields: further lines of the head, each ending in CRLF.
  public func answer(to request: String, adding fields: String = "") throws -> [UInt8] {
    try ClientBytes.answer(to: request, adding: fields)
  }

  /// Reads the request and opens the connection, with `bytes` glued to the answer.
  public func open(with bytes: [UInt8] = []) throws { send(try answer(to: readRequest()) + bytes) }

  /// Reads the client's next frame, strictly: it must be masked and minimal.
  package func readFrame() throws -> Frame { try take { bytes throws(ScriptFailure) in try bytes.takeFrame() } }

  /// Reads the client's next frame, which must hold a whole message.
  public func readMessage() throws -> WebSocketMessage {
    let frame = try readFrame()
    switch frame.opcode {
    case .text where frame.isFinal: return .text(String(decoding: frame.payload, as: UTF8.self))
    case .binary where frame.isFinal: return .binary(Data(frame.payload))
    case .text, .binary, .continuation, .close, .ping, .pong: throw ScriptFailure.otherFrame("\(frame)")
    }
  }

  /// Reads the client's next frame, which must be a Close, and returns its code.
  @discardableResult
  public func readClose() throws -> CloseCode {
    let frame = try readFrame()
    guard frame.opcode == .close else { throw ScriptFailure.otherFrame("\(frame)") }
    guard frame.payload.count >= 2 else { return .noStatusReceived }
    return CloseCode(UInt16(frame.payload[0]) << 8 | UInt16(frame.payload[1]))
  }

  /// What the client sent and was not read, after everything that is due has happened.
  public var unread: [UInt8] {
    settle()
    return transport.state.withLock { $0.outgoing.rest }
  }

  /// How many bytes have arrived that the client has not read.
  public var unreadByClient: Int {
    settle()
    return transport.state.withLock { $0.incoming.count }
  }

  /// Whether the client has ended its stream or closed the connection.
  public var clientHasFinished: Bool {
    settle()
    return transport.state.withLock { $0.hasFinished }
  }

  /// Whether the client has closed the connection.
  public var clientHasClosed: Bool {
    settle()
    return transport.state.withLock { $0.isClosed }
  }

  private func take<Value>(_ take: (inout ClientBytes) throws(ScriptFailure) -> Value?) throws -> Value {
    settle()
    return try transport.state.withLock { state throws(ScriptFailure) in
      if let value = try take(&state.outgoing) { return value }
      throw state.hasFinished ? .ended : .missing
    }
  }

  private func settle() {
    if !transport.loop.isRunning { transport.loop.advance(by: .zero) }
  }

  // MARK: The way from the client

  /// How many more bytes the client can write before it must wait; nil: any number, as in the beginning.
  ///
  /// Holds at once; a client that waits hears of it when the environment runs next.
  public func setWriteRoom(_ bytes: Int?) {
    transport.state.withLock { $0.room = bytes }
    transport.happen { state in
      guard state.isWriteBlocked, state.room != 0 else { return (readable: false, writable: false) }
      state.isWriteBlocked = false
      return (readable: false, writable: true)
    }
  }

  /// The most bytes that one write of the client's takes, at once.
  ///
  /// In the beginning any number.
  public func setLargestWrite(_ bytes: Int) { transport.state.withLock { $0.largestWrite = max(1, bytes) } }
}
