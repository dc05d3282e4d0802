import Foundation
import Testing
import WebSocketCore
import WebSocketHandling
import WebSocketTesting
import WebSocketTransport
import TestSupport

/// The openssl tool makes the certificates.
let certificatesExist = ConditionTrait.enabled(
  if: Certificates.isAvailable, "the openssl command line tool is not installed")

@Suite("Verification of the server", certificatesExist, .timeLimit(.minutes(5)))
struct VerificationTests {
  @Test func `a good certificate is accepted, messages go both ways, and the agreement is told`() async throws {
    let server = try server()
    let handler = try makeHandler()
    try await handler.connect(request: request(port: server.port))
    try await handler.send(message: WebSocketMessage.text("hello"))
    #expect(try await handler.receive(WebSocketMessage.self) == .text("hello"))
    let agreement = try #require(handler.handshake?.tls)
    let certificate = try #require(agreement.peerCertificate)
    #expect(agreement.version == "TLSv1.3")
    #expect(agreement.cipher.hasPrefix("TLS_"))
    #expect(agreement.applicationProtocol == "http/1.1")
    #expect(!agreement.isResumed)
    #expect(certificate.subject == "CN=tests")
    #expect(certificate.names == ["localhost", "127.0.0.1"])
    #expect(certificate.validFrom == Date(timeIntervalSince1970: 1_577_836_800))
    #expect(certificate.validUntil == Date(timeIntervalSince1970: 4_039_372_800))
    #expect(certificate.publicKeySHA256.count == 32)
    try await handler.disconnect()
  }

  @Test(
    "R93: each fault of a certificate is told apart, before a byte of the opening handshake",
    arguments: [
      ("expired", TLSFailure.expired), ("early", .notYetValid), ("elsewhere", .wrongHost),
      ("stranger-good", .unknownAuthority), ("alone", .selfSigned), ("client", .wrongPurpose),
      ("common-name", .wrongHost),
    ])
  func fault(certificate: String, expected: TLSFailure) async throws {
    let server = try server(certificate)
    #expect(try await connectFailure(to: server) == .tls(expected))
    #expect(server.handshakeCount == 0)
  }

  @Test func `R93: without a configuration the system's authorities count`() async throws {
    let server = try server()
    #expect(try await connectFailure(to: server) { $0.trust = .system } == .tls(.unknownAuthority))
    #expect(server.handshakeCount == 0)
  }

  @Test func `a handler reads its files at its first connect, also where they have changed since another's`()
    async throws
  {
    let files = try Certificates.shared.get()
    let path = FileManager.default.temporaryDirectory.appendingPathComponent("authority-\(UUID().uuidString).pem").path
    defer { try? FileManager.default.removeItem(atPath: path) }
    try FileManager.default.copyItem(atPath: files.path("authority.pem"), toPath: path)
    let server = try server()
    let earlier = try makeHandler { $0.trust = .file(path) }
    try await earlier.connect(request: request(port: server.port))
    try await earlier.disconnect()
    try FileManager.default.removeItem(atPath: path)
    try FileManager.default.copyItem(atPath: files.path("alone.pem"), toPath: path)
    #expect(try await connectFailure(to: server) { $0.trust = .file(path) } == .tls(.unknownAuthority))
    try await earlier.connect(request: request(port: server.port))
    try await earlier.disconnect()
  }

  @Test func `authorities come from a file, a directory or bytes; what cannot be read is told`() async throws {
    let server = try server()
    let files = try Certificates.shared.get()
    let bytes = try #require(FileManager.default.contents(atPath: files.path("authority.pem")))
    #expect(try await connectFailure(to: server) { $0.trust = .pem(Array(bytes)) } == nil)
    for trust in [TLSConfiguration.Trust.file("/nowhere"), .directory("/nowhere"), .pem(Array("no PEM".utf8))] {
      guard case .tls(.configuration) = try await connectFailure(to: server, { $0.trust = trust }) else {
        Issue.record("\(trust) was not refused")
        continue
      }
    }
  }

  @Test(
    "a name is compared whole, a wildcard stands for one label, a common name does not count beside others",
    arguments: [
      ("wildcard", "a.example.com", nil), ("wildcard", "a.b.example.com", .wrongHost),
      ("wildcard", "example.com", .wrongHost), ("elsewhere", "example.com", nil),
      ("elsewhere", "example.com.", nil), ("elsewhere", "EXAMPLE.com", nil), ("elsewhere", "ample.com", .wrongHost),
      ("common-name-host", "named.example", .wrongHost), ("common-name-host", "other.example", nil),
      ("elsewhere", "192.0.2.1", nil), ("elsewhere", "192.0.2.2", .wrongHost), ("wildcard", "127.0.0.1", .wrongHost),
    ] as [(String, String, TLSFailure?)])
  func names(certificate: String, host: String, expected: TLSFailure?) async throws {
    let server = try server(certificate)
    #expect(try await connectFailure(to: server, host: host) == expected.map(Failure.tls))
  }

  @Test func `the name of the configuration is verified instead of the URL's`() async throws {
    let server = try server("elsewhere")
    #expect(try await connectFailure(to: server) { $0.serverName = "example.com" } == nil)
    #expect(
      try await connectFailure(to: server, host: "example.com") { $0.serverName = "other.example" } == .tls(.wrongHost))
  }

  @Test func `verification is off only by the option that says so`() async throws {
    for name in ["expired", "alone", "elsewhere", "client"] {
      let server = try server(name)
      #expect(try await connectFailure(to: server) { $0.insecurelySkipsVerification = true } == nil)
    }
  }

  @Test func `one pinned key must be in the verified chain, or be the server's where verification is off`()
    async throws
  {
    let server = try server()
    let handler = try makeHandler()
    try await handler.connect(request: request(port: server.port))
    let key = try #require(handler.handshake?.tls?.peerCertificate?.publicKeySHA256)
    let other = [UInt8](repeating: 7, count: 32)
    #expect(try await connectFailure(to: server) { $0.pinnedKeys = [other, key] } == nil)
    #expect(try await connectFailure(to: server) { $0.pinnedKeys = [other] } == .tls(.pinMismatch))
    let count = server.handshakeCount
    let strange = try Self.strange()
    #expect(
      try await connectFailure(to: strange) {
        $0.pinnedKeys = [other]
        $0.insecurelySkipsVerification = true
      } == .tls(.pinMismatch))
    #expect(
      try await connectFailure(to: strange) {
        $0.pinnedKeys = [key]
        $0.insecurelySkipsVerification = true
      } == nil)
    #expect(try await connectFailure(to: strange) { $0.pinnedKeys = [key] } == .tls(.selfSigned))
    #expect(server.handshakeCount == count)
  }

  private static func strange() throws -> LoopbackServer { try server("alone") }

  @Test func `the hook sees chain and verdict, and its answer decides`() async throws {
    let server = try server("alone")
    let seen = SharedList<TLSConfiguration.Evidence>()
    let result = try await connectFailure(to: server) {
      $0.verify = { evidence, complete in
        seen.append(evidence)
        #expect(server.handshakeCount == 0)
        Thread { complete(true) }.start()
      }
    }
    #expect(result == nil)
    #expect(seen.all.map(\.host) == ["127.0.0.1"])
    #expect(seen.all.map(\.verdict) == [.selfSigned])
    #expect(seen.all.map { $0.chain.map(\.subject) } == [["CN=alone"]])
  }

  @Test(
    "the hook is told of a resumed session what was found when it began",
    arguments: [TLSConfiguration.Version.v1_2, .v1_3])
  func resumedVerdict(version: TLSConfiguration.Version) async throws {
    let server = try server("alone") { $0.maximumVersion = version }
    let seen = SharedList<TLSFailure?>()
    let handler = try makeHandler {
      $0.verify = { evidence, complete in
        seen.append(evidence.verdict)
        complete(true)
      }
    }
    for isResumed in [false, true, true] {
      try await handler.connect(request: request(port: server.port))
      // The server's tickets come before its first message.
      try await handler.send(message: WebSocketMessage.text("x"))
      #expect(try await handler.receive(WebSocketMessage.self) == .text("x"))
      #expect(handler.handshake?.tls?.isResumed == isResumed)
      try await handler.disconnect()
    }
    #expect(seen.all == [.selfSigned, .selfSigned, .selfSigned])
  }

  @Test func `a hook that refuses, and one that is asked about a good certificate`() async throws {
    let server = try server()
    let seen = SharedList<TLSFailure?>()
    let result = try await connectFailure(to: server) {
      $0.verify = { evidence, complete in
        seen.append(evidence.verdict)
        complete(false)
      }
    }
    #expect(result == .tls(.refusedByCaller))
    #expect(seen.all == [nil])
    #expect(server.handshakeCount == 0)
  }

  @Test func `while the hook has not answered connect can be given up, and a late answer does nothing`() async throws {
    let server = try server()
    let (asked, feed) = AsyncStream.makeStream(of: (@Sendable (Bool) -> Void).self)
    let handler = try makeHandler { $0.verify = { _, complete in feed.yield(complete) } }
    let order = SharedList<String>()
    try handler.connect(request: request(port: server.port)) { order.append("\($0)") }
    var answers = asked.makeAsyncIterator()
    let answer = try #require(await answers.next())
    try await handler.disconnect()
    answer(true)
    answer(false)
    #expect(order.all == ["failure(cancelled)"])
    #expect(server.handshakeCount == 0)
  }

  @Test func `a hook that never answers ends in the connect time-out`() async throws {
    let server = try server()
    let kept = SharedList<@Sendable (Bool) -> Void>()
    let handler = try makeHandler { $0.verify = { _, complete in kept.append(complete) } }
    let request = try request(port: server.port) { $0.connectTimeout = .milliseconds(500) }
    #expect(
      await failure { () throws(Failure) in try await handler.connect(request: request) } == .timedOut(.connect))
  }
}
