import Foundation

/// Two programs that measure the same, turn by turn, and the medians of what they print.
struct BenchVersus {
  /// A program and what it printed in each round.
  private struct Side {
    var name: String
    var executable: String
    var arguments: [String]
    var rounds: [[String: Double]] = []

    /// Runs the program once and keeps the last JSON line that it prints.
    mutating func run() throws(BenchFailure) {
      let process = Process()
      let output = Pipe()
      process.executableURL = URL(fileURLWithPath: executable)
      process.arguments = arguments
      process.standardOutput = output
      let text: String
      do {
        try process.run()
        text = String(decoding: try output.fileHandleForReading.readToEnd() ?? Data(), as: UTF8.self)
      } catch {
        throw BenchFailure(reason: "\(name): \(error)")
      }
      process.waitUntilExit()
      guard process.terminationStatus == 0 else {
        throw BenchFailure(reason: "\(name) ended with status \(process.terminationStatus)")
      }
      guard let line = text.split(separator: "\n").last(where: { $0.hasPrefix("{") }),
        let object = try? JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any]
      else { throw BenchFailure(reason: "\(name) printed no measurement") }
      rounds.append(object.compactMapValues { ($0 as? NSNumber)?.doubleValue })
    }

    func median(_ key: String) -> Double? {
      let values = rounds.compactMap { $0[key] }.sorted()
      guard values.count == rounds.count, !values.isEmpty else { return nil }
      let middle = values.count / 2
      return values.count.isMultiple(of: 2) ? (values[middle - 1] + values[middle]) / 2 : values[middle]
    }
  }

  /// The keys that are compared, where both programs print them.
  private static let keys = ["us", "cpu", "user", "sys", "p50", "p99", "kib"]

  private var ours: Side
  private var theirs: Side
  private let rounds: Int

  /// - Parameters:
  ///   - arguments: of this program, to measure once and print JSON.
  ///   - command: the other program, for the shell.
  init(_ arguments: [String], versus command: String, rounds: Int) {
    ours = Side(name: "websocket", executable: "/proc/self/exe", arguments: arguments)
    theirs = Side(name: command, executable: "/bin/sh", arguments: ["-c", command])
    self.rounds = rounds
  }

  mutating func run() throws(BenchFailure) {
    for _ in 0..<rounds {
      try ours.run()
      try theirs.run()
    }
  }

  /// The medians of one key, and their ratio.
  private struct Line {
    var key: String
    var ours: Double
    var theirs: Double

    var ratio: Double { ours / theirs }
  }

  private var lines: [Line] {
    Self.keys.compactMap { key in
      guard let ours = ours.median(key), let theirs = theirs.median(key), theirs > 0 else { return nil }
      return Line(key: key, ours: ours, theirs: theirs)
    }
  }

  /// One line of JSON for each key.
  var json: String {
    lines.map {
      "{\"key\":\"\($0.key)\","
        + String(format: "\"ours\":%.3f,\"theirs\":%.3f,\"ratio\":%.3f}", $0.ours, $0.theirs, $0.ratio)
    }.joined(separator: "\n")
  }

  /// A table: the key, our median, theirs, the ratio.
  var text: String {
    lines.map {
      $0.key.padding(toLength: 6, withPad: " ", startingAt: 0)
        + String(format: "%12.3f%12.3f%8.2f", $0.ours, $0.theirs, $0.ratio)
    }.joined(separator: "\n")
  }
}
