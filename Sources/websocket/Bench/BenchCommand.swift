import Foundation
import Glibc
import WebSocketHandling

/// Why a measurement is worth nothing.
struct BenchFailure: Error {
  var reason: String
}

/// `websocket bench URL`: measures this client against an echo server, and against another client.
final class BenchCommand: Sendable {
  static let usage = """
    usage: websocket bench --scenario NAME [options] URL
      --scenario NAME    s1   ping-pong, 32 bytes of text
                         s2   125 bytes of text, 256 in flight
                         s3a  64 KiB binary, 8 in flight
                         s3b  1 MiB binary, 8 in flight
                         s4   idle connections: memory of each, connections per second
                         s5   ping-pong of JSON
      --mode MODE        loop: callbacks on the event loop (default); queue: on a private queue; async: a task
      --api API          bytes: borrowed messages (default); string: and a String of each; receive: receive re-armed
      --connections N    how many connections; default: 1, for s4 1000
      --messages N       how many messages on each
      --ca FILE          the authorities to trust, in PEM, instead of the system's
      --insecure         accept any certificate
      --json             a line of JSON: microseconds per message, or per connection
      --versus COMMAND   alternates with a program that prints such lines, and compares the medians
      --rounds N         how often each of both runs; default: 5
    """

  private let measurement: BenchRun
  private let isJSON: Bool
  private let versus: BenchVersus?

  init(_ arguments: some Sequence<String>) throws(UsageError) {
    let options = try CommandLineOptions(
      arguments, flags: ["--json", "--insecure"],
      valued: ["--scenario", "--mode", "--api", "--connections", "--messages", "--ca", "--versus", "--rounds"])
    let text = try options.operand("URL")
    guard let url = URL(string: text) else { throw UsageError(message: "\(text) is not a URL") }
    guard let scenario: BenchScenario = try options.choice("--scenario") else {
      throw UsageError(message: "--scenario is needed")
    }
    let mode: BenchMode = try options.choice("--mode") ?? .loop
    let api: BenchAPI? = try options.choice("--api")
    guard mode != .async || api == nil else { throw UsageError(message: "--api is for callbacks, not for async") }
    measurement = BenchRun(
      scenario: scenario, mode: mode, api: api ?? .bytes,
      connections: try options.integer("--connections", in: 1...100_000) ?? (scenario == .s4 ? 1000 : 1),
      messages: try options.integer("--messages", in: 1...1_000_000_000), request: NetworkRequest(url: url),
      tls: try options.tls())
    isJSON = options.has("--json")
    let rounds = try options.integer("--rounds", in: 1...10_000)
    if let command = options.string("--versus") {
      var own = ["bench", "--scenario", scenario.rawValue, "--mode", mode.rawValue, "--json", text]
      if options.has("--insecure") { own.append("--insecure") }
      for name in ["--api", "--connections", "--messages", "--ca"] {
        if let value = options.string(name) { own += [name, value] }
      }
      versus = BenchVersus(own, versus: command, rounds: rounds ?? 5)
    } else if rounds != nil {
      throw UsageError(message: "--rounds needs --versus")
    } else {
      versus = nil
    }
  }

  /// Measures on the main thread, which a profiler can follow, and ends the process.
  func run() -> Never {
    Terminal.onTermination { exit(1) }
    Self.raiseDescriptorLimit()
    if var versus {
      do throws(BenchFailure) { try versus.run() } catch { Self.fail(error.reason) }
      Terminal.print(isJSON ? versus.json : versus.text)
    } else {
      let result = measurement.measure()
      Terminal.print(isJSON ? result.json : result.text)
    }
    exit(0)
  }

  /// Ends the process: what went wrong makes the measurement worthless.
  static func fail(_ reason: String) -> Never {
    Terminal.complain("websocket bench: \(reason)")
    exit(1)
  }

  /// Lets the process have as many descriptors as it may.
  private static func raiseDescriptorLimit() {
    var limit = rlimit()
    guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return }
    limit.rlim_cur = limit.rlim_max
    setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
  }
}
