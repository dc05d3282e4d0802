// What Action Cable costs, as its documentation says: a message of one subscription, and a subscription's memory.
//
//   cable serve      prints its URL, and serves
//   cable URL        prints the figures; ends with 1 where a subscription takes more than thrice what is documented
//
// Times depend on the machine and its other work, so that none is judged.
import ActionCable
import Foundation
import Glibc
import WebSocketTesting

struct Line: Codable, Sendable {
  var senderId: Int
  var sentAt: Date
  var text: String
}

let messages = 50_000
let subscriptions = 20_000

/// Processor time of this process, in microseconds.
func processorTime() -> Double {
  var time = timespec()
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
  return Double(time.tv_sec) * 1e6 + Double(time.tv_nsec) / 1e3
}

/// Resident memory, in bytes.
func resident() throws -> Int {
  let pages = try String(contentsOfFile: "/proc/self/statm", encoding: .utf8).split(separator: " ")
  return (Int(pages[1]) ?? 0) * sysconf(Int32(_SC_PAGESIZE))
}

func serve() throws -> Never {
  let line: JSONValue = ["sender_id": 311, "sent_at": 1_600_545_466.294104, "text": "Hello, room 42!"]
  let server = try CableLoopbackServer(channels: [
    "ChatChannel": { channel in channel.on("burst") { _ in for _ in 0..<messages { channel.transmit(line) } } }
  ])
  print(server.url)
  fflush(nil)
  while true { pause() }
}

/// What one message takes, in microseconds: of the processor, and until the next.
func message(_ client: ActionCableClient, decoding: Bool) async throws -> (work: Double, time: Double) {
  let events = client.events(of: try ChannelIdentifier("ChatChannel"))
  var iterator = events.makeAsyncIterator()
  while await iterator.next() != .confirmed(reconnected: false) {}
  let (work, start) = (processorTime(), ContinuousClock.now)
  events.subscription.perform("burst", completion: nil)
  for _ in 0..<messages {
    guard case .message(let message)? = await iterator.next() else { fatalError("no message") }
    if decoding { _ = try message.decode(Line.self) }
  }
  let count = Double(messages)
  return ((processorTime() - work) / count, (ContinuousClock.now - start) / .microseconds(1) / count)
}

func measure(_ client: ActionCableClient) async throws -> Bool {
  try await client.connect()
  _ = try await message(client, decoding: true)
  let plain = try await message(client, decoding: false)
  let decoded = try await message(client, decoding: true)
  let (confirmations, confirmation) = AsyncStream.makeStream(of: Bool.self)
  let before = try resident()
  for number in 1...subscriptions {
    client.subscribe(to: try ChannelIdentifier("ChatChannel", ["room_id": .integer(number)])) { event in
      switch event {
      case .confirmed: if number == subscriptions { confirmation.yield(true) }
      case .message, .gap: break
      case .disconnected, .ended: confirmation.yield(false)
      }
    }
  }
  guard await confirmations.first(where: { _ in true }) == true else { fatalError("a subscription was not confirmed") }
  let bytes = (try resident() - before) / subscriptions
  print(
    "a message: \(Int(plain.work)) µs of processor time, \(Int(1e6 / plain.time)) a second; decoded:",
    "\(Int(decoded.work)) µs, \(Int(1e6 / decoded.time)) a second; a subscription: \(bytes) bytes")
  return bytes < 3 * 1_024
}

guard let url = URL(string: CommandLine.arguments[1]), url.scheme != nil else { try serve() }
exit(try await measure(ActionCableClient(url: url, staleAfter: nil)) ? 0 : 1)
