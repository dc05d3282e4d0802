/// What a ``ReconnectingSession`` has counted since it was made, and what waits in it now.
///
/// The connections themselves are counted by the handler underneath, see ``HandlerMetrics``.
public struct SessionMetrics: Sendable, Hashable {
  /// Attempts to connect; those for which the request provider failed are not among them.
  public var attempts = 0
  /// Attempts that succeeded.
  public var connects = 0
  /// Attempts that succeeded after an earlier connection of the same start.
  public var reconnects = 0
  /// Failures of attempts, connections and the request provider.
  public var problems = 0
  /// Messages that came.
  public var messagesReceived = 0
  /// Messages with the outcome ``DeliveryOutcome/written``.
  public var written = 0
  /// Messages with the outcome ``DeliveryOutcome/acknowledged``.
  public var acknowledged = 0
  /// Messages with the outcome ``DeliveryOutcome/expired``.
  public var expired = 0
  /// Messages with the outcome ``DeliveryOutcome/dropped(_:)``.
  public var dropped = 0
  /// Messages with the outcome ``DeliveryOutcome/maybeDelivered(_:)``.
  public var maybeDelivered = 0
  /// Messages without an outcome.
  public var outboxMessages = 0
  /// The payload bytes of messages without an outcome.
  public var outboxBytes = 0

  /// Nothing yet.
  public init() {}

  mutating func add(_ outcome: DeliveryOutcome) {
    switch outcome {
    case .written: written += 1
    case .acknowledged: acknowledged += 1
    case .expired: expired += 1
    case .dropped: dropped += 1
    case .maybeDelivered: maybeDelivered += 1
    }
  }
}

extension SessionMetrics {
  /// Everything as numbers with names.
  public var samples: [MetricSample] {
    let outcomes = [
      ("written", written), ("acknowledged", acknowledged), ("expired", expired), ("dropped", dropped),
      ("maybe_delivered", maybeDelivered),
    ]
    return [
      MetricSample("websocket_session_attempts_total", counter: attempts),
      MetricSample("websocket_session_connects_total", counter: connects),
      MetricSample("websocket_session_reconnects_total", counter: reconnects),
      MetricSample("websocket_session_problems_total", counter: problems),
      MetricSample("websocket_session_messages_received_total", counter: messagesReceived),
      MetricSample("websocket_session_outbox_messages", gauge: Double(outboxMessages)),
      MetricSample("websocket_session_outbox_bytes", gauge: Double(outboxBytes)),
    ]
      + outcomes.map { MetricSample("websocket_session_outcomes_total", ["outcome": $0], counter: $1) }
  }
}
