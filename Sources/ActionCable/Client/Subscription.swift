/// A subscription to a channel, to send to it and to end it.
public final class Subscription: Sendable {
  /// Which channel.
  public let identifier: ChannelIdentifier
  let id: UInt64
  private let buffering: Bool
  let core: CableCore

  init(_ identifier: ChannelIdentifier, id: UInt64, buffering: Bool, core: CableCore) {
    self.identifier = identifier
    self.id = id
    self.buffering = buffering
    self.core = core
  }

  /// Calls an action of the channel with the members of `data` beside its name.
  ///
  /// - Parameters:
  ///   - action: the channel's method.
  ///   - data: becomes a JSON object, without a key `action`.
  ///   - completion: hears once what became of it.
  public func perform(
    _ action: String, _ data: some Encodable, completion: (@Sendable (PerformOutcome) -> Void)? = nil
  ) {
    send(Result { () throws(InvalidData) in try ActionData.perform(action, data, coding) }, completion)
  }

  /// Calls an action of the channel without data.
  public func perform(_ action: String, completion: (@Sendable (PerformOutcome) -> Void)? = nil) {
    send(.success(ActionData.perform(action)), completion)
  }

  /// Sends an object, its `action` being the channel's method, `receive` where it has none.
  ///
  /// - Parameters:
  ///   - object: becomes a JSON object.
  ///   - form: whether its members travel under one name or by themselves. Default: under the type's name in snake case.
  ///   - completion: hears once what became of it.
  public func send<Object: Encodable>(
    object: Object, as form: ObjectForm = .named(), completion: (@Sendable (PerformOutcome) -> Void)? = nil
  ) {
    send(Result { () throws(InvalidData) in try ActionData.send(object, as: form, coding) }, completion)
  }

  /// Ends the subscription; its last event is `ended`.
  ///
  /// The server hears of it when no other subscription of the identifier is left.
  public func unsubscribe() { core.unsubscribe(id) }

  private var coding: CableCoding { core.configuration.coding }

  private func send(_ data: Result<String, InvalidData>, _ completion: (@Sendable (PerformOutcome) -> Void)?) {
    core.perform(by: id, data, mayWait: buffering, completion)
  }
}

extension Subscription {
  /// Calls an action of the channel; returns what became of it.
  public func perform(_ action: String, _ data: some Encodable) async -> PerformOutcome {
    await withCheckedContinuation { continuation in
      perform(action, data) { continuation.resume(returning: $0) }
    }
  }

  /// Calls an action of the channel without data; returns what became of it.
  public func perform(_ action: String) async -> PerformOutcome {
    await withCheckedContinuation { continuation in perform(action) { continuation.resume(returning: $0) } }
  }

  /// Sends an object; returns what became of it.
  public func send<Object: Encodable>(object: Object, as form: ObjectForm = .named()) async -> PerformOutcome {
    await withCheckedContinuation { continuation in
      send(object: object, as: form) { continuation.resume(returning: $0) }
    }
  }
}
