import WebSocketCore
import WebSocketTransport

/// Counts and times for those who look from outside; a driver has one only where somebody does.
///
/// Used under the driver's lock.
final class Observer: Sendable {
  private struct State: Sendable {
    var metrics = HandlerMetrics()
    var phases = ConnectPhases()
    /// When the phase under way began.
    var phaseBegan = Instant(nanoseconds: 0)
    var isClosing = false
  }

  let onEvent: (@Sendable (HandlerEvent) -> Void)?
  private let state = Lock(State())

  /// Nil where the configuration asks for nothing.
  init?(_ configuration: HandlerConfiguration) {
    guard configuration.countsTraffic || configuration.onEvent != nil else { return nil }
    onEvent = configuration.onEvent
  }

  var metrics: HandlerMetrics { state.withLock { $0.metrics } }

  func received(_ opcode: Opcode, bytes: Int) { state.withLock { $0.metrics.received.add(opcode, bytes: bytes) } }

  func sent(_ opcode: Opcode, bytes: Int) { state.withLock { $0.metrics.sent.add(opcode, bytes: bytes) } }

  // MARK: - The life of a connection

  func beginsConnect(at now: Instant) {
    state.withLock { state in
      state.phases = ConnectPhases()
      state.phaseBegan = now
      state.isClosing = false
    }
  }

  /// That phase is over, and the next begins.
  func ends(_ phase: WritableKeyPath<ConnectPhases, Duration?>, at now: Instant) {
    state.withLock { state in
      state.phases[keyPath: phase] = (state.phases[keyPath: phase] ?? .zero) + (now - state.phaseBegan)
      state.phaseBegan = now
    }
  }

  /// The connect succeeded; what its phases took.
  func opened() -> ConnectPhases {
    state.withLock { state in
      state.metrics.connects += 1
      state.metrics.phases = state.phases
      return state.phases
    }
  }

  func failed() { state.withLock { $0.metrics.failedConnects += 1 } }

  /// A Close frame goes or comes; true where it is the connection's first.
  func beginsClosing() -> Bool {
    state.withLock { state in
      defer { state.isClosing = true }
      return !state.isClosing
    }
  }

  func ended(isClean: Bool) {
    state.withLock { state in
      if isClean { state.metrics.cleanEnds += 1 } else { state.metrics.uncleanEnds += 1 }
    }
  }
}
