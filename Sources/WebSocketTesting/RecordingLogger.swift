public import WebSocketHandling
import WebSocketTransport

/// A logger that keeps its lines for a test to look at.
public final class RecordingLogger: Logger {
  /// One line.
  public struct Line: Sendable, Hashable {
    /// How much it matters.
    public let level: LogLevel
    /// What it says.
    public let text: String
  }

  private let minimumLevel: LogLevel
  private let recorded = Lock<[Line]>([])

  /// A logger that keeps lines from that level up.
  ///
  /// Default: all of them.
  public init(minimumLevel: LogLevel = .debug) { self.minimumLevel = minimumLevel }

  /// The lines so far, the oldest first.
  public var lines: [Line] { recorded.withLock { $0 } }

  /// The texts of that level so far.
  public func texts(_ level: LogLevel) -> [String] { lines.filter { $0.level == level }.map(\.text) }

  /// Whether lines of that level are kept.
  public func isEnabled(_ level: LogLevel) -> Bool { level >= minimumLevel }

  /// Keeps the line.
  public func log(
    file: String, function: String, line: Int, logLevel: LogLevel, _ message: @autoclosure () -> Any
  ) {
    guard isEnabled(logLevel) else { return }
    // Computed before the lock is taken: it is the caller's code.
    let line = Line(level: logLevel, text: "\(message())")
    recorded.withLock { $0.append(line) }
  }
}
