import WebSocketHandling
import WebSocketTransport

/// What the link asks and tells. Answers that belong to an earlier attempt are ignored.
extension CableCore {
  typealias Failure = EngineError.WebSocketError

  /// An attempt begins; its number.
  func began(_ request: NetworkRequest, _ completion: @escaping CableLink.Completion) -> UInt64 {
    update { state, _ in
      state.link.attempt += 1
      state.link.owesConnect = true
      state.link.connecting = completion
      state.link.failure = nil
      state.sentHeaders = request.headers
      state.machine.attemptBegan()
      return state.link.attempt
    }
  }

  /// The handler has answered the connect of that attempt; false where the session had given it up.
  func answered(_ attempt: UInt64) -> Bool {
    update { state, _ in
      guard state.link.attempt == attempt else { return false }
      state.link.owesConnect = false
      return true
    }
  }

  /// The handler has nothing any more of the attempt that the session had given up: the next may begin.
  func gaveUp() {
    update { state, _ in
      if let completion = state.link.connecting.take() { state.call { completion(.failure(.cancelled)) } }
    }
  }

  /// The WebSocket is open; whether to read from it.
  func opened(_ attempt: UInt64, _ subprotocol: AgreedSubprotocol) -> Bool {
    update { state, now in
      guard state.link.attempt == attempt, state.link.connecting != nil else { return false }
      state.link.isOpen = true
      state.link.isAsking = true
      state.machine.opened(subprotocol: subprotocol, at: now)
      // What the machine thinks of the subprotocol comes with its outputs.
      state.settle()
      return state.link.isOpen
    }
  }

  /// The attempt came to nothing.
  func failed(_ attempt: UInt64, _ failure: Failure) {
    update { state, _ in
      guard state.link.attempt == attempt, let completion = state.link.connecting.take() else { return }
      state.call { completion(.failure(failure)) }
    }
  }

  /// A message arrived, or why none will; whether to ask for the next one.
  func received(_ attempt: UInt64, _ result: Result<WebSocketMessage, Failure>) -> Bool {
    // Read before the lock is taken: it is the longest part.
    let frame: (text: String?, message: ServerMessage?)?
    switch result {
    case .success(.text(let text)): frame = (text, try? ServerMessage(parsing: text))
    case .success(.binary): frame = (nil, nil)
    case .failure(let failure) where failure.endsConnection: frame = nil
    case .failure: frame = (nil, nil)
    }
    return update { state, now in
      guard state.link.attempt == attempt, state.link.isOpen else { return false }
      state.link.isAsking = false
      if let frame {
        state.received(frame.text, frame.message, at: now)
      } else if case .failure(let failure) = result {
        state.lost(failure)
      }
      state.settle()
      guard state.link.isOpen else { return false }
      guard state.mayRead else {
        state.machine.setPaused(true, at: now)
        return false
      }
      state.link.isAsking = true
      return true
    }
  }

  /// The session wants to hear of the loss of its connection.
  func awaitLoss(_ hearer: any LossHearer) {
    update { state, _ in
      if let failure = state.link.failure {
        state.call { hearer.hear(failure) }
      } else {
        state.link.losses.append(hearer)
      }
    }
  }

  /// The session closes the connection, or gives the attempt up.
  func closed() {
    update { state, _ in
      state.link.attempt += 1
      state.link.isOpen = false
      state.link.failure = .cancelled
      state.machine.lost(.requested)
      // The session makes no other attempt until it hears of this one.
      if !state.link.owesConnect, let completion = state.link.connecting.take() {
        state.call { completion(.failure(.cancelled)) }
      }
      state.tellLoss(.cancelled)
    }
  }
}

extension CableState {
  /// A frame came; `text` is nil where it is none.
  fileprivate mutating func received(_ text: String?, _ message: ServerMessage?, at now: Instant) {
    counters.frames += 1
    if let text {
      for tap in taps { if let onText = tap.onText { tell(bytes: text.utf8.count) { onText(text) } } }
    }
    machine.received(message, text: text ?? "", at: now)
  }

  fileprivate mutating func lost(_ failure: Failure) {
    link.isOpen = false
    link.failure = failure
    machine.lost(.lost(failure))
    if let completion = link.connecting.take() {
      // A handler that does not say that the connection is closed may still hold one.
      if case .closed = failure {
        call { completion(.failure(failure)) }
      } else {
        put(.close(attempt: link.attempt) { completion(.failure(failure)) })
      }
    } else {
      tellLoss(failure)
    }
  }
}
