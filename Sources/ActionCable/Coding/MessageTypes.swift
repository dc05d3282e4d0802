import Foundation

/// The types that a client's messages are decoded as by themselves.
struct MessageTypes: Sendable {
  typealias Decode = @Sendable (Data, CableCoding) throws -> any Sendable

  private struct Entry: Sendable {
    let type: String
    let decode: Decode

    init<Value: Decodable & Sendable>(_ type: Value.Type) {
      self.type = String(describing: type)
      decode = { try $1.decode(Value.self, from: $0) }
    }
  }

  private var whole: [ChannelIdentifier: Entry] = [:]
  private var single: [String: Entry] = [:]

  mutating func register<Value: Decodable & Sendable>(_ type: Value.Type, for identifier: ChannelIdentifier) {
    whole[identifier] = Entry(type)
  }

  mutating func register<Value: Decodable & Sendable>(_ type: Value.Type, forKey name: String?) {
    single[name ?? ActionData.objectName(of: type)] = Entry(type)
  }

  mutating func unregister(for identifier: ChannelIdentifier) { whole[identifier] = nil }

  mutating func unregister(forKey name: String) { single[name] = nil }

  mutating func unregisterAll() { self = MessageTypes() }

  /// The event, its message with its object.
  func resolved(_ event: SubscriptionEvent, _ coding: CableCoding) -> SubscriptionEvent {
    guard case .message(let message) = event else { return event }
    return .message(resolved(message, coding))
  }

  /// The message with its object, where a type is registered for it.
  ///
  /// A type for the whole message of an identifier goes before one for its only member.
  func resolved(_ message: CableMessage, _ coding: CableCoding) -> CableMessage {
    var message = message
    message.coding = coding
    if let entry = whole[message.identifier] {
      message.resolve(entry.type, message.bodyData, coding, entry.decode)
    } else if !single.isEmpty, let member = message.onlyMember, let entry = single[member.name] {
      message.resolve(entry.type, member.data, coding, entry.decode)
    }
    return message
  }
}

extension CableMessage {
  fileprivate mutating func resolve(
    _ type: String, _ data: Data, _ coding: CableCoding, _ decode: MessageTypes.Decode
  ) {
    do {
      object = try decode(data, coding)
    } catch {
      decodingFailure = DecodingFailure(type: type, reason: String(describing: error))
    }
  }
}
