import WebSocketTransport

/// A value that one task waits for, given before or after it begins to; what is given later is ignored.
final class Promise<Value: Sendable>: Sendable {
  private enum State: Sendable {
    case open
    case waiting(UnsafeContinuation<Value, Never>)
    case given(Value)
    case done
  }

  private let state = Lock(State.open)

  func give(_ value: Value) {
    let waiting = state.withLock { state -> UnsafeContinuation<Value, Never>? in
      switch state {
      case .waiting(let continuation):
        state = .done
        return continuation
      case .open:
        state = .given(value)
        return nil
      case .given, .done: return nil
      }
    }
    waiting?.resume(returning: value)
  }

  /// Called once.
  func wait() async -> Value {
    // Safe: a continuation is resumed here or by whoever takes it out of `waiting`, which happens once.
    await withUnsafeContinuation { continuation in
      let given = state.withLock { state -> Value? in
        if case .given(let value) = state {
          state = .done
          return value
        }
        state = .waiting(continuation)
        return nil
      }
      if let given { continuation.resume(returning: given) }
    }
  }
}
