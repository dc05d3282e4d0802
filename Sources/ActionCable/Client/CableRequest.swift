import Foundation
import WebSocketHandling

/// The request of an attempt, from what the client's user says.
struct CableRequest: Sendable {
  var request: NetworkRequest

  init(url: URL, headers: HTTPFields, _ configuration: CableConfiguration) {
    request = NetworkRequest(
      url: url, headers: headers, subprotocols: [actionCableSubprotocol] + configuration.subprotocols,
      connectTimeout: configuration.connectTimeout, closeTimeout: configuration.closeTimeout)
    // What a server of Rails' chooses that does not speak the other one.
    request.subprotocols.append("actioncable-unsupported")
    if !headers.contains(name: "Origin"), let origin = configuration.origin ?? Self.origin(of: url) {
      request.headers["Origin"] = origin
    }
  }

  /// The origin of a URL (RFC 6454 §6.2): its scheme as HTTP has it, its host, and its port where that is not the
  /// scheme's own.
  private static func origin(of url: URL) -> String? {
    guard let host = url.host(percentEncoded: false) else { return nil }
    let isSecure = ["wss", "https"].contains(url.scheme?.lowercased())
    let literal = host.contains(":") ? "[\(host)]" : host
    let port = url.port.flatMap { $0 == (isSecure ? 443 : 80) ? nil : ":\($0)" }
    return (isSecure ? "https://" : "http://") + literal + (port ?? "")
  }
}
