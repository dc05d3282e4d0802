/// Makes the program's own values of a socket's messages.
public protocol OutputMapping<Message, Output>: Sendable {
  /// What arrives.
  associatedtype Message: Sendable
  /// What the program makes of it.
  associatedtype Output: Sendable

  /// The value of a message; nil where it does not matter.
  ///
  /// - Throws: where it cannot be read. The bridge tells it as ``BridgeSignal/undecodable(_:_:)`` and goes on.
  func map(from message: Message) throws -> Output?
}
