import Foundation
import WebSocketCore
import WebSocketTransport

/// Received messages that nobody has taken yet, in order.
///
/// Short ones lie one behind the other in one piece of memory, since an allocation each would cost more than their
/// copying; long ones keep the memory that they were received into.
struct Inbox: ~Copyable, Sendable {
  /// Copied without counting references.
  private struct Entry: Sendable {
    var kind: MessageKind
    var count: Int
    var isLong: Bool
  }

  private var entries = Queue<Entry>()
  private var short = ByteBuffer()
  private var long = Queue<Data>()
  /// The payload bytes plus 64 for each message.
  private(set) var cost = 0

  var isEmpty: Bool { entries.isEmpty }
  var count: Int { entries.count }

  /// Keeps a copy of a short message.
  mutating func append(_ kind: MessageKind, copying bytes: UnsafeRawBufferPointer) {
    short.append(bytes)
    add(Entry(kind: kind, count: bytes.count, isLong: false))
  }

  /// Keeps a long message.
  mutating func append(_ kind: MessageKind, _ payload: Data) {
    long.append(payload)
    add(Entry(kind: kind, count: payload.count, isLong: true))
  }

  private mutating func add(_ entry: Entry) {
    entries.append(entry)
    cost += entry.count + messageOverhead
  }

  /// Takes the first message.
  mutating func popFirst() -> WebSocketMessage? {
    guard let entry = entries.popFirst() else { return nil }
    cost -= entry.count + messageOverhead
    if entry.isLong {
      let payload = long.popFirst() ?? Data()
      return entry.kind == .text ? .text(String(decoding: payload, as: UTF8.self)) : .binary(payload)
    }
    defer { short.consume(entry.count) }
    return WebSocketMessage(entry.kind, copying: UnsafeRawBufferPointer(rebasing: short.readable[..<entry.count]))
  }

  /// Lends the first message, then forgets it; false where there is none.
  mutating func lendFirst(to receive: (borrowing BorrowedMessage) -> Void) -> Bool {
    guard let entry = entries.popFirst() else { return false }
    cost -= entry.count + messageOverhead
    if entry.isLong {
      let payload = long.popFirst() ?? Data()
      payload.withUnsafeBytes { receive(BorrowedMessage(kind: entry.kind, payload: $0)) }
    } else {
      let bytes = UnsafeRawBufferPointer(rebasing: short.readable[..<entry.count])
      receive(BorrowedMessage(kind: entry.kind, payload: bytes))
      short.consume(entry.count)
    }
    return true
  }

  /// Whether it holds more memory than an idle connection should.
  var holdsMemory: Bool { short.holdsMemory || entries.holdsMemory }

  /// Gives memory back that nothing lies in.
  mutating func shrink() {
    short.shrink()
    entries.shrink()
    long.shrink()
  }

  /// Puts messages that are older before these, and leaves nothing in `older`.
  mutating func prepend(_ older: inout Inbox) {
    while let entry = entries.popFirst() {
      if entry.isLong {
        older.long.append(long.popFirst() ?? Data())
      } else {
        older.short.append(UnsafeRawBufferPointer(rebasing: short.readable[..<entry.count]))
        short.consume(entry.count)
      }
      older.add(entry)
    }
    cost = 0
    swap(&self, &older)
  }
}

extension WebSocketMessage {
  /// A message from bytes that were checked where they are text.
  init(_ kind: MessageKind, copying bytes: UnsafeRawBufferPointer) {
    self = kind == .text ? .text(String(decoding: bytes, as: UTF8.self)) : .binary(Data(bytes))
  }

  /// What the message counts for in a queue.
  package var cost: Int {
    switch self {
    case .text(let text): text.utf8.count + messageOverhead
    case .binary(let data): data.count + messageOverhead
    }
  }
}
