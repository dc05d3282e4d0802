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
    case .string(var string): return string.withUTF8 { body(UnsafeRawBufferPointer($0)) }
    }
  }
}

/// A received message that is kept, or on its way to a callback.
enum StoredMessage: Sendable {
  case text(String)
  case binary(Data)

  var cost: Int { count + messageOverhead }

  var count: Int {
    switch self {
    case .text(let text): text.utf8.count
    case .binary(let data): data.count
    }
  }

  var message: WebSocketMessage {
    switch self {
    case .text(let text): .text(text)
    case .binary(let data): .binary(data)
    }
  }

  /// Lends the message.
  func lend(to receiver: (borrowing BorrowedMessage) -> Void) {
    switch self {
    case .text(var text):
      text.withUTF8 { receiver(BorrowedMessage(kind: .text, payload: UnsafeRawBufferPointer($0))) }
    case .binary(let data): data.withUnsafeBytes { receiver(BorrowedMessage(kind: .binary, payload: $0)) }
    }
  }
}

/// First in, first out, without moving what waits.
struct Queue<Element> {
  private var elements: [Element] = []
  private var head = 0

  var count: Int { elements.count - head }
  var isEmpty: Bool { count == 0 }
  var first: Element? { isEmpty ? nil : elements[head] }
  var last: Element? { isEmpty ? nil : elements.last }

  mutating func append(_ element: Element) { elements.append(element) }

  mutating func popFirst() -> Element? {
    guard !isEmpty else { return nil }
    let element = elements[head]
    head += 1
    if head == elements.count {
      elements.removeAll(keepingCapacity: elements.capacity <= 64)
      head = 0
    } else if head >= 64, head * 2 >= elements.count {
      elements.removeFirst(head)
      head = 0
    }
    return element
  }

  /// Changes the first element in place.
  mutating func updateFirst(_ change: (inout Element) -> Void) { change(&elements[head]) }

  /// Takes all that fulfil a condition, in order.
  mutating func removeAll(where condition: (Element) -> Bool = { _ in true }) -> [Element] {
    var removed: [Element] = []
    var kept: [Element] = []
    for element in elements[head...] {
      if condition(element) { removed.append(element) } else { kept.append(element) }
    }
    elements = kept
    head = 0
    return removed
  }
}

extension Queue: Sendable where Element: Sendable {}
