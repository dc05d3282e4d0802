import Dispatch
public import Foundation
import WebSocketCore
public import WebSocketHandling
import WebSocketTransport

/// A client of a ``QuoteServer``: prices of products, over one connection.
///
/// The first subscription connects, further ones share the connection, and the last that ends closes it. Prices come one
/// at a time and in order, on a thread of the handler's or the system's and never inside a call of yours. Given a
/// `ReconnectingSession` as its handler, a client subscribes again by itself after each loss.
///
///     let client = QuoteClient(url: url)
///     client.subscribe(to: "100") { price in print(price ?? "no more prices") }
public final class QuoteClient: Sendable {
  private enum Update: Sendable {
    case price(String)
    case failed
    case finished
  }

  private struct State: Sendable {
    var machine = QuoteClientMachine()
    /// Who waits for the connection to be closed.
    var closers: [@Sendable () -> Void] = []
    var hearers: [UInt64: @Sendable (Update) -> Void] = [:]
    var outputs: [QuoteClientMachine.Output] = []
    var isDraining = false
  }

  private let request: NetworkRequest
  private let handler: any WebSocketHandler
  private let state = Lock(State())
  /// Where things go on that come while a call of the user's is under way.
  let queue = DispatchQueue(label: "websocket.quotes")

  /// A client that is not connected.
  ///
  /// - Parameters:
  ///   - url: the server's, `ws` or `wss`.
  ///   - handler: makes the connection; nobody else may use it.
  public convenience init(url: URL, handler: any WebSocketHandler = DefaultWebSocketHandler()) {
    self.init(request: NetworkRequest(url: url), handler: handler)
  }

  /// A client that is not connected, with header fields and time-outs of your own.
  ///
  /// - Parameters:
  ///   - request: the server, and how to connect to it.
  ///   - handler: makes the connection; nobody else may use it.
  public init(request: NetworkRequest, handler: any WebSocketHandler = DefaultWebSocketHandler()) {
    self.request = request
    self.handler = handler
  }

  deinit {
    if state.withLock({ $0.machine.usesHandler }) { handler.disconnect { _ in } }
  }

  /// Whether there is a connection.
  public var isOpen: Bool { state.withLock { $0.machine.isOpen } }

  /// The server's id for the connection; nil before the server has acknowledged a subscription.
  public var connectionId: Int? { state.withLock { $0.machine.connectionID } }

  /// Hears the prices of a product, from the newest on.
  ///
  /// - Parameters:
  ///   - product: such as `100`.
  ///   - onPrice: called with each price; once with nil when the server refuses the product or the connection fails,
  ///     and not again after that. Never has to be set up anew.
  /// - Returns: what ends the subscription before.
  @discardableResult
  public func subscribe(to product: String, onPrice: @escaping @Sendable (String?) -> Void) -> QuoteSubscription {
    subscribe(product) { update in
      switch update {
      case .price(let price): onPrice(price)
      case .failed: onPrice(nil)
      case .finished: break
      }
    }
  }

  /// The prices of a product; a reader that is slow gets the newest.
  ///
  /// Ends when the client is closed; throws ``QuoteError/failed`` when the server refuses the product or the connection
  /// fails. A task that stops reading ends the subscription.
  public func prices(of product: String) -> AsyncThrowingStream<String, any Error> {
    AsyncThrowingStream(bufferingPolicy: .bufferingNewest(1)) { continuation in
      let subscription = subscribe(product) { update in
        switch update {
        case .price(let price): continuation.yield(price)
        case .failed: continuation.finish(throwing: QuoteError.failed)
        case .finished: continuation.finish()
        }
      }
      continuation.onTermination = { _ in subscription.cancel() }
    }
  }

  /// Ends every subscription, tells the server so, and closes the connection.
  ///
  /// A subscription made afterwards connects again.
  ///
  /// - Parameter completion: called when the connection is closed; within this call where there is none.
  public func close(completion: (@Sendable () -> Void)? = nil) {
    call { state in
      if let completion { state.closers.append(completion) }
      return state.machine.close()
    }
  }

  fileprivate func cancel(_ id: UInt64) {
    // At once: what has arrived for it is not told any more. Let go outside the lock.
    let hearer = state.withLock { $0.hearers.removeValue(forKey: id) }
    call { $0.machine.cancel(id) }
    _ = hearer
  }

  private func subscribe(_ product: String, _ hearer: @escaping @Sendable (Update) -> Void) -> QuoteSubscription {
    var subscription = QuoteSubscription(client: self, id: 0)
    call { state in
      let (id, outputs) = state.machine.subscribe(to: product)
      state.hearers[id] = hearer
      subscription = QuoteSubscription(client: self, id: id)
      return outputs
    }
    return subscription
  }

  /// Changes the state, alone, and performs what follows from it in order, whichever threads the inputs come on.
  private func update(_ change: (inout State) -> [QuoteClientMachine.Output]) {
    if begin(change) > 0 { drain() }
  }

  /// The same for a call of the user's, in which nothing is done that the handler tells meanwhile.
  private func call(_ change: (inout State) -> [QuoteClientMachine.Output]) {
    let count = begin(change)
    guard count > 0 else { return }
    for _ in 0..<count { if let output = next() { perform(output) } }
    let goesOn = state.withLock { state in
      state.isDraining = !state.outputs.isEmpty
      return state.isDraining
    }
    if goesOn { queue.async { [self] in drain() } }
  }

  /// Changes the state; how many outputs the caller has to see to, none where somebody does.
  private func begin(_ change: (inout State) -> [QuoteClientMachine.Output]) -> Int {
    state.withLock { state in
      state.outputs += change(&state)
      guard !state.isDraining, !state.outputs.isEmpty else { return 0 }
      state.isDraining = true
      return state.outputs.count
    }
  }

  private func drain() {
    while let output = next() { perform(output) }
  }

  private func next() -> QuoteClientMachine.Output? {
    state.withLock { state in
      guard !state.outputs.isEmpty else {
        state.isDraining = false
        return nil
      }
      return state.outputs.removeFirst()
    }
  }

  private func perform(_ output: QuoteClientMachine.Output) {
    switch output {
    case .connect:
      handler.connect(request: request) { [weak self, handler] result in
        switch result {
        case .success:
          if let self { return update { $0.machine.connected() } }
          // A handler whose connect cannot be cancelled has a connection that nobody wants.
          handler.disconnect { _ in }
        case .failure: self?.update { $0.machine.connectFailed() }
        }
      }
    case .receive:
      handler.receive { [weak self] (result: Result<WebSocketMessage, EngineError.WebSocketError>) in
        self?.update { state in
          switch result {
          case .success(let message): state.machine.received(ServerMessage(message.data))
          case .failure(.closed): state.machine.ended(isClosed: true)
          case .failure: state.machine.ended(isClosed: false)
          }
        }
      }
    case .send(let message):
      // A connection that breaks fails the receive, and that is the one place to hear of it.
      handler.send(message: WebSocketMessage.text(message.text)) { _ in }
    case .disconnect:
      handler.disconnect { [weak self] _ in self?.update { $0.machine.disconnected() } }
    case .closed:
      let closers = state.withLock { state in
        defer { state.closers = [] }
        return state.closers
      }
      for closer in closers { closer() }
    case .price(let id, let price):
      // It may have ended since.
      state.withLock { $0.machine.isSubscribed(id) ? $0.hearers[id] : nil }?(.price(price))
    case .failed(let id): state.withLock { $0.hearers.removeValue(forKey: id) }?(.failed)
    case .finished(let id): state.withLock { $0.hearers.removeValue(forKey: id) }?(.finished)
    }
  }
}

/// A subscription of a ``QuoteClient``.
public struct QuoteSubscription: Sendable {
  fileprivate let client: QuoteClient
  fileprivate let id: UInt64

  /// Ends the subscription; the client's connection is closed with the last one.
  public func cancel() { client.cancel(id) }
}

/// Why prices ended.
public enum QuoteError: Error, Sendable, Hashable {
  /// The server refused the product, or the connection failed.
  case failed
}
