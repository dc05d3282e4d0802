import Glibc
import Testing
import WebSocketCore
import WebSocketTesting

@testable import WebSocketTransport

@Suite("A flood of session tickets", certificatesExist)
struct TicketFloodTests {
  @Test func `records without data are read in turns, and the data behind them arrives`() throws {
    let certificates = try Certificates.shared.get()
    let trusting = try TLSContext(
      TLSContext.Settings(role: .client, trust: certificates.authority, minimumVersion: .v1_3))
    let flooding = try TLSContext(
      TLSContext.Settings(role: .server, identity: certificates.identity("good"), minimumVersion: .v1_3))
    try setTickets(of: flooding, 20_000)
    let (near, far) = (Wire(), Wire())
    (near.peer, far.peer) = (far, near)
    let loop = ManualEnvironment().environment.makeLoop()
    let client = TLSTransport(
      try TLSSession(client: trusting, name: "127.0.0.1", continues: false, resuming: nil), over: near, on: loop)
    let server = TLSTransport(try TLSSession(server: flooding), over: far, on: loop)
    defer {
      client.close()
      server.close()
    }
    let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 64 << 10, alignment: 1)
    defer { buffer.deallocate() }

    #expect(try client.handshake()?.get() == nil)
    #expect(server.read(into: buffer) == .wouldBlock)
    #expect(try client.handshake()?.get() != nil)
    #expect(server.read(into: buffer) == .wouldBlock)
    #expect(near.waiting > 1 << 20)
    #expect("x".utf8.withContiguousStorageIfAvailable { server.write(UnsafeRawBufferPointer($0)) } == .wrote(1))

    var turns = 0
    var outcome = ReadOutcome.bytes(0)
    while outcome == .bytes(0) {
      let readsBefore = near.reads
      outcome = client.read(into: buffer)
      turns += 1
      #expect(near.reads - readsBefore <= 4)
      // Where no news will come of what is there, the caller reads on.
      if outcome == .bytes(0) { #expect(client.peerHasFinished) }
    }
    #expect(turns > 4)
    #expect(outcome == .bytes(1))
    #expect(buffer[0] == UInt8(ascii: "x"))
    #expect(client.read(into: buffer) == .wouldBlock)
    #expect(!client.peerHasFinished)
  }
}

/// Sets how many tickets a server of that context sends; the library itself leaves it alone.
private func setTickets(of context: TLSContext, _ count: Int) throws {
  let names = ["4", "3", "1.1"].map { "libssl.so.\($0)" }
  let library = try #require(names.lazy.compactMap { dlopen($0, RTLD_NOW | RTLD_NOLOAD) }.first)
  let symbol = try #require(dlsym(library, "SSL_CTX_set_num_tickets"))
  // Safe: that is the function's type.
  let set = unsafeBitCast(symbol, to: (@convention(c) (OpaquePointer, Int) -> CInt).self)
  #expect(set(context.pointer, count) == 1)
}

/// One end of a line in memory that takes everything.
private final class Wire: Transport {
  private struct State: Sendable {
    weak var peer: Wire?
    var incoming: [UInt8] = []
    var taken = 0
    var reads = 0
  }

  private let state = Lock(State())

  var peer: Wire? {
    get { state.withLock { $0.peer } }
    set { state.withLock { $0.peer = newValue } }
  }

  /// Bytes that were not read.
  var waiting: Int { state.withLock { $0.incoming.count - $0.taken } }
  var reads: Int { state.withLock { $0.reads } }

  func read(into buffer: UnsafeMutableRawBufferPointer) -> ReadOutcome {
    state.withLock { state in
      state.reads += 1
      let count = min(buffer.count, state.incoming.count - state.taken)
      guard count > 0 else { return .wouldBlock }
      buffer.copyBytes(from: state.incoming[state.taken..<state.taken + count])
      state.taken += count
      return .bytes(count)
    }
  }

  func write(_ bytes: UnsafeRawBufferPointer) -> WriteOutcome {
    peer?.state.withLock { $0.incoming += bytes }
    return .wrote(bytes.count)
  }

  func start(_ handler: any TransportHandler) {}
  var peerHasFinished: Bool { false }
  var failure: TransportEnd? { nil }
  func finishWriting() {}
  func close() {}
}
