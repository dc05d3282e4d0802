/// Writes JSON in one way only: keys sorted by Unicode scalar at every depth, no white space, `/` not escaped, control
/// characters as `\u00xx`, whole numbers without a fraction.
///
/// Foundation's sorted keys are no help: `JSONSerialization` on Linux sorts them by number and without case.
package enum CanonicalJSON {
  /// The value as text; numbers that JSON cannot write become `null`.
  package static func text(_ value: JSONValue) -> String {
    var text = ""
    append(value, to: &text)
    return text
  }

  /// A JSON string with its quotation marks.
  package static func quoted(_ text: String) -> String {
    var result = ""
    result.reserveCapacity(text.utf8.count + 2)
    appendQuoted(text, to: &result)
    return result
  }

  /// An object of members whose values are JSON text already, sorted.
  static func object(_ members: [(key: String, json: String)]) -> String {
    var text = "{"
    for (index, member) in members.sorted(by: { precedes($0.key, $1.key) }).enumerated() {
      if index > 0 { text += "," }
      appendQuoted(member.key, to: &text)
      text += ":"
      text += member.json
    }
    return text + "}"
  }

  /// Whether one key comes before another.
  ///
  /// UTF-8 sorts as its scalars do; `String`'s own order compares normalised text.
  static func precedes(_ left: String, _ right: String) -> Bool { left.utf8.lexicographicallyPrecedes(right.utf8) }

  private static func append(_ value: JSONValue, to text: inout String) {
    switch value {
    case .null: text += "null"
    case .bool(let value): text += value ? "true" : "false"
    case .integer(let value): text += String(value)
    case .number(let value): text += number(value)
    case .string(let value): appendQuoted(value, to: &text)
    case .array(let elements):
      text += "["
      for (index, element) in elements.enumerated() {
        if index > 0 { text += "," }
        append(element, to: &text)
      }
      text += "]"
    case .object(let members):
      text += object(members.map { ($0.key, Self.text($0.value)) })
    }
  }

  private static func number(_ value: Double) -> String {
    guard value.isFinite else { return "null" }
    return Int(exactly: value).map(String.init) ?? value.description
  }

  private static func appendQuoted(_ string: String, to text: inout String) {
    text += "\""
    for scalar in string.unicodeScalars {
      switch scalar {
      case "\"": text += "\\\""
      case "\\": text += "\\\\"
      case "\0"..."\u{1F}":
        let digits = String(scalar.value, radix: 16)
        text += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
      default: text.unicodeScalars.append(scalar)
      }
    }
    text += "\""
  }
}
