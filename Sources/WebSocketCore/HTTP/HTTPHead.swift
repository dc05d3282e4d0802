/// The first line and the header fields of a request (RFC 7230 §3).
public struct HTTPRequestHead: Sendable, Hashable {
  /// The method, as written: `GET`.
  public var method: String
  /// The request target, as written: path and query.
  public var target: String
  /// The minor version of HTTP/1.
  public var minorVersion: Int
  /// The header fields.
  public var fields: HTTPFields

  package init(method: String = "GET", target: String, minorVersion: Int = 1, fields: HTTPFields = []) {
    self.method = method
    self.target = target
    self.minorVersion = minorVersion
    self.fields = fields
  }

  /// The target up to its query.
  public var path: String { String(decoding: target.utf8.prefix { $0 != ASCII.questionMark }, as: UTF8.self) }

  /// The head as it goes over the wire.
  package var encoded: [UInt8] {
    encode(line: [method, target, "HTTP/1.\(minorVersion)"], fields: fields)
  }
}

/// The first line and the header fields of a response (RFC 7230 §3).
public struct HTTPResponseHead: Sendable, Hashable {
  /// The status code, three digits.
  public var status: Int
  /// The reason phrase; may be empty.
  public var reason: String
  /// The minor version of HTTP/1.
  public var minorVersion: Int
  /// The header fields.
  public var fields: HTTPFields

  package init(status: Int, reason: String = "", minorVersion: Int = 1, fields: HTTPFields = []) {
    self.status = status
    self.reason = reason
    self.minorVersion = minorVersion
    self.fields = fields
  }

  /// The head as it goes over the wire.
  package var encoded: [UInt8] {
    encode(line: ["HTTP/1.\(minorVersion)", String(status), reason], fields: fields)
  }
}

private func encode(line: [String], fields: HTTPFields) -> [UInt8] {
  var octets: [UInt8] = []
  octets.reserveCapacity(512)
  func append(_ text: String) { octets.append(contentsOf: text.utf8) }
  for (index, part) in line.enumerated() {
    if index > 0 { octets.append(ASCII.space) }
    append(part)
  }
  append("\r\n")
  for field in fields {
    append(field.name)
    append(": ")
    append(field.value)
    append("\r\n")
  }
  append("\r\n")
  return octets
}
