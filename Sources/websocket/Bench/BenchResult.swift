import Foundation
import Glibc
import WebSocketTransport

/// What the process had used at a moment: wall time, processor time, context switches.
struct BenchMark: Sendable {
  private let time = Instant.now
  private let usage: rusage

  init() {
    var usage = rusage()
    getrusage(RUSAGE_SELF.rawValue, &usage)
    self.usage = usage
  }

  /// Seconds between two marks.
  static func seconds(from start: BenchMark, to end: BenchMark) -> (wall: Double, user: Double, system: Double) {
    (
      (end.time - start.time) / .seconds(1), seconds(end.usage.ru_utime) - seconds(start.usage.ru_utime),
      seconds(end.usage.ru_stime) - seconds(start.usage.ru_stime)
    )
  }

  /// Times that threads gave the processor up by themselves between two marks.
  static func switches(from start: BenchMark, to end: BenchMark) -> Int {
    end.usage.ru_nvcsw - start.usage.ru_nvcsw
  }

  private static func seconds(_ value: timeval) -> Double { Double(value.tv_sec) + Double(value.tv_usec) * 1e-6 }
}

/// One measurement, in the raw client's keys.
struct BenchResult {
  private let scenario: BenchScenario
  private let count: Int
  private let seconds: (wall: Double, user: Double, system: Double)
  private let switches: Int
  private let bytesPerMessage: Int
  private let trips: [Double]
  /// Memory per connection in KiB; nil where it is not the question.
  private let kibibytesPerConnection: Double?

  /// - Parameters:
  ///   - count: messages, or connections.
  ///   - trips: nanoseconds of each trip; empty where trips overlap.
  init(
    _ scenario: BenchScenario, count: Int, bytesPerMessage: Int, from start: BenchMark, to end: BenchMark,
    trips: [Int64] = [], kibibytesPerConnection: Double? = nil
  ) {
    self.scenario = scenario
    self.count = count
    self.bytesPerMessage = bytesPerMessage
    seconds = BenchMark.seconds(from: start, to: end)
    switches = BenchMark.switches(from: start, to: end)
    self.trips = trips.sorted().map { Double($0) / 1000 }
    self.kibibytesPerConnection = kibibytesPerConnection
  }

  /// Keys and values: `us`, `cpu`, `user` and `sys` are microseconds per message, `p50` and `p99` of a trip, `rss` and
  /// `kib` KiB of the process and of one connection.
  private var fields: [(key: String, value: String)] {
    func perMessage(_ seconds: Double) -> String { String(format: "%.3f", seconds / Double(count) * 1e6) }
    func percentile(_ share: Double) -> String {
      String(format: "%.2f", trips.isEmpty ? 0 : trips[Int(Double(trips.count) * share)])
    }
    let rate = Double(count) / seconds.wall
    return [
      ("n", "\(count)"), ("s", String(format: "%.4f", seconds.wall)), ("rate", String(format: "%.0f", rate)),
      ("MBps", String(format: "%.1f", rate * Double(bytesPerMessage) / 1e6)), ("us", perMessage(seconds.wall)),
      ("cpu", perMessage(seconds.user + seconds.system)), ("user", perMessage(seconds.user)),
      ("sys", perMessage(seconds.system)), ("p50", percentile(0.5)), ("p99", percentile(0.99)), ("csw", "\(switches)"),
      ("rss", String(format: "%.0f", Self.residentKibibytes())),
    ] + (kibibytesPerConnection.map { [("kib", String(format: "%.2f", $0))] } ?? [])
  }

  var json: String {
    "{\"peer\":\"websocket\",\"sc\":\"\(scenario.rawValue)\","
      + fields.map { "\"\($0.key)\":\($0.value)" }.joined(separator: ",") + "}"
  }

  var text: String {
    scenario.rawValue + fields.map { "  \($0.key) \($0.value)" }.joined()
  }

  /// What the process holds of memory, in KiB.
  static func residentKibibytes() -> Double {
    let text = (try? String(contentsOfFile: "/proc/self/statm", encoding: .utf8)) ?? ""
    let pages = text.split(separator: " ").dropFirst().first.flatMap { Double($0) } ?? 0
    return pages * Double(sysconf(Int32(_SC_PAGESIZE))) / 1024
  }
}
