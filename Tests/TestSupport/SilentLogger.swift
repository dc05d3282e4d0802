package import WebSocketHandling

/// A logger that wants all lines and says nothing.
package struct SilentLogger: Logger {
  package init() {}

  package func log(
    file: String, function: String, line: Int, logLevel: LogLevel, _ message: @autoclosure () -> Any
  ) {}
}
