import WebSocketTransport

/// Runs effects, at most one for each id.
///
/// Any method may be called from any thread. Releasing the runner cancels all.
public final class EffectRunner<ID: Hashable & Sendable>: Sendable {
  private struct Run: Sendable {
    let number: UInt64
    /// Nil while the effect starts.
    var cancel: (@Sendable () -> Void)?
  }

  private struct State: Sendable {
    var runs: [ID: Run] = [:]
    var lastNumber: UInt64 = 0
  }

  private let state = Lock(State())

  /// A runner without effects.
  public init() {}

  deinit { cancelAll() }

  /// Starts an effect; does nothing where one with that id runs.
  ///
  /// - Returns: whether it was started.
  @discardableResult
  public func run(_ effect: some StoreEffect, cancellation id: ID) -> Bool {
    let number = state.withLock { state -> UInt64? in
      guard state.runs[id] == nil else { return nil }
      state.lastNumber += 1
      state.runs[id] = Run(number: state.lastNumber)
      return state.lastNumber
    }
    guard let number else { return false }
    let cancel = effect.start { [weak self] in self?.ended(number, id) }
    let isWanted = state.withLock { state in
      guard state.runs[id]?.number == number else { return false }
      state.runs[id]?.cancel = cancel
      return true
    }
    // It has ended, or was cancelled while it started: then this is needed, and else it does nothing.
    if !isWanted { cancel() }
    return true
  }

  /// Cancels the effect with that id: nothing of it is dispatched from now on, except what runs at this moment.
  ///
  /// - Returns: whether there was one.
  @discardableResult
  public func cancel(by id: ID) -> Bool {
    let run = state.withLock { $0.runs.removeValue(forKey: id) }
    run?.cancel?()
    return run != nil
  }

  /// Cancels every effect.
  public func cancelAll() {
    let runs = state.withLock { state in
      defer { state.runs = [:] }
      return state.runs.values.sorted { $0.number < $1.number }
    }
    for run in runs { run.cancel?() }
  }

  /// Whether an effect with that id runs.
  public func isRunning(_ id: ID) -> Bool { state.withLock { $0.runs[id] != nil } }

  private func ended(_ number: UInt64, _ id: ID) {
    let ended = state.withLock { state in
      state.runs[id]?.number == number ? state.runs.removeValue(forKey: id) : nil
    }
    // Let go outside the lock, since what the effect holds may call the runner as it goes.
    _ = ended
  }
}
