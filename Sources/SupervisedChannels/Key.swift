/// A value of any hashable type, equal only to values of exactly its own type.
///
/// `AnyHashable` takes the integer 1 and the floating-point number 1.0 for the same; two channels must not collide so.
package struct Key: Hashable, Sendable, CustomStringConvertible {
  package let value: any Hashable & Sendable

  package init(_ value: any Hashable & Sendable) { self.value = value }

  package static func == (left: Key, right: Key) -> Bool { isEqual(left.value, right.value) }

  package func hash(into hasher: inout Hasher) {
    hasher.combine(ObjectIdentifier(type(of: value)))
    value.hash(into: &hasher)
  }

  package var description: String { "\(value)" }

  private static func isEqual<Value: Hashable>(_ left: Value, _ right: any Hashable) -> Bool {
    // Asked first, since a cast also looks for other ways to make one type of another.
    guard type(of: right) == Value.self, let right = right as? Value else { return false }
    return left == right
  }
}
