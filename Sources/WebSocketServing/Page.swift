import WebSocketCore

/// A page that a ``WebSocketServer`` answers plain GET and HEAD requests with, from the port of its WebSockets.
public struct Page: Sendable, Hashable {
  /// The path of its URL, such as `/`; a query behind it is ignored.
  public var path: String
  /// Its media type.
  public var contentType: String
  /// Its bytes.
  public var body: [UInt8]

  /// A page; by default one in HTML.
  ///
  /// It is served so that a browser loads nothing for it from anywhere, and connects to this server alone.
  public init(path: String = "/", contentType: String = "text/html; charset=utf-8", _ text: String) {
    self.path = path
    self.contentType = contentType
    body = Array(text.utf8)
  }

  /// The whole answer to a request for it.
  func answer(to head: HTTPRequestHead) -> [UInt8] {
    let fields: HTTPFields = [
      HTTPField(name: "Content-Type", value: contentType),
      HTTPField(name: "Content-Length", value: String(body.count)),
      HTTPField(name: "Cache-Control", value: "no-store"),
      HTTPField(
        name: "Content-Security-Policy",
        value: "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; "
          + "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"),
      HTTPField(name: "X-Content-Type-Options", value: "nosniff"),
      HTTPField(name: "Referrer-Policy", value: "no-referrer"),
      HTTPField(name: "Connection", value: "close"),
    ]
    let answer = HTTPResponseHead(status: 200, reason: "OK", fields: fields).encoded
    return head.method == "HEAD" ? answer : answer + body
  }
}
