/// Collects a head octet by octet until its empty line, then reads it (RFC 7230 §3).
///
/// One pass, bounded, strict: every line ends in CR LF, no NUL, no space before a colon.
package struct HTTPHeadParser: Sendable {
  /// What is wrong with a head.
  package enum Failure: Error, Sendable, Hashable {
    /// The first octets cannot begin a head of HTTP/1.
    case notHTTP
    case malformed(Malformation)
    case tooLong(limit: Int)
    case tooManyFields(limit: Int)
  }

  /// Which rule of the grammar a head breaks.
  package enum Malformation: Sendable, Hashable {
    case startLine
    case bareLineFeed
    case bareCarriageReturn
    case nul
    case fieldName
    case fieldValue
    case foldedField
  }

  /// Which kind of head is expected.
  package enum Kind: Sendable {
    case request
    /// A response: a folded field is unfolded, as RFC 7230 §3.2.4 asks of a user agent.
    case response
  }

  /// The longest head, in bytes.
  ///
  /// Default: 64 KiB, above what browsers and proxies send with large cookies.
  package let maximumBytes: Int
  /// The most fields.
  ///
  /// Default: 128.
  package let maximumFields: Int

  private let kind: Kind
  private var octets: [UInt8] = []
  private var lineStart = 0

  package init(_ kind: Kind, maximumBytes: Int = 64 << 10, maximumFields: Int = 128) {
    self.kind = kind
    self.maximumBytes = maximumBytes
    self.maximumFields = maximumFields
  }

  /// Whether any octet has come.
  package var isEmpty: Bool { octets.isEmpty }

  /// Takes bytes up to the end of the head and returns how many; nil where the head needs more.
  package mutating func take(_ input: RawSpan) throws(Failure) -> Int? {
    for index in 0..<input.byteCount {
      guard octets.count < maximumBytes else { throw .tooLong(limit: maximumBytes) }
      let octet = input.unsafeLoad(fromByteOffset: index, as: UInt8.self)
      if try take(octet) { return index + 1 }
    }
    return nil
  }

  /// Takes one octet; true where it ends the head.
  private mutating func take(_ octet: UInt8) throws(Failure) -> Bool {
    let follows = octets.last == ASCII.carriageReturn
    if octet == ASCII.lineFeed {
      guard follows else { throw octets.isEmpty ? .notHTTP : .malformed(.bareLineFeed) }
      octets.append(octet)
      let isEmptyLine = octets.count - lineStart == 2
      lineStart = octets.count
      // RFC 7230 §3.5: an empty line before the request line is ignored.
      if isEmptyLine, octets.count == 2, kind == .request {
        octets.removeAll()
        lineStart = 0
        return false
      }
      return isEmptyLine
    }
    guard !follows else { throw .malformed(.bareCarriageReturn) }
    guard octet != ASCII.nul else { throw .malformed(.nul) }
    octets.append(octet)
    if kind == .response, octets.count <= Self.responsePrefix.count {
      guard octets.elementsEqual(Self.responsePrefix.prefix(octets.count)) else { throw .notHTTP }
    }
    return false
  }

  private static let responsePrefix = Array("HTTP/1.".utf8)

  /// The request head that was collected; call once ``take(_:)`` has returned its end.
  package func requestHead() throws(Failure) -> HTTPRequestHead {
    let (line, fields) = try parse()
    let parts = line.split(separator: " ", omittingEmptySubsequences: false)
    guard parts.count == 3, parts[0].isToken, !parts[1].isEmpty,
      parts[1].utf8.allSatisfy({ $0 > ASCII.space && $0 != 0x7F }), let minor = Self.minorVersion(parts[2])
    else { throw .malformed(.startLine) }
    return HTTPRequestHead(
      method: String(parts[0]), target: String(parts[1]), minorVersion: minor, fields: fields)
  }

  /// The response head that was collected; call once ``take(_:)`` has returned its end.
  package func responseHead() throws(Failure) -> HTTPResponseHead {
    let (line, fields) = try parse()
    let parts = line.split(separator: " ", maxSplits: 2, omittingEmptySubsequences: false)
    guard parts.count >= 2, let minor = Self.minorVersion(parts[0]), parts[1].utf8.count == 3,
      parts[1].utf8.allSatisfy({ (0x30...0x39).contains($0) }), let status = Int(parts[1]), (100...999).contains(status)
    else { throw .malformed(.startLine) }
    return HTTPResponseHead(
      status: status, reason: parts.count > 2 ? String(parts[2]) : "", minorVersion: minor, fields: fields)
  }

  private static func minorVersion(_ text: Substring) -> Int? {
    let octets = Array(text.utf8)
    guard octets.count == 8, octets.starts(with: responsePrefix), (0x30...0x39).contains(octets[7]) else { return nil }
    return Int(octets[7]) - 0x30
  }

  /// The start line and the fields.
  ///
  /// Octets above ASCII are taken as UTF-8 and repaired where they are not.
  private func parse() throws(Failure) -> (line: Substring, fields: HTTPFields) {
    var lines = octets.dropLast(2).split(separator: ASCII.lineFeed, omittingEmptySubsequences: false).dropLast().map {
      $0.dropLast()
    }[...]
    guard let start = lines.popFirst() else { throw .malformed(.startLine) }
    var fields: [HTTPField] = []
    for line in lines {
      if let first = line.first, ASCII.isOptionalWhitespace(first) {
        guard kind == .response, var last = fields.popLast() else { throw .malformed(.foldedField) }
        let more = try Self.fieldValue(line)
        last.value = String((last.value + " " + more)[...].trimmingOptionalWhitespace)
        fields.append(last)
        continue
      }
      guard let colon = line.firstIndex(of: ASCII.colon) else { throw .malformed(.fieldName) }
      let name = String(decoding: line[..<colon], as: UTF8.self)
      guard name.isToken else { throw .malformed(.fieldName) }
      guard fields.count < maximumFields else { throw .tooManyFields(limit: maximumFields) }
      fields.append(HTTPField(name: name, value: try Self.fieldValue(line[(colon + 1)...])))
    }
    return (String(decoding: start, as: UTF8.self)[...], HTTPFields(fields))
  }

  private static func fieldValue(_ octets: ArraySlice<UInt8>) throws(Failure) -> String {
    guard octets.allSatisfy(ASCII.isFieldValueCharacter) else { throw .malformed(.fieldValue) }
    return String(String(decoding: octets, as: UTF8.self)[...].trimmingOptionalWhitespace)
  }
}

extension HTTPHeadParser.Malformation: CustomStringConvertible {
  package var description: String {
    switch self {
    case .startLine: "its first line is malformed"
    case .bareLineFeed: "a line ends without a carriage return"
    case .bareCarriageReturn: "a carriage return stands alone"
    case .nul: "it contains a NUL"
    case .fieldName: "a header name is malformed"
    case .fieldValue: "a header value contains a control character"
    case .foldedField: "a header is folded"
    }
  }
}
