package import Foundation

/// The payload of an outgoing message, in the caller's own memory until it is encoded.
package enum Payload: Sendable {
  case bytes([UInt8])
  case data(Data)
  case string(String)

  package var count: Int {
    switch self {
    case .bytes(let bytes): bytes.count
    case .data(let data): data.count
    case .string(let string): string.utf8.count
    }
  }

  package func withBytes<Result>(_ body: (UnsafeRawBufferPointer) -> Result) -> Result {
    switch self {
    case .bytes(let bytes): return bytes.withUnsafeBytes(body)
    case .data(let data): return data.withUnsafeBytes(body)
    case .string(let string):
      if let result = string.utf8.withContiguousStorageIfAvailable({ body(UnsafeRawBufferPointer($0)) }) {
        return result
      }
      return Array(string.utf8).withUnsafeBytes(body)
    }
  }
}

extension WebSocketMessage {
  package var payload: Payload {
    switch self {
    case .text(let text): .string(text)
    case .binary(let data): .data(data)
    }
  }
}
