import Foundation
import Glibc
import Testing
import WebSocketCore
import WebSocketHandling
import WebSocketTesting
import WebSocketTransport
import TestSupport

@Suite("Addresses, ports and the Host header (RFC 6455 §3, §4.1)", .timeLimit(.minutes(5)))
struct AddressTests {
  @Test(
    "R23, R27: Host names the port where it is not the scheme's own, and the scheme's case does not matter",
    arguments: [
      ("ws://name.example/", "name.example 80", "name.example"),
      ("ws://name.example:80/", "name.example 80", "name.example"),
      ("ws://name.example:81/", "name.example 81", "name.example:81"),
      ("ws://name.example:443/", "name.example 443", "name.example:443"),
      ("WS://name.example/", "name.example 80", "name.example"),
      ("http://name.example/", "name.example 80", "name.example"),
      ("HTTP://name.example:8080/", "name.example 8080", "name.example:8080"),
    ])
  func host(url: String, question: String, host: String) async throws {
    try await expect(url, asks: question, names: host)
  }

  @Test func `R23: a Host header of the caller's replaces ours`() async throws {
    let requests = SharedList<String>()
    let server = try recordingServer(requests)
    let handler = makeHandler()
    try await handler.connect(request: request(server) { $0.headers["Host"] = "behind.example" })
    try await handler.disconnect()
    #expect(hostLines(requests) == ["Host: behind.example"])
  }

  @Test(
    "R28: an IPv6 literal is connected to without its brackets and named with them",
    .enabled(if: hasIPv6, "this machine has no IPv6 loopback"))
  func literal() async throws {
    let requests = SharedList<String>()
    let server = try recordingServer(requests, host: "::1")
    let handler = makeHandler()
    try await handler.connect(request: request(server))
    try await handler.disconnect()
    #expect(hostLines(requests) == ["Host: [::1]:\(server.port)"])
  }

  @Test(
    "R28: the resolver is asked for an IPv6 literal without its brackets, and Host does not name its zone",
    arguments: [
      ("ws://[2001:db8::1]/", "2001:db8::1 80", "[2001:db8::1]"),
      ("ws://[2001:DB8::1]:81/", "2001:DB8::1 81", "[2001:DB8::1]:81"),
      ("ws://[fe80::1%25eth0]/", "fe80::1%eth0 80", "[fe80::1]"),
    ])
  func literal(url: String, question: String, host: String) async throws {
    try await expect(url, asks: question, names: host)
  }

  /// Connects, and looks at what the resolver was asked and which host the request named.
  private func expect(_ url: String, asks question: String, names host: String) async throws {
    let requests = SharedList<String>()
    let server = try recordingServer(requests)
    let resolver = FixedResolver([.literal(host: "127.0.0.1", port: server.port)])
    let handler = makeHandler(environment: resolver.environment)
    try await handler.connect(request: request(try #require(URL(string: url))))
    try await handler.disconnect()
    #expect(resolver.questions.all == [question])
    #expect(hostLines(requests) == ["Host: \(host)"])
  }

  @Test func `a name is looked up though all threads of the global queue are taken`() async {
    await #expect(processExitsWith: .success) { Self.lookUpWhileBusy() }
  }

  private static func lookUpWhileBusy() {
    let release = DispatchSemaphore(value: 0)
    for _ in 0..<300 { DispatchQueue.global().async { release.wait() } }
    let answered = DispatchSemaphore(value: 0)
    SystemResolver().resolve(host: "localhost", port: 80) { _ in answered.signal() }
    #expect(answered.wait(timeout: .now() + 240) == .success)
  }

  @Test func `R31: an address that refuses is passed over`() async throws {
    let requests = SharedList<String>()
    let server = try recordingServer(requests)
    let refusing = try RefusingPort()
    let resolver = FixedResolver([
      hasIPv6 ? .literal(host: "::1", port: 1) : nil, .literal(host: "127.0.0.1", port: refusing.port),
      .literal(host: "127.0.0.1", port: server.port),
    ])
    let handler = makeHandler(environment: resolver.environment)
    try await handler.connect(request: request(try #require(URL(string: "ws://name.example/"))))
    try await handler.disconnect()
    #expect(requests.all.count == 1)
  }

  @Test func `R31: an address that does not answer costs its head start only`() async throws {
    let requests = SharedList<String>()
    let server = try recordingServer(requests)
    let silent = try SilentPort()
    let resolver = FixedResolver([
      .literal(host: "127.0.0.2", port: silent.port), .literal(host: "127.0.0.1", port: server.port),
    ])
    let handler = makeHandler(environment: resolver.environment)
    let url = try #require(URL(string: "ws://name.example/"))
    // Without a race the kernel's own patience, two minutes, would go by first.
    try await handler.connect(request: NetworkRequest(url: url, connectTimeout: .seconds(100)))
    try await handler.disconnect()
    #expect(requests.all.count == 1)
  }

  @Test func `RFC 8305 §4: the families take turns`() throws {
    let addresses = ["::1", "::2", "::3", "127.0.0.1", "127.0.0.2"].compactMap {
      SocketAddress.literal(host: $0, port: 80)
    }
    try #require(addresses.count == 5)
    #expect(
      TCPDialer.interleaved(addresses).map(\.host) == ["::1", "127.0.0.1", "::2", "127.0.0.2", "::3"])
    #expect(TCPDialer.interleaved([]) == [])
  }

  @Test func `R31: where every address refuses, the error names one and the system's reason`() async throws {
    let refusing = try RefusingPort()
    let resolver = FixedResolver([
      .literal(host: "127.0.0.2", port: refusing.port), .literal(host: "127.0.0.1", port: refusing.port),
    ])
    let handler = makeHandler(environment: resolver.environment)
    let url = try #require(URL(string: "ws://name.example/"))
    let error = await failure { () throws(Failure) in try await handler.connect(request: request(url)) }
    guard case .unreachable(let address, let errorNumber, _) = error else {
      Issue.record("expected an unreachable server, got \(String(describing: error))")
      return
    }
    #expect(errorNumber == ECONNREFUSED)
    #expect(["127.0.0.1:\(refusing.port)", "127.0.0.2:\(refusing.port)"].contains(address))
  }

  private func recordingServer(_ requests: SharedList<String>, host: String = "127.0.0.1") throws -> ScriptedServer {
    try ScriptedServer(host: host) { connection in
      let request = try connection.readRequest()
      requests.append(request)
      try connection.send(connection.answer(to: request))
      try connection.echo()
    }
  }

  private func hostLines(_ requests: SharedList<String>) -> [String] {
    requests.all.joined().components(separatedBy: "\r\n").filter { $0.lowercased().hasPrefix("host:") }
  }
}

/// Whether the loopback interface speaks IPv6.
private let hasIPv6 = (try? ScriptedServer(host: "::1") { _ in }) != nil
