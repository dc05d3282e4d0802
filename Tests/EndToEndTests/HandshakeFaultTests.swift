import Foundation
import Testing
import WebSocketCore
import WebSocketHandling
import WebSocketTesting
import TestSupport

@Suite("Opening handshake over TCP (RFC 6455 §4.1)", .timeLimit(.minutes(5)))
struct HandshakeFaultTests {
  @Test(
    "R01: a frame glued to the answer is the first message, wherever the bytes are cut", arguments: [1, 2, 7, 1000])
  func gluedFrame(piece: Int) async throws {
    let server = try ScriptedServer { connection in
      let answer = try connection.answer(to: connection.readRequest())
      try connection.send(answer + [0x81, 0x02, 0x68, 0x69], piece: piece)
      connection.waitForEnd()
    }
    let handler = makeHandler()
    try await handler.connect(request: request(server))
    #expect(try await handler.receive(WebSocketMessage.self) == .text("hi"))
  }

  @Test(
    "R07, R08: any other status is a refusal with its headers and body",
    arguments: [200, 301, 400, 401, 403, 404, 426, 429, 500, 503])
  func refusal(status: Int) async throws {
    let server = try ScriptedServer { connection in
      try connection.readRequest()
      try connection.send(text: "HTTP/1.1 \(status) No\r\nX-Why: because\r\nContent-Length: 11\r\n\r\n{\"a\":\"no!\"}")
      connection.waitForEnd()
    }
    let handler = makeHandler()
    let error = await failure { () throws(Failure) in try await handler.connect(request: request(server)) }
    guard case .handshakeRefused(let refusal) = error else {
      Issue.record("expected a refusal, got \(String(describing: error))")
      return
    }
    #expect(refusal.status == status)
    #expect(refusal.headers["x-why"] == "because")
    #expect(String(decoding: refusal.body, as: UTF8.self) == "{\"a\":\"no!\"}")
  }

  @Test func `R16: TCP closed before the answer fails connect`() async throws {
    let server = try ScriptedServer { connection in try connection.readRequest() }
    let handler = makeHandler()
    let error = await failure { () throws(Failure) in try await handler.connect(request: request(server)) }
    #expect(error == .handshakeFailed(.connectionEnded))
  }

  @Test func `R32: a silent server ends in the connect time-out`() async throws {
    let server = try ScriptedServer { connection in connection.waitForEnd() }
    let handler = makeHandler()
    let error = await failure { () throws(Failure) in
      try await handler.connect(request: request(server) { $0.connectTimeout = .milliseconds(100) })
    }
    #expect(error == .timedOut(.connect))
  }

  @Test func `R18: 200 failed handshakes leave no descriptor open`() async throws {
    let server = try ScriptedServer { connection in
      try connection.readRequest()
      try connection.send(text: "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
      connection.waitForEnd()
    }
    for _ in 0..<200 {
      let handler = makeHandler()
      let error = await failure { () throws(Failure) in try await handler.connect(request: request(server)) }
      #expect(error == .handshakeRefused(refusalWithoutBody))
      if error != .handshakeRefused(refusalWithoutBody) { return }
    }
    let open = try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").count
    #expect(open < 200, "\(open) descriptors are open")
  }

  private var refusalWithoutBody: HandshakeRefusal {
    HandshakeRefusal(status: 404, headers: [HTTPField(name: "Content-Length", value: "0")], body: [])
  }

  @Test func `R67: disconnect while connecting cancels connect, then succeeds`() async throws {
    let server = try ScriptedServer { connection in connection.waitForEnd() }
    let handler = makeHandler()
    let order = SharedList<String>()
    handler.connect(request: request(server)) {
      order.append("connect \($0.failure.map(String.init(describing:)) ?? "ok")")
    }
    try await handler.disconnect()
    order.append("disconnect ok")
    #expect(order.all == ["connect cancelled", "disconnect ok"])
  }

  @Test(
    "an invalid request fails before a socket opens",
    arguments: [
      ("ftp://127.0.0.1/", InvalidRequest.scheme("ftp")), ("ws://127.0.0.1/a#f", .fragment),
      ("ws://127.0.0.1/a?x#f", .fragment),
    ])
  func invalid(url: String, expected: InvalidRequest) async throws {
    let handler = makeHandler()
    let url = try #require(URL(string: url))
    let error = await failure { () throws(Failure) in try await handler.connect(request: NetworkRequest(url: url)) }
    #expect(error == .invalidRequest(expected))
  }

  @Test func `R24, R29: path, query and credentials travel as the URL holds them`() async throws {
    let seen = SharedList<String>()
    let server = try ScriptedServer { connection in
      let request = try connection.readRequest()
      seen.append(request)
      try connection.send(connection.answer(to: request))
      connection.waitForEnd()
    }
    let url = try #require(URL(string: "ws://me:a%40b@127.0.0.1:\(server.port)/a?b=c%20d&e"))
    let handler = makeHandler()
    try await handler.connect(request: request(url))
    let lines = seen.all.joined().components(separatedBy: "\r\n")
    #expect(lines.first == "GET /a?b=c%20d&e HTTP/1.1")
    #expect(lines.contains("Host: 127.0.0.1:\(server.port)"))
    #expect(lines.contains("Authorization: Basic bWU6YUBi"))
    #expect(!lines.contains { $0.lowercased().hasPrefix("content-") })
  }
}

extension Result {
  var failure: Failure? {
    if case .failure(let error) = self { return error }
    return nil
  }
}
