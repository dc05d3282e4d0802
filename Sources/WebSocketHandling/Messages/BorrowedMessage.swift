import Foundation
public import WebSocketCore

/// A received message in the library's own memory, valid during the call only.
///
/// ``text``, ``bytes`` and ``decode(_:)`` copy.
public struct BorrowedMessage: ~Copyable {
  /// Text or binary.
  public let kind: MessageKind
  // Safe: points to memory that the caller keeps unchanged while it lends the message; the type cannot be copied.
  private let payload: UnsafeRawBufferPointer

  package init(kind: MessageKind, payload: UnsafeRawBufferPointer) {
    self.kind = kind
    self.payload = payload
  }

  /// The length in bytes.
  public var count: Int { payload.count }

  /// The text; nil for a binary message.
  ///
  /// It was checked as it came in.
  public var text: String? { kind == .text ? String(decoding: payload, as: UTF8.self) : nil }

  /// The payload.
  public var bytes: [UInt8] { Array(payload) }

  /// Lends the payload without a copy.
  public func withUnsafeBytes<Result>(_ body: (UnsafeRawBufferPointer) throws -> Result) rethrows -> Result {
    try body(payload)
  }

  /// Decodes the payload as JSON.
  public func decode<T: Decodable>(_ type: T.Type) throws -> T {
    try JSONDecoder().decode(type, from: Data(payload))
  }
}
