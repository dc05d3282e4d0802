import Foundation
import Dispatch
import WebSocketHandling
import WebSocketTransport

/// Counts the answers of named calls, from any thread.
final class Tally: Sendable {
  private let group = DispatchGroup()
  private let answers = Lock<[String: [Failure?]]>([:])

  /// A completion for a call of that name, which nobody else uses.
  func completion<Value>(_ name: String) -> @Sendable (Result<Value, Failure>) -> Void {
    group.enter()
    return { [self] result in
      let isFirst = answers.withLock { answers in
        answers[name, default: []].append(result.failure)
        return answers[name]?.count == 1
      }
      if isFirst { group.leave() }
    }
  }

  /// Waits until each call was answered.
  func allAnswered() async {
    await withCheckedContinuation { continuation in
      group.notify(queue: .global()) { continuation.resume() }
    }
  }

  /// What each call was answered.
  var all: [String: [Failure?]] { answers.withLock { $0 } }

  /// The calls that were answered more than once.
  var doubled: [String] { all.filter { $0.value.count > 1 }.keys.sorted() }

  /// The calls that succeeded.
  var succeeded: Set<String> { Set(all.filter { $0.value == [nil] }.keys) }
}

/// Threads of their own, which all run at once whatever the number of processors.
func onThreads(_ count: Int, _ body: @escaping @Sendable (Int) -> Void) async {
  let group = DispatchGroup()
  for index in 0..<count {
    group.enter()
    Thread {
      body(index)
      group.leave()
    }.start()
  }
  await withCheckedContinuation { continuation in
    group.notify(queue: .global()) { continuation.resume() }
  }
}
