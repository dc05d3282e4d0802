/// One line of a chat; as JSON `{"sender":…,"content":…}`.
public struct ChatMessage: Codable, Sendable, Hashable {
  /// Who wrote it.
  public var sender: String
  /// What was written.
  public var content: String

  /// A message.
  public init(sender: String, content: String) {
    self.sender = sender
    self.content = content
  }
}
