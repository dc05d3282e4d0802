/// What a client says to a server.
enum Command {
  static func subscribe(_ identifier: String) -> String {
    "{\"command\":\"subscribe\",\"identifier\":\(CanonicalJSON.quoted(identifier))}"
  }

  static func unsubscribe(_ identifier: String) -> String {
    "{\"command\":\"unsubscribe\",\"identifier\":\(CanonicalJSON.quoted(identifier))}"
  }

  /// - Parameter data: JSON text, which travels as a string.
  static func message(_ identifier: String, data: String) -> String {
    "{\"command\":\"message\",\"data\":\(CanonicalJSON.quoted(data)),\"identifier\":\(CanonicalJSON.quoted(identifier))}"
  }
}
