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
    try input.withUnsafeBytes { bytes throws(Failure) in
      var index = 0
      while index < bytes.count {
        let run = ordinaryOctets(bytes, from: index)
        if run > 0 {
          octets.append(contentsOf: UnsafeRawBufferPointer(rebasing: bytes[index..<index + run]))
          index += run
          continue
        }
        guard octets.count < maximumBytes else { throw .tooLong(limit: maximumBytes) }
        if try take(bytes[index]) { return index + 1 }
        index += 1
      }
      return nil
    }
  }

  /// How many octets come before the next that must be looked at by itself.
  private func ordinaryOctets(_ bytes: UnsafeRawBufferPointer, from start: Int) -> Int {
    guard octets.count >= Self.responsePrefix.count, octets.last != ASCII.carriageReturn else { return 0 }
    let end = min(bytes.count, start + maximumBytes - octets.count)
    var index = start
    while index < end, bytes[index] > ASCII.carriageReturn || bytes[index] == ASCII.tab { index += 1 }
    return index - start
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
    let parts = line.split(separator: ASCII.space, omittingEmptySubsequences: false)
    guard parts.count == 3, !parts[0].isEmpty, parts[0].allSatisfy(ASCII.isTokenCharacter), !parts[1].isEmpty,
      parts[1].allSatisfy({ $0 > ASCII.space && $0 != 0x7F }), let minor = Self.minorVersion(parts[2])
    else { throw .malformed(.startLine) }
    return HTTPRequestHead(
      method: String(decoding: parts[0], as: UTF8.self), target: String(decoding: parts[1], as: UTF8.self),
      minorVersion: minor, fields: fields)
  }

  /// The response head that was collected; call once ``take(_:)`` has returned its end.
  package func responseHead() throws(Failure) -> HTTPResponseHead {
    let (line, fields) = try parse()
    // HTTP/1.1 101 reason: the reason and the space before it may be missing.
    let start = line.startIndex
    guard line.count == 12 || line.count > 12 && line[start + 12] == ASCII.space, line[start + 8] == ASCII.space,
      let minor = Self.minorVersion(line.prefix(8)), let status = Self.status(line[(start + 9)..<(start + 12)])
    else { throw .malformed(.startLine) }
    return HTTPResponseHead(
      status: status, reason: String(decoding: line.dropFirst(13), as: UTF8.self), minorVersion: minor, fields: fields)
  }

  private static func status(_ digits: ArraySlice<UInt8>) -> Int? {
    var status = 0
    for digit in digits {
      guard (0x30...0x39).contains(digit) else { return nil }
      status = 10 * status + Int(digit) - 0x30
    }
    return status >= 100 ? status : nil
  }

  private static func minorVersion(_ octets: ArraySlice<UInt8>) -> Int? {
    guard octets.count == 8, octets.starts(with: responsePrefix), let digit = octets.last, (0x30...0x39).contains(digit)
    else { return nil }
    return Int(digit) - 0x30
  }

  /// The start line and the fields.
  ///
  /// Octets above ASCII are taken as UTF-8 and repaired where they are not.
  private func parse() throws(Failure) -> (line: ArraySlice<UInt8>, fields: HTTPFields) {
    var startLine: ArraySlice<UInt8>?
    var fields: [HTTPField] = []
    var rest = octets.dropLast(2)  // the empty line
    while let end = rest.firstIndex(of: ASCII.lineFeed) {
      let line = rest[..<(end - 1)]
      rest = rest[(end + 1)...]
      guard startLine != nil else {
        startLine = line
        continue
      }
      if let first = line.first, ASCII.isOptionalWhitespace(first) {
        guard kind == .response, let last = fields.indices.last else { throw .malformed(.foldedField) }
        let more = try Self.fieldValue(line)
        if !more.isEmpty { fields[last].value += fields[last].value.isEmpty ? more : " " + more }
        continue
      }
      guard let colon = line.firstIndex(of: ASCII.colon) else { throw .malformed(.fieldName) }
      let name = line[..<colon]
      guard !name.isEmpty, name.allSatisfy(ASCII.isTokenCharacter) else { throw .malformed(.fieldName) }
      guard fields.count < maximumFields else { throw .tooManyFields(limit: maximumFields) }
      fields.append(
        HTTPField(name: String(decoding: name, as: UTF8.self), value: try Self.fieldValue(line[(colon + 1)...])))
    }
    guard let startLine else { throw .malformed(.startLine) }
    return (startLine, HTTPFields(fields))
  }

  private static func fieldValue(_ octets: ArraySlice<UInt8>) throws(Failure) -> String {
    guard octets.allSatisfy(ASCII.isFieldValueCharacter) else { throw .malformed(.fieldValue) }
    var value = octets
    while let last = value.last, ASCII.isOptionalWhitespace(last) { value.removeLast() }
    return String(decoding: value.drop(while: ASCII.isOptionalWhitespace), as: UTF8.self)
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
