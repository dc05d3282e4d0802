import WebSocketCore
import WebSocketTransport

/// A transport whose handler changes once: the opening handshake reads first, then the connection.
final class HandoverTransport: Transport, TransportHandler {
  private struct State: Sendable {
    var handler: (any TransportHandler)?
    var isStarted = false
    var isClosed = false
  }

  private let base: any Transport
  private let loop: any EventLoop
  private let state = Lock(State())

  init(_ base: any Transport, on loop: any EventLoop) {
    self.base = base
    self.loop = loop
  }

  func start(_ handler: any TransportHandler) throws(TransportError) {
    let wasStarted = state.withLock { state in
      if !state.isClosed { state.handler = handler }
      defer { state.isStarted = true }
      return state.isStarted
    }
    if wasStarted {
      // Readiness is told when it changes, and the first handler may have heard of the last change.
      loop.execute { [self] in transportIsReady(self, readable: true, writable: true) }
    } else {
      try base.start(self)
    }
  }

  func transportIsReady(_ transport: any Transport, readable: Bool, writable: Bool) {
    state.withLock { $0.handler }?.transportIsReady(self, readable: readable, writable: writable)
  }

  func read(into buffer: UnsafeMutableRawBufferPointer) -> ReadOutcome { base.read(into: buffer) }

  func write(_ bytes: UnsafeRawBufferPointer) -> WriteOutcome { base.write(bytes) }

  var peerHasFinished: Bool { base.peerHasFinished }

  var failure: TransportEnd? { base.failure }

  func finishWriting() { base.finishWriting() }

  func close() {
    base.close()
    // Released outside the lock: its end may call back in.
    let handler = state.withLock { state in
      state.isClosed = true
      return state.handler.take()
    }
    _ = handler
  }
}
