import Foundation
import Glibc
import Synchronization
package import WebSocketCore
package import WebSocketTransport

/// Drives one connection at a time: feeds a ``ConnectionMachine``, performs what it asks, and answers everyone.
///
/// One lock guards all of it. Under it: decide, encode, read and write without blocking, at most 64 KiB per hold. The
/// user's code runs outside, one callback after the other.
package final class ConnectionDriver: Sendable {
  struct State: ~Copyable, Sendable {
    var machine: ConnectionMachine
    var io: DriverIO
  }

  let state: Lock<State>
  let environment: Environment
  let configuration: HandlerConfiguration
  let loop: any EventLoop
  let logger: any Logger
  /// Whether callbacks run on the loop's thread, at the end of a read.
  let runsInline: Bool
  /// How long a connection keeps the memory of a burst for the next one.
  private static let memoryHold = Duration.seconds(1)
  private let executor: any CallbackExecutor
  /// Counts changes of the standing receiver, so that a delivery notices one without the lock.
  let receiverChanges = Atomic<Int>(0)
  /// The thread whose sends wait for the end of its callbacks, or until enough wait, to be written together; 0: none.
  let corkedThread = Atomic<UInt>(0)

  /// The thread that runs callbacks; 0: none.
  private let callbackThread = Atomic<UInt>(0)
  /// The address of what that thread keeps for itself, on its stack.
  private let currentTurn = Atomic<UInt>(0)

  package init(
    role: Role, configuration: HandlerConfiguration, environment: Environment, loop: any EventLoop, logger: any Logger
  ) {
    self.configuration = configuration
    self.environment = environment
    self.loop = loop
    self.logger = logger
    switch configuration.callbacks {
    case .eventLoop: (executor, runsInline) = (LoopExecutor(loop), true)
    case .privateQueue: (executor, runsInline) = (environment.callbackExecutor ?? QueueExecutor(target: nil), false)
    case .queue(let queue):
      (executor, runsInline) = (environment.callbackExecutor ?? QueueExecutor(target: queue), false)
    }
    var io = DriverIO(role: role, configuration: configuration, random: environment.random, loop: loop)
    io.logsMessages = logger.isEnabled(.debug)
    state = Lock(State(machine: ConnectionMachine(role: role, limits: configuration.limits), io: io))
  }

  /// What a change asked for, to be done outside the lock.
  struct Aftermath: ~Copyable {
    fileprivate var wakeUps: [@Sendable () -> Void] = []
    /// Whether what they are given made room to read on.
    fileprivate var mayReadOn = false
    fileprivate var mustDrain = false
  }

  /// Changes the state, then does outside the lock what the change asked for.
  ///
  /// - Parameter willDrain: the caller runs the callbacks itself.
  func perform<Result>(willDrain: Bool = false, _ change: (inout State) -> Result) -> Result {
    var aftermath = Aftermath()
    let result = state.withLock { state in
      let result = change(&state)
      conclude(&state, willDrain: willDrain, &aftermath)
      return result
    }
    follow(aftermath)
    return result
  }

  /// The end of every change under the lock but the least.
  func conclude(_ state: inout State, willDrain: Bool = false, _ aftermath: inout Aftermath) {
    settle(&state)
    if !state.io.wakeUps.isEmpty {
      swap(&aftermath.wakeUps, &state.io.wakeUps)
      aftermath.mayReadOn = !state.io.isReading && state.io.mayReadOn
    }
    guard !willDrain, !state.io.callbacks.isEmpty, !state.io.drainIsScheduled, !state.io.isDraining else { return }
    aftermath.mustDrain = true
    state.io.drainIsScheduled = true
  }

  /// What comes behind ``conclude(_:willDrain:_:)``, outside the lock.
  @inline(__always)
  func follow(_ aftermath: borrowing Aftermath) {
    if !aftermath.wakeUps.isEmpty {
      for wakeUp in aftermath.wakeUps { wakeUp() }
      // Only then: the lock is the woken task's now.
      if aftermath.mayReadOn { resumeReading() }
    }
    if aftermath.mustDrain { executor.execute { [self] in drain() } }
  }

  /// Does what the machine asked for beside writing.
  private func settle(_ state: inout State) {
    if state.io.wantsClosingTimer {
      state.io.wantsClosingTimer = false
      let epoch = state.io.epoch
      state.io.closingTimer = loop.schedule(after: state.io.times.closeTimeout) { [self] in
        perform { state in
          guard state.io.epoch == epoch else { return }
          state.machine.closingTimedOut(into: &state.io)
        }
      }
    }
    if !state.io.shrinkIsScheduled, state.io.holdsMemory {
      state.io.shrinkIsScheduled = true
      _ = loop.schedule(after: Self.memoryHold) { [weak self] in
        self?.perform { state in
          state.io.shrinkIsScheduled = false
          state.io.shrink()
        }
      }
    }
    if state.io.wantsFinish, state.io.deferredClose == nil, state.io.outgoing.isEmpty,
      let transport = state.io.transport
    {
      state.io.wantsFinish = false
      transport.finishWriting()
    }
  }

  // MARK: - Callbacks

  /// Hears of each end, on the callbacks' thread.
  package func onEnd(_ body: (@Sendable (CloseRecord) -> Void)?) {
    // Here and below: the old one is released outside the lock, since its end may call back in.
    var body = body
    state.withLock { swap(&$0.io.endObserver, &body) }
  }

  /// Hears each time that the send queue has fallen to its low mark, on the callbacks' thread.
  package func onSendQueueLow(_ body: (@Sendable () -> Void)?) {
    var body = body
    state.withLock { swap(&$0.io.roomObserver, &body) }
  }

  /// Runs the caller's code where callbacks run, in its turn.
  package func callBack(_ body: @escaping @Sendable () -> Void) { perform { $0.io.callbacks.append(.hook(body)) } }

  /// How often what callbacks brought about is followed up before others have their turn.
  private static let roundsPerTurn = 8

  /// Runs what waits, one after the other, on the callbacks' thread, and writes what that sends.
  func drain() {
    for _ in 0..<Self.roundsPerTurn {
      runCallbacks()
      pump(willDrain: true)
      guard state.withLock({ !$0.io.callbacks.isEmpty && !$0.io.isDraining }) else { return }
    }
    perform { _ in }
  }

  private func runCallbacks() {
    var turn = CallbackTurn()
    withUnsafeMutablePointer(to: &turn) { turn in
      currentTurn.store(UInt(bitPattern: turn), ordering: .relaxed)
      callbackThread.store(pthread_self(), ordering: .relaxed)
      var batch: [Callback] = []
      var written = Queue<SendCompletion>()
      while let hasMore = takeCallbacks(&batch, &written, &turn.pointee.delivered) {
        for index in batch.indices {
          // Sends of a queue's last callback are written at once, those of the others together.
          let isLast = !runsInline && !hasMore && index == batch.count - 1
          var callback = Callback.deliver
          swap(&callback, &batch[index])
          if case .written(let count) = callback {
            succeed(&written, count, isLast: isLast)
          } else {
            cork(!isLast)
            let cost = callback.cost
            run(callback)
            turn.pointee.delivered += cost
          }
        }
        while let message = exchange(&turn.pointee.message, with: nil),
          let receive = exchange(&turn.pointee.receive, with: nil)
        {
          cork(runsInline || turn.pointee.hasMore)
          let cost = message.cost
          complete(receive, consume message)
          turn.pointee.delivered += cost
        }
      }
      cork(false)
      callbackThread.store(0, ordering: .relaxed)
    }
  }

  /// Takes the callbacks that wait and settles for those that ran; nil where none waits, or another thread runs them.
  ///
  /// - Returns: whether messages are kept that the callbacks may ask for.
  private func takeCallbacks(
    _ batch: inout [Callback], _ written: inout Queue<SendCompletion>, _ delivered: inout Int
  ) -> Bool? {
    let (hasMore, mayReadOn) = perform { state -> (Bool?, Bool) in
      if batch.isEmpty {
        guard !state.io.isDraining else { return (nil, false) }
        state.io.isDraining = true
      }
      state.io.undelivered -= delivered
      delivered = 0
      batch.removeAll(keepingCapacity: true)
      swap(&batch, &state.io.callbacks)
      swap(&written, &state.io.written)
      if batch.isEmpty {
        state.io.isDraining = false
        state.io.drainIsScheduled = false
      }
      let mayReadOn = !state.io.isReading && state.io.mayReadOn
      return (batch.isEmpty ? nil : !state.io.inbox.isEmpty, mayReadOn)
    }
    if mayReadOn { resumeReading() }
    return hasMore
  }

  /// Lets this thread's sends wait for the end of its callbacks, or not any longer.
  func cork(_ isCorked: Bool) { corkedThread.store(isCorked ? pthread_self() : 0, ordering: .relaxed) }

  private func run(_ callback: Callback) {
    switch callback {
    case .succeed(let completion): completion(.success(()))
    case .written: break
    case .fail(let completion, let error): completion(.failure(error))
    case .message(let receive, let message): complete(receive, message)
    case .failReceive(.message(let completion), let error): completion.call(.failure(error))
    case .failReceive(.pending(let receive), let error): receive.complete(.failure(error))
    case .deliver: deliverKept()
    case .hook(let hook): hook()
    case .control(let event): configuration.onControlFrame?(event)
    case .pinged(let completion, let result): completion(result)
    case .log(let level, let text):
      logger.log(file: #fileID, function: #function, line: #line, logLevel: level, text)
    case .event(let event): configuration.onEvent?(event)
    case .sendQueueLow: state.withLock { $0.io.roomObserver }?()
    case .ended(let record): state.withLock { $0.io.endObserver }?(record)
    }
  }

  /// Calls the next completions of sends that are written.
  private func succeed(_ written: inout Queue<SendCompletion>, _ count: Int, isLast: Bool) {
    for number in 1...count {
      cork(!isLast || number < count)
      written.popFirst()?.call(.success(()))
    }
  }

  private func complete(_ receive: WaitingReceive, _ message: consuming WebSocketMessage) {
    switch receive {
    case .message(let completion): completion.call(.success(message))
    case .pending(let pending): pending.complete(.success(message))
    }
  }

  /// What the thread that runs the callbacks keeps for itself; nil on every other thread.
  var ownTurn: UnsafeMutablePointer<CallbackTurn>? {
    guard callbackThread.load(ordering: .relaxed) == pthread_self() else { return nil }
    // Safe: it is this thread's own, further down its stack.
    return UnsafeMutablePointer(bitPattern: currentTurn.load(ordering: .relaxed))
  }
}
