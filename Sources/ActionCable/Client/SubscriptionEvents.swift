/// The events of a subscription as a sequence; see ``ActionCableClient/events(of:buffering:backlog:)``.
///
/// Its last element is `ended`. A task that is cancelled gets nil, and loses no event. One iterator at a time.
public struct SubscriptionEvents: AsyncSequence, Sendable {
  /// One event.
  public typealias Element = SubscriptionEvent
  /// None is thrown.
  public typealias Failure = Never

  /// Ends the subscription when nobody can take its events any more.
  fileprivate final class Owner: Sendable {
    let subscription: Subscription

    init(_ subscription: Subscription) { self.subscription = subscription }

    deinit { subscription.core.abandon(subscription.id) }
  }

  fileprivate let owner: Owner

  init(_ subscription: Subscription) { owner = Owner(subscription) }

  /// The subscription, to send to it and to end it.
  public var subscription: Subscription { owner.subscription }

  /// An iterator.
  public func makeAsyncIterator() -> Iterator { Iterator(owner: owner) }

  /// The messages alone, decoded.
  public func messages<Value: Decodable & Sendable>(as type: Value.Type) -> ChannelMessages<Value> {
    ChannelMessages(events: self)
  }

  /// Takes one event at each call of ``next()``.
  public struct Iterator: AsyncIteratorProtocol {
    fileprivate let owner: Owner

    /// The next event; nil after `ended`, or where the task is cancelled.
    public mutating func next() async -> SubscriptionEvent? {
      await owner.subscription.core.nextEvent(of: owner.subscription.id)
    }

    /// The same, whatever actor it is called from.
    public mutating func next(isolation actor: isolated (any Actor)?) async -> SubscriptionEvent? {
      await owner.subscription.core.nextEvent(of: owner.subscription.id)
    }
  }
}

/// The messages of a subscription, decoded.
///
/// It ends where the subscription is ended by this side, and throws a ``SubscriptionEnd`` where the server ends it. A
/// message that does not decode throws the decoder's error, and the next call goes on.
public struct ChannelMessages<Value: Decodable & Sendable>: AsyncSequence, Sendable {
  /// One message.
  public typealias Element = Value

  let events: SubscriptionEvents

  /// An iterator.
  public func makeAsyncIterator() -> Iterator { Iterator(events: events.makeAsyncIterator()) }

  /// Takes one message at each call of ``next()``.
  public struct Iterator: AsyncIteratorProtocol {
    var events: SubscriptionEvents.Iterator

    /// The next message; nil after the end, or where the task is cancelled.
    public mutating func next() async throws -> Value? {
      while let event = await events.next() {
        switch event {
        case .message(let message): return try message.decode(Value.self)
        case .ended(.rejected): throw SubscriptionEnd.rejected
        case .ended(.timedOut): throw SubscriptionEnd.timedOut
        case .ended(.unsubscribed), .ended(.shutdown): return nil
        case .confirmed, .gap, .disconnected: continue
        }
      }
      return nil
    }
  }
}
