/// One header field (RFC 7230 §3.2).
public struct HTTPField: Sendable, Hashable {
  /// The name as it was written; compare without regard to case.
  public var name: String
  /// The value without white space at its ends.
  public var value: String

  /// A field with that name and value, which are not checked here.
  public init(name: String, value: String) {
    self.name = name
    self.value = value
  }

  /// Whether name and value may travel: a token, and no control characters that could begin a new line.
  package var isValid: Bool {
    name.isToken && value.utf8.allSatisfy(ASCII.isFieldValueCharacter)
  }
}

/// The header fields of one message in their order; a name may come more than once.
public struct HTTPFields: Sendable, Hashable, RandomAccessCollection, ExpressibleByArrayLiteral {
  private var fields: [HTTPField]

  /// The given fields in their order.
  public init(_ fields: [HTTPField] = []) { self.fields = fields }
  /// The fields of a literal in their order.
  public init(arrayLiteral fields: HTTPField...) { self.fields = fields }

  /// The position of the first field.
  public var startIndex: Int { fields.startIndex }
  /// The position behind the last field.
  public var endIndex: Int { fields.endIndex }
  /// The field at a position.
  public subscript(position: Int) -> HTTPField { fields[position] }

  /// The value of the first field with that name, in any case; nil where there is none.
  ///
  /// Setting replaces all of them.
  public subscript(name: String) -> String? {
    get { fields.first { $0.name.equalsIgnoringCase(name) }?.value }
    set {
      fields.removeAll { $0.name.equalsIgnoringCase(name) }
      if let newValue { append(name, newValue) }
    }
  }

  /// Adds a field behind the others.
  public mutating func append(_ name: String, _ value: String) { fields.append(HTTPField(name: name, value: value)) }

  /// The values of all fields with that name, in any case, in order.
  public func values(of name: String) -> [String] {
    fields.filter { $0.name.equalsIgnoringCase(name) }.map(\.value)
  }

  /// Whether there is a field with that name, in any case.
  public func contains(name: String) -> Bool { self[name] != nil }

  /// The members of a comma-separated list that may span several fields (RFC 7230 §7): trimmed, empty ones left out.
  ///
  /// A comma inside a quoted string does not separate.
  public func list(_ name: String) -> [String] {
    values(of: name).flatMap(Self.listMembers)
  }

  /// Whether a list has that member, in any case.
  package func list(_ name: String, contains member: String) -> Bool {
    fields.contains { field in
      field.name.equalsIgnoringCase(name)
        && (field.value.equalsIgnoringCase(member)
          || Self.listMembers(field.value).contains { $0.equalsIgnoringCase(member) })
    }
  }

  private static func listMembers(_ value: String) -> [String] {
    var members: [Substring] = []
    var start = value.startIndex
    var isQuoted = false
    var isEscaped = false
    for index in value.utf8.indices {
      let octet = value.utf8[index]
      if isEscaped {
        isEscaped = false
      } else if isQuoted, octet == ASCII.backslash {
        isEscaped = true
      } else if octet == ASCII.quote {
        isQuoted.toggle()
      } else if octet == ASCII.comma, !isQuoted {
        members.append(value[start..<index])
        start = value.utf8.index(after: index)
      }
    }
    members.append(value[start...])
    return members.map { String($0.trimmingOptionalWhitespace) }.filter { !$0.isEmpty }
  }
}
