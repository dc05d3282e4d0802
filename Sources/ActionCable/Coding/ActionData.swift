/// How an object is laid out in the data that a channel gets.
public enum ObjectForm: Sendable, Hashable {
  /// Under one name, beside its own `action`; nil: the type's name in snake case, `my_object` for `MyObject`.
  case named(String? = nil)
  /// Its members beside its `action`.
  case fields
}

/// Makes the JSON text of what is sent to a channel, its keys sorted.
enum ActionData {
  /// An action's name and the members of its data.
  static func perform(_ action: String, _ data: some Encodable, _ coding: CableCoding) throws(InvalidData) -> String {
    var members = try members(of: coding.encode(data))
    guard !members.contains(where: { $0.key == "action" }) else { throw .actionIsReserved }
    members.append(("action", CanonicalJSON.quoted(action)))
    return CanonicalJSON.object(members)
  }

  /// An action's name alone.
  static func perform(_ action: String) -> String { CanonicalJSON.object([("action", CanonicalJSON.quoted(action))]) }

  /// An object, its `action` taken out where it is put under a name.
  static func send<Object: Encodable>(
    _ object: Object, as form: ObjectForm, _ coding: CableCoding
  ) throws(InvalidData) -> String {
    let members = try members(of: coding.encode(object))
    switch form {
    case .fields: return CanonicalJSON.object(members)
    case .named(let name):
      let name = name ?? objectName(of: Object.self)
      guard name != "action" else { throw .actionIsReserved }
      let action = members.filter { $0.key == "action" }
      let rest = members.filter { $0.key != "action" }
      return CanonicalJSON.object(action + [(name, CanonicalJSON.object(rest))])
    }
  }

  /// The name of a type in snake case, such as `my_object` for `MyObject`.
  static func objectName(of type: Any.Type) -> String {
    var name = String(describing: type)
    if let end = name.firstIndex(of: "<") { name = String(name[..<end]) }
    return snakeCase(name)
  }

  /// Words apart: before a capital that follows a small letter or a digit, and before the last of several capitals that
  /// a small letter follows.
  private static func snakeCase(_ name: String) -> String {
    let characters = Array(name)
    var result = ""
    for (index, character) in characters.enumerated() {
      if index > 0, character.isUppercase {
        let followsSmall = !characters[index - 1].isUppercase && characters[index - 1] != "_"
        let beginsWord =
          characters[index - 1].isUppercase && index + 1 < characters.count && characters[index + 1].isLowercase
        if followsSmall || beginsWord { result += "_" }
      }
      result += character.lowercased()
    }
    return result
  }

  /// The members of an object in JSON text, their values as they are.
  private static func members(of text: String) throws(InvalidData) -> [(key: String, json: String)] {
    let bytes = text.utf8.span
    guard bytes.count > 0, bytes[0] == UInt8(ascii: "{") else { throw .notAnObject }
    var members: [(key: String, json: String)] = []
    var position = 0
    do throws(FrameFault) {
      try JSONScanner.object(bytes, &position, depth: 0) { key, position throws(FrameFault) in
        let start = position
        try JSONScanner.skipValue(bytes, &position, depth: 1)
        members.append((JSONScanner.string(bytes, key), JSONScanner.text(bytes, start..<position)))
      }
    } catch {
      throw .unencodable(reason: "\(error)")
    }
    return members
  }
}
