/// What the caller wants of one channel, without how to open it.
package struct Wish: Sendable, Hashable {
  package let key: Key
  package let lifetime: Lifetime
  /// The type of values that instances take.
  package let valueType: ObjectIdentifier
  /// The value of the state; nil: there is none.
  package let value: Key?
  package let delivery: ChannelDelivery
  package let restart: Restart

  package init(
    key: Key, lifetime: Lifetime, valueType: ObjectIdentifier, value: Key?, delivery: ChannelDelivery, restart: Restart
  ) {
    self.key = key
    self.lifetime = lifetime
    self.valueType = valueType
    self.value = value
    self.delivery = delivery
    self.restart = restart
  }

  /// Whether one instance can serve both.
  func isServedLike(_ other: Wish) -> Bool {
    lifetime.resetKey == other.lifetime.resetKey && valueType == other.valueType
  }
}

/// Where a value comes from that an instance is given.
package enum ValueOrigin: Sendable, Hashable {
  case state
  case broadcast
}
