import Foundation

/// Writes lines to standard error: time, level, message.
public struct DefaultLogger: Logger {
  /// The logger that handlers use by default, from ``LogLevel/info`` up.
  public static let shared = DefaultLogger()

  /// The least level that is written.
  public let minimumLevel: LogLevel

  /// A logger that writes from that level up.
  ///
  /// Default: ``LogLevel/info``.
  public init(minimumLevel: LogLevel = .info) { self.minimumLevel = minimumLevel }

  /// Whether the level is at least ``minimumLevel``.
  public func isEnabled(_ level: LogLevel) -> Bool { level >= minimumLevel }

  /// Writes one line.
  public func log(
    file: String, function: String, line: Int, logLevel: LogLevel, _ message: @autoclosure () -> Any
  ) {
    guard isEnabled(logLevel) else { return }
    let text = "\(Date.now.ISO8601Format()) \(logLevel): \(message())\n"
    FileHandle.standardError.write(Data(text.utf8))
  }
}
