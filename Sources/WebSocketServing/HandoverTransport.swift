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
    try state.withLock { state throws(TransportError) in
      // A base that is started behind its end would be kept by the loop for ever.
      guard !state.isClosed else { return }
      state.handler = handler
      if state.isStarted {
        // Readiness is told when it changes, and the first handler may have heard of the last change.
        loop.execute { [self] in transportIsReady(self, readable: true, writable: true) }
      } else {
        try base.start(self)
        state.isStarted = true
      }
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
    // Released outside the lock: its end may call back in.
    let handler = state.withLock { state in
      state.isClosed = true
      base.close()
      return state.handler.take()
    }
    _ = handler
  }
}
