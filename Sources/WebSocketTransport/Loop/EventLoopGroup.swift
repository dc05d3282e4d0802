import Foundation
import Synchronization

/// The process's event loops: min(processors, 4), started at the first use, given out in turn.
///
/// Four loops saturate what one process usually does with sockets; connections stay on the loop that they began on.
package final class EventLoopGroup: Sendable {
  package static let shared = EventLoopGroup(count: min(ProcessInfo.processInfo.activeProcessorCount, 4))

  private let loops: [EpollEventLoop]
  private let turn = Atomic<Int>(0)

  package init(count: Int) {
    loops = (0..<max(1, count)).map { EpollEventLoop(name: "websocket-\($0)") }
  }

  /// The next loop in turn.
  package func next() -> EpollEventLoop {
    loops[Int(turn.wrappingAdd(1, ordering: .relaxed).newValue.magnitude % loops.count.magnitude)]
  }
}
