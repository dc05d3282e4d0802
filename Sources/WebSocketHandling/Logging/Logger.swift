/// How much a line matters, the least first.
public enum LogLevel: Int, Sendable, Hashable, Comparable, CaseIterable {
  /// Each message.
  case debug
  /// The life of a connection.
  case info
  /// Something was given up that may be missed.
  case warning
  /// An operation failed.
  case error

  /// Whether the left level matters less.
  public static func < (left: LogLevel, right: LogLevel) -> Bool { left.rawValue < right.rawValue }
}

/// Takes the library's log lines.
///
/// Called on the callbacks' thread, never under a lock. No line holds a query string, a header value or a payload.
public protocol Logger: Sendable {
  /// Takes one line; `message` is only computed where it is called.
  func log(file: String, function: String, line: Int, logLevel: LogLevel, _ message: @autoclosure () -> Any)

  /// Whether lines of that level are wanted. Asked once per connection for ``LogLevel/debug``. Default: true.
  func isEnabled(_ level: LogLevel) -> Bool
}

extension Logger {
  /// All levels are wanted.
  public func isEnabled(_ level: LogLevel) -> Bool { true }
}
