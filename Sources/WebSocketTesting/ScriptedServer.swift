public import Foundation
import Glibc
public import WebSocketCore
import WebSocketTransport

/// A raw TCP server on loopback that plays a script to each connection, for tests of what a real server would not do.
///
/// The script runs on a thread of its own and blocks there for as long as it takes: a test bounds its own time, so that
/// a slow machine does not change what the script does.
public final class ScriptedServer: Sendable {
  /// The port that the system picked.
  public let port: Int
  /// The URL of the server.
  public let url: URL

  private let listener: FileDescriptor
  private let failuresSeen = Lock<[ScriptFailure]>([])

  /// Listens and plays `script` to each connection in turn of their arrival, each on its own thread.
  ///
  /// - Parameter host: an address of this machine's loopback interface, IPv4 or IPv6 without brackets.
  public init(
    host: String = "127.0.0.1", _ script: @escaping @Sendable (ScriptedConnection) throws -> Void
  ) throws {
    guard let address = SocketAddress.literal(host: host, port: 0) else { throw ScriptFailure.io("address") }
    listener = try Socket.listen(on: address, backlog: 1024)
    let bound = try Socket.localAddress(listener)
    guard let port = bound.port, let url = URL(string: "ws://\(bound)/") else { throw ScriptFailure.io("port") }
    self.port = port
    self.url = url
    // Closed on exec, like every descriptor here: a process that a test starts must not hold a connection open.
    let listening = FileDescriptor(owning: fcntl(listener.rawValue, F_DUPFD_CLOEXEC, 0))
    Thread { [weak self] in
      while true {
        var event = pollfd(fd: listening.rawValue, events: Int16(POLLIN), revents: 0)
        _ = poll(&event, 1, 100)
        guard self != nil else { return }
        let accepted: FileDescriptor?
        do throws(TransportError) { accepted = try Socket.accept(listening) } catch { return }
        guard let descriptor = accepted?.release() else { continue }
        Thread { [weak self] in
          let connection = ScriptedConnection(FileDescriptor(owning: descriptor))
          do {
            try script(connection)
          } catch {
            let failure = error as? ScriptFailure ?? .io("\(error)")
            self?.failuresSeen.withLock { $0.append(failure) }
          }
        }.start()
      }
    }.start()
  }

  /// What went against a script.
  public var failures: [ScriptFailure] { failuresSeen.withLock { $0 } }
}

/// What went against a script.
public enum ScriptFailure: Error, Sendable, Hashable {
  /// The client ended the stream where the script wanted more.
  case ended
  /// The client broke the protocol.
  case violation(ProtocolViolation)
  /// What the script wants has not come.
  case missing
  /// The client sent another frame than the script wants; in words.
  case otherFrame(String)
  /// The request is no opening handshake.
  case notAHandshake
  /// A system call failed.
  case io(String)
}

/// One connection of a ``ScriptedServer``.
///
/// Used by its script alone.
public final class ScriptedConnection: Sendable {
  private let descriptor: FileDescriptor
  private let unread = Lock(ClientBytes())

  init(_ descriptor: consuming FileDescriptor) {
    self.descriptor = descriptor
    Socket.disableDelay(self.descriptor)
    let flags = fcntl(self.descriptor.rawValue, F_GETFL)
    _ = fcntl(self.descriptor.rawValue, F_SETFL, flags & ~O_NONBLOCK)
  }

  /// Reads the request head and returns its text, the empty line included.
  @discardableResult
  public func readRequest() throws -> String { try take { $0.takeRequest() } }

  /// A correct answer to the request, ready to be sent with whatever follows it.
  ///
  /// - Parameter fields: further lines of the head, each ending in CRLF.
  public func answer(to request: String, adding fields: String = "") throws -> [UInt8] {
    try ClientBytes.answer(to: request, adding: fields)
  }

  /// Reads the request and opens the connection, with `bytes` glued to the answer.
  public func open(with bytes: [UInt8] = []) throws { try send(answer(to: readRequest()) + bytes) }

  /// Sends bytes, in pieces of `piece` bytes where one is given.
  public func send(_ bytes: [UInt8], piece: Int? = nil) throws {
    let size = max(1, piece ?? bytes.count)
    for start in stride(from: 0, to: bytes.count, by: size) {
      var sent = start
      let end = min(start + size, bytes.count)
      while sent < end {
        let from = sent
        let outcome = bytes.withUnsafeBytes {
          Socket.write(descriptor, UnsafeRawBufferPointer(rebasing: $0[from..<end]))
        }
        guard case .wrote(let count) = outcome else { throw ScriptFailure.io("send: \(outcome)") }
        sent += count
      }
    }
  }

  /// Sends text.
  public func send(text: String) throws { try send(Array(text.utf8)) }

  /// Reads the client's next frame, strictly: it must be masked and minimal.
  package func readFrame() throws -> Frame { try readMaskedFrame().frame }

  /// Reads the client's next frame like ``readFrame()``, and tells the key that it was masked with.
  package func readMaskedFrame() throws -> (frame: Frame, key: MaskingKey) {
    try take { bytes throws(ScriptFailure) in try bytes.takeMaskedFrame() }
  }

  /// Waits until the client ends the stream; what it sends before is read and forgotten.
  public func waitForEnd() {
    do {
      while true {
        try fill()
        unread.withLock { $0.removeAll() }
      }
    } catch {}
  }

  /// Ends the outgoing direction (TCP FIN).
  public func finish() { Socket.shutdown(descriptor, both: false) }

  /// Resets the connection (TCP RST) when the script returns.
  public func reset() { Socket.resetOnClose(descriptor) }

  private func take<Value>(_ take: (inout ClientBytes) throws(ScriptFailure) -> Value?) throws -> Value {
    while true {
      if let value = try unread.withLock(take) { return value }
      try fill()
    }
  }

  /// Reads what comes next, and waits for it.
  private func fill() throws(ScriptFailure) {
    var buffer = [UInt8](repeating: 0, count: 64 << 10)
    let outcome = buffer.withUnsafeMutableBytes { Socket.read(descriptor, into: $0) }
    switch outcome {
    case .bytes(let count): unread.withLock { $0.append(buffer[..<count]) }
    case .end: throw .ended
    case .wouldBlock: throw .io("a blocking read would block")
    }
  }
}
