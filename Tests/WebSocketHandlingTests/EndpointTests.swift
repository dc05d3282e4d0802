import Foundation
import Testing
import WebSocketCore
import WebSocketHandling

@Suite("What a URL stands for (RFC 6455 §3, §4.1)")
struct EndpointTests {
  /// An endpoint's facts, to compare them as a whole.
  struct Facts: Hashable {
    var host: String
    var port: Int
    var isSecure: Bool
    var hostHeader: String
    var target: String
  }

  @Test(
    "R23, R24, R27, R28: host, port, Host header and target",
    arguments: [
      ("ws://h/", Facts(host: "h", port: 80, isSecure: false, hostHeader: "h", target: "/")),
      ("wss://h/", Facts(host: "h", port: 443, isSecure: true, hostHeader: "h", target: "/")),
      ("WSS://h", Facts(host: "h", port: 443, isSecure: true, hostHeader: "h", target: "/")),
      ("http://h", Facts(host: "h", port: 80, isSecure: false, hostHeader: "h", target: "/")),
      ("Https://h", Facts(host: "h", port: 443, isSecure: true, hostHeader: "h", target: "/")),
      ("wss://h:80/", Facts(host: "h", port: 80, isSecure: true, hostHeader: "h:80", target: "/")),
      ("wss://h:443/", Facts(host: "h", port: 443, isSecure: true, hostHeader: "h", target: "/")),
      ("ws://h?", Facts(host: "h", port: 80, isSecure: false, hostHeader: "h", target: "/?")),
      ("ws://h/a?", Facts(host: "h", port: 80, isSecure: false, hostHeader: "h", target: "/a?")),
      ("ws://h?x=/y", Facts(host: "h", port: 80, isSecure: false, hostHeader: "h", target: "/?x=/y")),
      ("ws://h/a%20b?c=%2F", Facts(host: "h", port: 80, isSecure: false, hostHeader: "h", target: "/a%20b?c=%2F")),
      (
        "wss://[::1]:9/x", Facts(host: "::1", port: 9, isSecure: true, hostHeader: "[::1]:9", target: "/x")
      ),
      (
        "ws://[fe80::1%25lo]/",
        Facts(host: "fe80::1%lo", port: 80, isSecure: false, hostHeader: "[fe80::1]", target: "/")
      ),
    ])
  func facts(url: String, facts: Facts) throws {
    let endpoint = try Endpoint(NetworkRequest(url: try #require(URL(string: url))))
    #expect(
      Facts(
        host: endpoint.host, port: endpoint.port, isSecure: endpoint.isSecure, hostHeader: endpoint.handshake.host,
        target: endpoint.handshake.target) == facts)
  }

  @Test(
    "R27: any other scheme is an invalid request",
    arguments: [("ftp://h/", "ftp"), ("file:///h", "file"), ("wsss://h/", "wsss"), ("/h", nil)] as [(String, String?)])
  func scheme(url: String, scheme: String?) throws {
    let request = NetworkRequest(url: try #require(URL(string: url)))
    #expect(throws: EngineError.WebSocketError.invalidRequest(.scheme(scheme))) { try Endpoint(request) }
  }
}
