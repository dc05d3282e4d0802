import Dispatch
import Foundation
import Glibc

/// The process's streams and signals.
enum Terminal {
  /// Writes a line to standard output at once.
  ///
  /// Where nobody reads it any more, the process ends as it does on SIGTERM.
  static func print(_ line: String) {
    var rest = Array((line + "\n").utf8)[...]
    while !rest.isEmpty {
      let count = rest.withUnsafeBytes { write(STDOUT_FILENO, $0.baseAddress, $0.count) }
      if count >= 0 {
        rest = rest.dropFirst(count)
      } else if errno == EAGAIN {
        var room = pollfd(fd: STDOUT_FILENO, events: Int16(POLLOUT), revents: 0)
        _ = poll(&room, 1, -1)
      } else if errno != EINTR {
        if errno == EPIPE { kill(getpid(), SIGTERM) }
        return
      }
    }
  }

  /// Writes a line to standard error.
  static func complain(_ line: String) {
    try? FileHandle.standardError.write(contentsOf: Data((line + "\n").utf8))
  }

  /// Ends the process with success once that is done, after two seconds at the latest.
  static func exitOnce(isDone: () -> Bool) -> Never {
    let deadline = ContinuousClock.now + .seconds(2)
    while !isDone(), ContinuousClock.now < deadline { usleep(10_000) }
    exit(0)
  }

  /// Calls the handler on SIGINT and SIGTERM instead of dying of them.
  static func onTermination(_ handler: @escaping @Sendable () -> Void) {
    for number in [SIGINT, SIGTERM] {
      signal(number, SIG_IGN)
      let source = DispatchSource.makeSignalSource(signal: number, queue: .global())
      source.setEventHandler { [source] in
        // The capture keeps the source for as long as the process runs.
        _ = source
        handler()
      }
      source.resume()
    }
  }
}
