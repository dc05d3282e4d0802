/// A number with a name and labels, as metrics systems take them.
public struct MetricSample: Sendable, Hashable {
  /// How the number behaves.
  public enum Kind: Sendable, Hashable {
    /// Only grows.
    case counter
    /// Goes up and down.
    case gauge
  }

  /// In lower case with underscores; the unit is the last word, `total` for counters.
  public var name: String
  /// What tells samples of one name apart.
  public var labels: [String: String]
  /// How the number behaves.
  public var kind: Kind
  /// The number, in the unit that the name says: seconds, bytes, or a count.
  public var value: Double

  /// A sample.
  public init(name: String, labels: [String: String], kind: Kind, value: Double) {
    self.name = name
    self.labels = labels
    self.kind = kind
    self.value = value
  }

  init(_ name: String, _ labels: [String: String] = [:], counter: Int) {
    self.init(name: name, labels: labels, kind: .counter, value: Double(counter))
  }

  init(_ name: String, _ labels: [String: String] = [:], gauge: Double) {
    self.init(name: name, labels: labels, kind: .gauge, value: gauge)
  }
}
