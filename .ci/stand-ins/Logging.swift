// What the documentation's adapter uses of swift-log, in its signatures, so that the adapter is compiled without it.
public struct Logger: Sendable {
  public enum Level: Int, Sendable, Comparable {
    case trace, debug, info, notice, warning, error, critical
    public static func < (left: Level, right: Level) -> Bool { left.rawValue < right.rawValue }
  }

  public struct Message: ExpressibleByStringInterpolation, Sendable {
    public init(stringLiteral value: String) {}
  }

  public struct MetadataValue: Sendable {}
  public typealias Metadata = [String: MetadataValue]

  public var logLevel = Level.info

  public init(label: String) {}

  public func log(
    level: Level, _ message: @autoclosure () -> Message, metadata: @autoclosure () -> Metadata? = nil,
    source: @autoclosure () -> String? = nil, file: String = #fileID, function: String = #function, line: UInt = #line
  ) {}
}
