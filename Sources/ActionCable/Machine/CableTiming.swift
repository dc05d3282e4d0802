/// How long things may take.
public struct CableTiming: Sendable, Hashable {
  /// After how long without any frame a connection counts as dead; nil: it is not watched.
  ///
  /// Default: 6 s, two of the server's pings.
  public var staleAfter: Duration?
  /// How long the server may take to say `welcome` once the WebSocket is open.
  ///
  /// Default: 10 s.
  public var welcomeTimeout: Duration
  /// After how long a `subscribe` without an answer is sent again, twice as long each time.
  ///
  /// Default: 0.5 s. Less than 1 ms counts as 1 ms.
  public var subscribeRetry: Duration
  /// How long the server may take to confirm or reject; nil: for ever.
  ///
  /// Default: 10 s. An unknown channel, or one that fails, is never answered.
  public var subscribeTimeout: Duration?
  /// How long after an `unsubscribe` the same identifier's next `subscribe` waits.
  ///
  /// Default: 250 ms. Servers handle commands on several threads and never acknowledge an `unsubscribe`: a `subscribe`
  /// that overtakes it would be lost.
  public var resubscribeCooldown: Duration

  /// The defaults.
  public init(
    staleAfter: Duration? = .seconds(6), welcomeTimeout: Duration = .seconds(10),
    subscribeRetry: Duration = .milliseconds(500), subscribeTimeout: Duration? = .seconds(10),
    resubscribeCooldown: Duration = .milliseconds(250)
  ) {
    self.staleAfter = staleAfter
    self.welcomeTimeout = welcomeTimeout
    self.subscribeRetry = subscribeRetry
    self.subscribeTimeout = subscribeTimeout
    self.resubscribeCooldown = resubscribeCooldown
  }
}

/// What may wait for a confirmation.
public struct PerformBuffer: Sendable, Hashable {
  /// The most messages that wait, of all subscriptions together.
  ///
  /// Default: 100.
  public var messages: Int
  /// How long one may wait.
  ///
  /// Default: 60 s.
  public var age: Duration

  /// Limits; a message over the first is refused, never an older one in its favour.
  public init(messages: Int = 100, age: Duration = .seconds(60)) {
    self.messages = messages
    self.age = age
  }
}
