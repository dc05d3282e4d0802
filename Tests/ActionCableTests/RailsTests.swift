import ActionCable
import Foundation
import Testing

/// Where the server is; nil: there is none.
private let serverURL = ProcessInfo.processInfo.environment["ACTION_CABLE_URL"].flatMap { URL(string: $0) }

/// Run by a check that has started the server.
@Suite("Action Cable of Rails", .enabled(if: serverURL != nil), .timeLimit(.minutes(5)))
struct RailsTests {
  @Test func `a hundred unsubscribe-subscribe storms end subscribed, without a ghost or a second delivery`()
    async throws
  {
    let client = ActionCableClient(url: try #require(serverURL), staleAfter: .seconds(240))
    try await client.connect()
    var generator = SystemRandomNumberGenerator()
    let identifier = try room(100)
    for round in 0..<100 {
      for _ in 0..<Int.random(in: 1...5, using: &generator) {
        let fleeting = client.events(of: identifier)
        // Some end before their confirmation, some after it.
        if Bool.random(using: &generator) {
          var events = fleeting.makeAsyncIterator()
          #expect(await events.next() == .confirmed(reconnected: false))
        }
        fleeting.subscription.unsubscribe()
      }
      let events = client.events(of: identifier)
      var iterator = events.makeAsyncIterator()
      #expect(await iterator.next() == .confirmed(reconnected: false))
      #expect(await events.subscription.perform("speak", ["round": round]) == .written)
      // The server has one thread for a connection's broadcasts and answers them in order: what comes twice comes here.
      #expect(await iterator.next() == .message(CableMessage(identifier: identifier, body: "{\"round\":\(round)}")))
      #expect(await events.subscription.perform("whoami") == .written)
      #expect(
        await iterator.next()
          == .message(CableMessage(identifier: identifier, body: #"{"token":"","room_id":100}"#)))
      events.subscription.unsubscribe()
      #expect(await iterator.next() == .ended(.unsubscribed))
    }
    #expect(client.counters.connections == 1)
    await client.shutdown()
  }
}
