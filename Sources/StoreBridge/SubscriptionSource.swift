public import ActionCable
import WebSocketTransport

/// The messages of an Action Cable subscription.
///
/// It subscribes when it is started and unsubscribes when it is cancelled. A store that is slow holds the server back,
/// and with it the client's other subscriptions.
public final class SubscriptionSource: MessageSource {
  /// What the channel sends.
  public typealias Message = CableMessage

  private let client: ActionCableClient
  private let identifier: ChannelIdentifier
  private let buffering: Bool
  private let run = Lock<(subscription: Subscription, turn: Turn)?>(nil)

  /// A subscription to come.
  ///
  /// - Parameters:
  ///   - client: the connection.
  ///   - identifier: which channel.
  ///   - buffering: whether messages that are sent before the confirmation wait for it.
  public init(_ client: ActionCableClient, to identifier: ChannelIdentifier, buffering: Bool = false) {
    self.client = client
    self.identifier = identifier
    self.buffering = buffering
  }

  /// The subscription, to send to the channel; nil before the start.
  public var subscription: Subscription? { run.withLock { $0?.subscription } }

  /// Subscribes.
  public func start(
    onMessage: @escaping @Sendable (CableMessage, _ next: @escaping @Sendable () -> Void) -> Void,
    onSignal: @escaping @Sendable (BridgeSignal<CableMessage>) -> Void
  ) {
    let events = client.events(of: identifier, buffering: buffering)
    let (subscription, turn) = (events.subscription, Turn())
    Task {
      for await event in events {
        if case .message(let message) = event {
          guard turn.begin() else { return }
          onMessage(message) { turn.pass() }
          await turn.wait()
        } else if !turn.isCancelled {
          for signal in Self.signals(of: event) { onSignal(signal) }
        }
      }
    }
    run.withLock { $0 = (subscription, turn) }
  }

  /// Unsubscribes.
  public func cancel() {
    guard let (subscription, turn) = run.withLock({ $0 }) else { return }
    turn.cancel()
    // The task ends with the subscription's last event.
    subscription.unsubscribe()
  }

  /// The frame's bytes plus 64.
  public func cost(of message: CableMessage) -> Int { message.cost }

  private static func signals(of event: SubscriptionEvent) -> [BridgeSignal<CableMessage>] {
    switch event {
    case .message: []
    case .confirmed(let reconnected): [.connected(reconnected: reconnected)]
    case .gap: [.mayHaveMissed]
    case .disconnected(let cause, let willReconnect): [.disconnected(cause, willReconnect: willReconnect)]
    case .ended(.rejected): [.rejected, .ended(SubscriptionEnd.rejected)]
    case .ended(.timedOut): [.ended(SubscriptionEnd.timedOut)]
    case .ended(.unsubscribed), .ended(.shutdown): [.ended(nil)]
    }
  }
}

/// Lets a task wait until the message that it gave was taken.
private final class Turn: Sendable {
  private enum State: Sendable {
    case free
    case given
    case waiting(CheckedContinuation<Void, Never>)
    case cancelled
  }

  private let state = Lock(State.free)

  var isCancelled: Bool { state.withLock { if case .cancelled = $0 { true } else { false } } }

  /// A message is about to be given; false where it is not wanted any more.
  func begin() -> Bool {
    state.withLock { state in
      if case .cancelled = state { return false }
      state = .given
      return true
    }
  }

  func pass() { end(.free) }

  func cancel() { end(.cancelled) }

  private func end(_ new: State) {
    let waiting = state.withLock { state -> CheckedContinuation<Void, Never>? in
      switch state {
      case .cancelled: return nil
      case .waiting(let continuation):
        state = new
        return continuation
      case .free, .given:
        state = new
        return nil
      }
    }
    waiting?.resume()
  }

  /// Returns at once where the message was taken already.
  func wait() async {
    // Does not suspend where it need not.
    if state.withLock({ if case .given = $0 { false } else { true } }) { return }
    await withCheckedContinuation { continuation in
      let isOver = state.withLock { state in
        guard case .given = state else { return true }
        state = .waiting(continuation)
        return false
      }
      if isOver { continuation.resume() }
    }
  }
}

extension ActionCableClient {
  /// A channel as a source of messages.
  ///
  /// - Parameters:
  ///   - name: the channel's class, as the server names it.
  ///   - parameters: the channel's parameters.
  ///   - buffering: whether messages that are sent before the confirmation wait for it.
  /// - Throws: ``ActionCable/InvalidIdentifier``.
  public func makeSource(
    name: String, identifier parameters: [String: JSONValue] = [:], buffering: Bool = false
  ) throws(InvalidIdentifier) -> SubscriptionSource {
    SubscriptionSource(self, to: try ChannelIdentifier(name, parameters), buffering: buffering)
  }
}
