import Glibc
package import Foundation

/// Bytes that are appended at one end and consumed at the other, in memory that is given back when it is empty.
///
/// Safety: the memory belongs to this value alone, from `malloc` to `free`, and no pointer outlives the call or the
/// next change. That is why it may move between threads (`@unchecked Sendable`).
@usableFromInline package struct ByteBuffer: ~Copyable, @unchecked Sendable {
  @usableFromInline var memory: UnsafeMutableRawPointer?
  @usableFromInline var capacity = 0
  @usableFromInline var head = 0
  @usableFromInline var tail = 0

  package init() {}

  deinit { free(memory) }

  /// The bytes that were appended and not consumed.
  @inlinable package var count: Int { tail - head }
  @inlinable package var isEmpty: Bool { tail == head }

  /// The bytes, valid until the next change.
  @inlinable package var readable: UnsafeRawBufferPointer {
    guard let memory else { return UnsafeRawBufferPointer(start: nil, count: 0) }
    return UnsafeRawBufferPointer(start: memory + head, count: tail - head)
  }

  /// Room for `count` bytes behind the others; ``commit(_:)`` says how many were written there.
  @inlinable package mutating func reserve(_ count: Int) -> UnsafeMutableRawPointer {
    if let memory, capacity - tail >= count { return memory + tail }
    return makeRoom(count)
  }

  /// Up to how much memory is taken for bytes that are only announced.
  @usableFromInline static var trustedBytes: Int { 16 << 20 }

  /// Room for `count` bytes behind the others, which are the first of those announced.
  ///
  /// Where there is none it is made for all that are announced, unless that is more than 16 MiB and than what is there
  /// already: a length is only a number until its bytes come.
  @inlinable package mutating func reserve(_ count: Int, of announced: Int) -> UnsafeMutableRawPointer {
    if let memory, capacity - tail >= count { return memory + tail }
    return makeRoom(max(count, min(announced, max(Self.trustedBytes, self.count))))
  }

  @usableFromInline mutating func makeRoom(_ count: Int) -> UnsafeMutableRawPointer {
    if let memory, head > 0, capacity - (tail - head) >= count, head >= tail - head {
      memmove(memory, memory + head, tail - head)
    } else {
      let wanted = max(tail - head + count, min(2 * capacity, capacity + (1 << 20)))
      guard let grown = malloc(wanted) else { preconditionFailure("out of memory") }
      if let memory {
        memcpy(grown, memory + head, tail - head)
        free(memory)
      }
      memory = grown
      capacity = wanted
    }
    (head, tail) = (0, tail - head)
    return memory! + tail
  }

  @inlinable package mutating func commit(_ count: Int) { tail += count }

  package mutating func append(_ bytes: UnsafeRawBufferPointer) {
    guard let base = bytes.baseAddress, !bytes.isEmpty else { return }
    reserve(bytes.count).copyMemory(from: base, byteCount: bytes.count)
    commit(bytes.count)
  }

  /// Forgets the first bytes.
  @inlinable package mutating func consume(_ count: Int) {
    head += count
    if head == tail { (head, tail) = (0, 0) }
  }

  /// Whether it owns more memory than an idle connection should.
  package var holdsMemory: Bool { capacity > 2048 }

  /// Gives the memory back where it is empty and larger than what an idle connection should own.
  package mutating func shrink() {
    if isEmpty, holdsMemory { removeAll() }
  }

  /// Forgets everything and gives the memory back.
  package mutating func removeAll() {
    free(memory)
    memory = nil
    (capacity, head, tail) = (0, 0, 0)
  }

  /// The bytes as data that takes the memory over; nothing is copied.
  package mutating func takeData() -> Data {
    guard let memory, tail > head else {
      removeAll()
      return Data()
    }
    if head > 0 { memmove(memory, memory + head, tail - head) }
    let data = Data(bytesNoCopy: memory, count: tail - head, deallocator: .free)
    self.memory = nil
    (capacity, head, tail) = (0, 0, 0)
    return data
  }
}
