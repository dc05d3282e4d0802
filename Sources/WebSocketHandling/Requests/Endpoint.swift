import Foundation
package import WebSocketCore

/// A request that was found valid, in the terms of the network.
package struct Endpoint: Sendable {
  package let host: String
  package let port: Int
  package let isSecure: Bool
  package let handshake: ClientHandshake.Request

  /// Checks a request (RFC 6455 §3 and §4.1).
  package init(_ request: NetworkRequest) throws(EngineError.WebSocketError) {
    let url = request.url
    switch url.scheme?.lowercased() {
    case "ws", "http": isSecure = false
    case "wss", "https": isSecure = true
    case let other: throw .invalidRequest(.scheme(other))
    }
    let text = url.absoluteString
    guard !text.utf8.contains(UInt8(ascii: "#")) else { throw .invalidRequest(.fragment) }
    guard let named = url.host(percentEncoded: false), !named.isEmpty else { throw .invalidRequest(.host) }
    let bare = named.hasPrefix("[") && named.hasSuffix("]") ? String(named.dropFirst().dropLast()) : named
    guard bare.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }) else { throw .invalidRequest(.host) }
    host = bare
    let defaultPort = isSecure ? 443 : 80
    port = url.port ?? defaultPort
    guard (1...65_535).contains(port) else { throw .invalidRequest(.port(port)) }

    // A zone is this machine's own matter and stays out of Host (RFC 6874 §4).
    let shown = bare.utf8.contains(UInt8(ascii: ":")) ? "[\(bare.prefix { $0 != "%" })]" : bare
    var fields = request.headers
    for field in fields {
      guard field.name.isToken, !ClientHandshake.reservedNames.contains(field.name.lowercased()) else {
        throw .invalidRequest(.headerName(field.name))
      }
      guard field.isValid else { throw .invalidRequest(.headerValue(name: field.name)) }
    }
    guard fields.values(of: "Host").count <= 1 else { throw .invalidRequest(.headerName("Host")) }
    for (index, name) in request.subprotocols.enumerated() {
      guard name.isToken, !request.subprotocols[..<index].contains(name) else {
        throw .invalidRequest(.subprotocol(name))
      }
    }
    if text.utf8.contains(UInt8(ascii: "@")), !fields.contains(name: "Authorization"),
      let credentials = Self.credentials(of: url)
    {
      fields.append("Authorization", "Basic " + Base64.encode(credentials.utf8))
    }
    handshake = ClientHandshake.Request(
      target: Self.target(of: text), host: port == defaultPort ? shown : "\(shown):\(port)",
      subprotocols: request.subprotocols, fields: fields)
  }

  /// Path and query exactly as the URL holds them; `/` for an empty path.
  private static func target(of text: String) -> String {
    let octets = text.utf8
    guard let scheme = octets.firstIndex(of: UInt8(ascii: ":")) else { return "/" }
    let rest = octets[scheme...].dropFirst("://".utf8.count)
    guard let start = rest.firstIndex(where: { $0 == UInt8(ascii: "/") || $0 == UInt8(ascii: "?") }) else { return "/" }
    return (octets[start] == UInt8(ascii: "?") ? "/" : "") + String(text[start...])
  }

  private static func credentials(of url: URL) -> String? {
    guard let user = url.user(percentEncoded: false) else { return nil }
    return user + ":" + (url.password(percentEncoded: false) ?? "")
  }
}
