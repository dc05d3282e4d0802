package import WebSocketCore

/// A stream of bytes both ways: a TCP socket, and whatever is layered over one.
///
/// All calls but ``close()`` are made one at a time by the owner, under the owner's lock, and never block.
package protocol Transport: AnyObject, Sendable {
  /// Asks for news of readiness, on the loop's thread, until ``close()``. The loop keeps the handler alive so long.
  ///
  /// Readiness is told when it changes: after ``ReadOutcome/wouldBlock`` and ``WriteOutcome/wouldBlock``.
  func start(_ handler: any TransportHandler) throws(TransportError)
  /// Reads what is there into the buffer.
  ///
  /// A result shorter than the buffer means that nothing more is there, unless ``peerHasFinished``.
  func read(into buffer: UnsafeMutableRawBufferPointer) -> ReadOutcome
  /// Whether the end of the peer's stream is known to be near: then read on until it comes, since no further news of
  /// readiness will.
  var peerHasFinished: Bool { get }
  /// How the stream broke, for a caller that does not read at the moment; nil while it has not.
  ///
  /// An end in order behind bytes that are not read is no break.
  var failure: TransportEnd? { get }
  /// Writes what the other side has room for.
  func write(_ bytes: UnsafeRawBufferPointer) -> WriteOutcome
  /// Ends the outgoing direction after what was written.
  func finishWriting()
  /// Ends both directions and gives everything back. Further calls do nothing.
  func close()
}

/// Hears when a transport can be read or written again.
package protocol TransportHandler: AnyObject, Sendable {
  func transportIsReady(_ transport: any Transport, readable: Bool, writable: Bool)
}

package enum ReadOutcome: Sendable, Hashable {
  case bytes(Int)
  case wouldBlock
  case end(TransportEnd)
}

package enum WriteOutcome: Sendable, Hashable {
  case wrote(Int)
  case wouldBlock
  case failed(TransportEnd)
}
