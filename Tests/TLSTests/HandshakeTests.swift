import CSystem
import Foundation
import Testing
import WebSocketCore
import WebSocketHandling
import WebSocketServing
import WebSocketTesting

import TestSupport
@testable import WebSocketTransport

@Suite("The TLS handshake", certificatesExist, .timeLimit(.minutes(5)))
struct HandshakeTests {
  private static let bothVersions: [TLSConfiguration.Version] = [.v1_2, .v1_3]

  @Test("R95: a name is asked for, an address is not, and the configuration's name goes before both")
  func serverName() async throws {
    for (host, name, expected) in [
      ("example.com", nil, "example.com"), ("127.0.0.1", nil, nil), ("127.0.0.1", "example.com", "example.com"),
      ("example.com", "192.0.2.1", nil), ("example.com.", nil, "example.com"),
    ] as [(String, String?, String?)] {
      let server = try server("elsewhere")
      let relay = try Relay(to: server.port)
      let handler = try makeHandler {
        $0.serverName = name
        $0.insecurelySkipsVerification = true
      }
      try await handler.connect(request: request(port: relay.port, host: host))
      #expect(Self.serverName(in: relay.sent) == expected, "\(host), \(name ?? "no other name")")
      // The whole extension 16 (RFC 7301 §3.1), so that no other protocol is offered.
      #expect(relay.sent.contains([0, 16, 0, 11, 0, 9, 8] + Array("http/1.1".utf8)))
    }
  }

  /// The name that a ClientHello asks for (RFC 6066 §3): an extension 0 with a list of one name of kind 0.
  private static func serverName(in bytes: [UInt8]) -> String? {
    for start in bytes.indices.dropLast(9) {
      let length = Int(bytes[start + 7]) << 8 | Int(bytes[start + 8])
      guard bytes[start] == 0, bytes[start + 1] == 0, bytes[start + 6] == 0, length > 2,
        Int(bytes[start + 2]) << 8 | Int(bytes[start + 3]) == length + 5,
        Int(bytes[start + 4]) << 8 | Int(bytes[start + 5]) == length + 3, start + 9 + length <= bytes.count
      else { continue }
      return String(decoding: bytes[(start + 9)..<(start + 9 + length)], as: UTF8.self)
    }
    return nil
  }

  @Test("R96: a server that selects what was not offered is refused before a byte of the opening handshake")
  func wrongApplicationProtocol() async throws {
    let context = try TLSContext(
      TLSContext.Settings(
        role: .server, identity: Certificates.shared.get().identity("good"), minimumVersion: .v1_2))
    openssl_SSL_CTX_set_alpn_select_cb(
      context.pointer,
      { _, selected, length, _, _, _ in
        selected?.pointee = h2
        length?.pointee = 2
        return Int32(OPENSSL_SSL_TLSEXT_ERR_OK)
      }, nil)
    let reader = Reader()
    let listener = try TCPListener(host: "127.0.0.1", port: 0) { base, loop in
      guard let session = try? TLSSession(server: context) else { return }
      try? TLSTransport(session, over: base, on: loop).start(reader)
    }
    let handler = try makeHandler()
    let request = try request(port: listener.address.port ?? 0)
    #expect(
      await failure { () throws(Failure) in try await handler.connect(request: request) }
        .map { $0 == .tls(.wrongApplicationProtocol("h2")) || $0 == .tls(.wrongApplicationProtocol(nil)) } == true)
    for await _ in reader.ends { break }
    #expect(reader.read.all == [])
    listener.close()
  }

  @Test("no version shared", arguments: [true, false])
  func noneShared(isClientNewer: Bool) async throws {
    let server = try server {
      if isClientNewer { $0.maximumVersion = .v1_2 } else { $0.minimumVersion = .v1_3 }
    }
    if isClientNewer {
      #expect(try await connectFailure(to: server) { $0.minimumVersion = .v1_3 } == .tls(.nothingShared))
    } else {
      #expect(try await connectFailure(to: server) == nil)
    }
  }

  @Test("a server that demands a certificate", arguments: bothVersions)
  func clientCertificate(version: TLSConfiguration.Version) async throws {
    let seen = SharedList<String?>()
    let files = try Certificates.shared.get()
    var configuration = TLSServerConfiguration(identity: files.identity("good"))
    configuration.clientTrust = files.authority
    configuration.maximumVersion = version
    let server = try LoopbackServer(tls: configuration) { seen.append($0.tls?.peerCertificate?.subject) }
    #expect(try await connectFailure(to: server) == .tls(.clientCertificateRequired))
    #expect(
      try await connectFailure(to: server) { $0.identity = files.identity("stranger-client") }
        == .tls(.clientCertificateRefused))
    // A server's certificate is for another purpose.
    #expect(
      try await connectFailure(to: server) { $0.identity = files.identity("good") }
        == .tls(.clientCertificateRefused))
    #expect(server.handshakeCount == 0)
    #expect(try await connectFailure(to: server) { $0.identity = files.identity("client") } == nil)
    #expect(seen.all == ["CN=tests"])
  }

  @Test func `a private key may be encrypted; a wrong passphrase or none is told`() async throws {
    let files = try Certificates.shared.get()
    let server = try server { $0.clientTrust = files.authority }
    for (passphrase, isGood) in [("secret", true), ("wrong", false), (nil, false)] as [(String?, Bool)] {
      let result = try await connectFailure(to: server) {
        $0.identity = TLSIdentity(
          certificates: .file(files.path("client.pem")), key: .file(files.path("locked-key.pem")),
          passphrase: passphrase)
      }
      if isGood {
        #expect(result == nil)
      } else {
        guard case .tls(.configuration) = result else {
          Issue.record("\(String(describing: result))")
          continue
        }
      }
    }
  }

  @Test func `a server with an unusable certificate does not start`() throws {
    let files = try Certificates.shared.get()
    #expect(throws: Failure.tls(.configuration("/nowhere cannot be read"))) {
      try LoopbackServer(
        tls: TLSServerConfiguration(
          identity: TLSIdentity(certificates: .file("/nowhere"), key: .file(files.path("key.pem")))))
    }
  }

  @Test("a handler resumes its session when it connects again; another handler does not", arguments: bothVersions)
  func resumption(version: TLSConfiguration.Version) async throws {
    let server = try server { $0.maximumVersion = version }
    let handler = try makeHandler()
    for isResumed in [false, true, true] {
      try await handler.connect(request: request(port: server.port))
      // The server's tickets come before its first message.
      try await handler.send(message: WebSocketMessage.text("x"))
      #expect(try await handler.receive(WebSocketMessage.self) == .text("x"))
      #expect(handler.handshake?.tls?.isResumed == isResumed)
      #expect(handler.handshake?.tls?.peerCertificate?.subject == "CN=tests")
      try await handler.disconnect()
    }
    let other = try makeHandler()
    try await other.connect(request: request(port: server.port))
    #expect(other.handshake?.tls?.isResumed == false)
  }

  @Test func `a server that speaks no TLS`() async throws {
    let plain = try LoopbackServer()
    #expect(try await connectFailure(to: plain) == .tls(.notTLS))
    let mail = try ScriptedServer { connection in
      try connection.send(text: "220 mail.example ESMTP\r\n")
      connection.waitForEnd()
    }
    #expect(try await Self.connect(to: mail) == .tls(.notTLS))
  }

  @Test func `R99: a server that accepts TCP and is silent ends in the connect time-out`() async throws {
    let server = try ScriptedServer { connection in connection.waitForEnd() }
    #expect(try await Self.connect(to: server) { $0.connectTimeout = .milliseconds(300) } == .timedOut(.connect))
  }

  @Test func `R67: disconnect during the TLS handshake cancels connect, then succeeds`() async throws {
    let server = try ScriptedServer { connection in connection.waitForEnd() }
    let handler = try makeHandler()
    let order = SharedList<String>()
    try handler.connect(request: request(port: server.port)) { order.append("\($0)") }
    try await handler.disconnect()
    #expect(order.all == ["failure(cancelled)"])
  }

  @Test(
    "alerts instead of an answer, whole and cut",
    arguments: [
      (40, TLSFailure.nothingShared), (70, .nothingShared), (71, .nothingShared),
      (120, .wrongApplicationProtocol(nil)), (116, .clientCertificateRequired),
    ] as [(UInt8, TLSFailure)])
  func alert(number: UInt8, expected: TLSFailure) async throws {
    for piece in [1, 7] {
      let server = try ScriptedServer { connection in
        try connection.send([0x15, 3, 3, 0, 2, 2, number], piece: piece)
        connection.waitForEnd()
      }
      #expect(try await Self.connect(to: server) == .tls(expected))
    }
  }

  @Test func `an alert without a meaning of its own is told in OpenSSL's words`() async throws {
    let server = try ScriptedServer { connection in
      try connection.send([0x15, 3, 3, 0, 2, 2, 80])
      connection.waitForEnd()
    }
    #expect(try await Self.connect(to: server) == .tls(.other("tlsv1 alert internal error")))
  }

  @Test("TCP ends during the handshake, wherever that is", arguments: [0, 1, 5, 60, 200, 600])
  func end(after count: Int) async throws {
    let server = try server()
    let relay = try Relay(to: server.port) { direction, bytes, before in
      guard direction == .toClient, before + bytes.count > count else { return [bytes] }
      return count > before ? [Array(bytes.prefix(count - before)), []] : [[]]
    }
    #expect(try await Self.connect(to: relay.port) == .tls(.connectionEnded))
    #expect(server.handshakeCount == 0)
  }

  @Test("records cut at every byte", arguments: bothVersions)
  func cuts(version: TLSConfiguration.Version) async throws {
    let server = try server { $0.maximumVersion = version }
    for piece in [1, 2, 3, 5, 100, 1000] {
      let relay = try Relay(to: server.port) { _, bytes, _ in bytes.pieces(of: piece) }
      let handler = try makeHandler()
      try await handler.connect(request: request(port: relay.port))
      try await handler.send(message: WebSocketMessage.text("cut into \(piece)"))
      #expect(try await handler.receive(WebSocketMessage.self) == .text("cut into \(piece)"))
      try await handler.disconnect()
    }
  }

  @Test func `one cut at many places of the server's first records`() async throws {
    let server = try server()
    for cut in 1...80 {
      let relay = try Relay(to: server.port) { direction, bytes, before in
        let place = cut * 23 - before
        guard direction == .toClient, place > 0, place < bytes.count else { return [bytes] }
        return [Array(bytes[..<place]), Array(bytes[place...])]
      }
      let failure = try await Self.connect(to: relay.port)
      #expect(failure == nil, "cut after \(cut * 23) bytes")
      if failure != nil { break }
    }
  }

  @Test func `a chain of 400 certificates ends connect with an error`() async throws {
    let server = try server("huge")
    guard case .tls(.other) = try await connectFailure(to: server) else {
      Issue.record("it was accepted, or failed otherwise")
      return
    }
    #expect(server.handshakeCount == 0)
  }

  private static func connect(
    to server: ScriptedServer, _ change: (inout NetworkRequest) -> Void = { _ in }
  ) async throws -> Failure? { try await connect(to: server.port, change) }

  private static func connect(
    to port: Int, _ change: (inout NetworkRequest) -> Void = { _ in }
  ) async throws -> Failure? {
    await connectFailure(try makeHandler(), try request(port: port, change))
  }
}

/// The name that the server selects, for as long as the process.
// Safe: written once, before any use, and read only.
private nonisolated(unsafe) let h2: UnsafePointer<UInt8> = {
  let name = UnsafeMutablePointer<UInt8>.allocate(capacity: 2)
  name.initialize(to: UInt8(ascii: "h"))
  (name + 1).initialize(to: UInt8(ascii: "2"))
  return UnsafePointer(name)
}()

/// Reads whatever comes until the end.
private final class Reader: TransportHandler {
  let read = SharedList<Int>()
  let ends: AsyncStream<TransportEnd>
  private let feed: AsyncStream<TransportEnd>.Continuation

  init() { (ends, feed) = AsyncStream.makeStream(of: TransportEnd.self) }

  func transportIsReady(_ transport: any Transport, readable: Bool, writable: Bool) {
    withUnsafeTemporaryAllocation(byteCount: 1024, alignment: 1) { buffer in
      while true {
        switch transport.read(into: buffer) {
        case .bytes(let count): read.append(count)
        case .wouldBlock: return
        case .end(let end):
          feed.yield(end)
          transport.close()
          return
        }
      }
    }
  }
}
