// What the documentation's adapter uses of swift-metrics, in its signatures, so that the adapter is compiled without it.
public final class Counter {
  public init(label: String, dimensions: [(String, String)] = []) {}
  public func increment<Amount: BinaryInteger>(by amount: Amount) {}
}

public final class Gauge {
  public init(label: String, dimensions: [(String, String)] = []) {}
  public func record<Value: BinaryFloatingPoint>(_ value: Value) {}
}
