import Foundation
import WebSocketHandling
import WebSocketServing
import WebSocketTransport

/// The way to one client: while it has not read the last prices, newer ones take the place of those that wait.
///
/// What it has read is known by pings: a pong comes behind everything that was sent before its ping (RFC 6455 §5.5.3).
final class QuoteOutlet: Sendable {
  private struct State: Sendable {
    var isBehind = false
    /// The newest price of each product that could not be sent yet.
    var waiting: [String: String] = [:]
  }

  private let connection: ServerConnection
  private let state = Lock(State())

  init(_ connection: ServerConnection) { self.connection = connection }

  /// Sends the prices, or lets them wait.
  func quote(_ quotes: [(product: String, price: String)]) {
    guard !quotes.isEmpty else { return }
    let isBehind = state.withLock { state in
      for quote in quotes { state.waiting[quote.product] = quote.price }
      defer { state.isBehind = true }
      return state.isBehind
    }
    if !isBehind { sendWaiting() }
  }

  /// Sends what is no price; a client that takes it too slowly is dropped.
  func send(_ message: ServerMessage) {
    connection.send(.binary(message.data)) { [weak connection] result in
      if case .failure(.limitExceeded) = result { connection?.drop() }
    }
  }

  private func sendWaiting() {
    let quotes = state.withLock { state in
      defer { state.waiting = [:] }
      if state.waiting.isEmpty { state.isBehind = false }
      return state.waiting.sorted { $0.key < $1.key }
    }
    guard !quotes.isEmpty else { return }
    for (product, price) in quotes { send(.quote(product: product, price: price)) }
    connection.ping { [weak self] result in
      if case .success = result { self?.sendWaiting() }
    }
  }
}
