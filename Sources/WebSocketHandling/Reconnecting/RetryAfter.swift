extension HandshakeRefusal {
  /// The longest wait that a server can ask for, in seconds: a day.
  private static let longestRetryAfter = 86_400

  /// How long the server asks to be left alone (`Retry-After`, RFC 9110 §10.2.3); nil where it does not, or not clearly.
  ///
  /// A date is measured against the answer's own `Date`, so that the two clocks need not agree. At most a day.
  public var retryAfter: Duration? {
    guard let value = headers["Retry-After"] else { return nil }
    if !value.isEmpty, value.utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }) {
      return .seconds(min(Int(value) ?? Self.longestRetryAfter, Self.longestRetryAfter))
    }
    guard let date = headers["Date"], let now = Self.seconds(ofDate: date), let then = Self.seconds(ofDate: value)
    else { return nil }
    return .seconds(min(max(0, then - now), Self.longestRetryAfter))
  }

  private static let months = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
  ]

  /// The seconds since 1970 of a date such as `Sun, 06 Nov 1994 08:49:37 GMT` (RFC 9110 §5.6.7), the one form that may
  /// be sent.
  private static func seconds(ofDate text: String) -> Int? {
    let parts = text.split(separator: " ", omittingEmptySubsequences: false)
    guard parts.count == 6, parts[5] == "GMT", let day = Int(parts[1]), (1...31).contains(day),
      let month = months.firstIndex(of: String(parts[2])), let year = Int(parts[3]), (1970...9999).contains(year)
    else { return nil }
    let clock = parts[4].split(separator: ":", omittingEmptySubsequences: false).compactMap { Int($0) }
    guard clock.count == 3, (0..<24).contains(clock[0]), (0..<60).contains(clock[1]), (0...60).contains(clock[2])
    else { return nil }
    // Years that begin in March have their leap day at the end.
    let shifted = month < 2 ? year - 1 : year
    let days = 365 * shifted + shifted / 4 - shifted / 100 + shifted / 400 + (153 * ((month + 10) % 12) + 2) / 5 + day
    let daysUntil1970 = 719_469
    return (days - daysUntil1970) * 86_400 + clock[0] * 3_600 + clock[1] * 60 + clock[2]
  }
}
