package import Dispatch

/// Everything that a connection takes from the outside: loop and clock, callbacks' thread, random bytes, names,
/// sockets.
///
/// The system's is the default; tests bring a manual one.
public struct Environment: Sendable {
  package var makeLoop: @Sendable () -> any EventLoop
  /// Overrides where callbacks run; nil: where the handler's configuration says.
  package var callbackExecutor: (any CallbackExecutor)?
  /// Runs work that blocks, off the loop and the caller's thread.
  package var runBlocking: @Sendable (@escaping @Sendable () -> Void) -> Void
  package var random: any RandomSource
  package var resolver: any Resolver
  package var dialer: any Dialer

  package init(
    makeLoop: @escaping @Sendable () -> any EventLoop, callbackExecutor: (any CallbackExecutor)? = nil,
    runBlocking: @escaping @Sendable (@escaping @Sendable () -> Void) -> Void = { BlockingWork.run($0) },
    random: any RandomSource, resolver: any Resolver, dialer: any Dialer
  ) {
    self.makeLoop = makeLoop
    self.callbackExecutor = callbackExecutor
    self.runBlocking = runBlocking
    self.random = random
    self.resolver = resolver
    self.dialer = dialer
  }

  /// The process's shared event loops, the kernel's random bytes, the system's resolver, TCP.
  public static let system = Environment(
    makeLoop: { EventLoopGroup.shared.next() }, random: SystemRandomSource(), resolver: SystemResolver(),
    dialer: TCPDialer())
}

/// Runs a connection's callbacks, one after the other.
package protocol CallbackExecutor: Sendable {
  /// Runs the work later, after the work given before.
  func execute(_ work: @escaping @Sendable () -> Void)
}

/// Callbacks on a serial dispatch queue.
package struct QueueExecutor: CallbackExecutor {
  private let queue: DispatchQueue

  /// - Parameter target: the queue that the serial one runs on; nil: a thread of the system's pool.
  package init(target: DispatchQueue?) {
    queue = DispatchQueue(label: "websocket.callbacks", target: target)
  }

  package func execute(_ work: @escaping @Sendable () -> Void) { queue.async(execute: work) }
}

/// Callbacks on the connection's event loop.
package struct LoopExecutor: CallbackExecutor {
  private let loop: any EventLoop

  package init(_ loop: any EventLoop) { self.loop = loop }

  package func execute(_ work: @escaping @Sendable () -> Void) { loop.execute(work) }
}
