/// The fuzzer's bytes: a few that say how to run, then those that a peer would send.
struct FuzzInput {
  private var rest: ArraySlice<UInt8>

  init(_ start: UnsafePointer<UInt8>?, _ count: Int) {
    // Safe: libFuzzer passes the memory and its length together, and keeps it during the call.
    rest = Array(UnsafeBufferPointer(start: start, count: count))[...]
  }

  /// The next byte; 0 where none is left.
  mutating func byte() -> UInt8 { rest.popFirst() ?? 0 }

  /// Where to cut: up to seven offsets, each told as a 65,536th of the length, in order.
  mutating func cuts() -> [Double] {
    let count = byte() & 7
    return (0..<count).map { _ in Double(Int(byte()) << 8 | Int(byte())) / 65_536 }.sorted()
  }

  /// What is left.
  var bytes: [UInt8] { Array(rest) }
}

extension Array where Element == UInt8 {
  /// The pieces between the places, some of them empty.
  func pieces(cutAt places: [Double]) -> [[UInt8]] {
    let bounds = [0] + places.map { Int(Double(count) * $0) } + [count]
    return zip(bounds, bounds.dropFirst()).map { Array(self[$0..<$1]) }
  }
}

/// Ends the process, which the fuzzer takes for a finding, where two results differ.
func expectEqual<Value: Equatable>(_ left: Value, _ right: Value) {
  guard left != right else { return }
  fatalError("the result depends on where the bytes are cut:\n\(left)\n\(right)")
}
