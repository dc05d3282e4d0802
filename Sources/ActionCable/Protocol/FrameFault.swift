/// What is wrong with text that should be a JSON object.
public enum FrameFault: Error, Sendable, Hashable {
  /// It is no JSON (RFC 8259) from that byte on.
  case malformed(offset: Int)
  /// It is nested more deeply than 256 levels, counted from the text's own.
  case tooDeep
  /// It is JSON, but no object.
  case notAnObject
}
