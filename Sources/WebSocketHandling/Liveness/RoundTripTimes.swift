/// How long pongs took: of the pings of the current or last connection, the caller's and the keepalive's.
public struct RoundTripTimes: Sendable, Hashable {
  /// How many of the latest times ``percentile(_:)`` looks at.
  public static let window = 128

  /// The latest time; nil before the first pong.
  public private(set) var last: Duration?
  /// How many pongs came.
  public private(set) var count = 0

  private var total = Duration.zero
  private var latest: [Duration] = []

  /// No times yet.
  public init() {}

  /// The mean of all times; nil before the first pong.
  public var mean: Duration? { count > 0 ? total / count : nil }

  /// The time that this part of the latest ``window`` times does not exceed, such as 0.99; nil before the first pong.
  ///
  /// - Parameter part: 0 gives the shortest, 1 the longest time; others are brought into that range, what is no
  ///   number to 0.
  public func percentile(_ part: Double) -> Duration? {
    guard !latest.isEmpty else { return nil }
    let rank = ((part > 0 ? min(part, 1) : 0) * Double(latest.count)).rounded(.up)
    return latest.sorted()[max(Int(rank), 1) - 1]
  }

  package mutating func add(_ time: Duration) {
    last = time
    total += time
    if latest.count < Self.window {
      latest.append(time)
    } else {
      latest[count % Self.window] = time
    }
    count += 1
  }
}
