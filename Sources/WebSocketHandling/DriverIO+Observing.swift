import WebSocketCore

extension DriverIO {
  /// Tells the tap, where there is one.
  mutating func tell(_ event: HandlerEvent) {
    guard observer?.onEvent != nil else { return }
    // An event waits like an empty message, so that a peer cannot make the waiting ones grow without limit.
    count(0)
    callbacks.append(.event(event))
  }

  /// Tells of what the peer sent, unless it is dropped.
  mutating func tellReceived(_ event: HandlerEvent) {
    if !dropsMessages { tell(event) }
  }

  /// A frame of ours is queued.
  mutating func tellSent(_ opcode: Opcode, bytes: Int) {
    observer?.sent(opcode, bytes: bytes)
    switch opcode {
    case .text: tell(.messageSent(.text, bytes: bytes))
    case .binary: tell(.messageSent(.binary, bytes: bytes))
    case .ping: tell(.pingSent(bytes: bytes))
    case .pong: tell(.pongSent(bytes: bytes))
    case .close: tellClosing(by: .local)
    case .continuation: break
    }
  }

  /// A Close frame goes or comes.
  mutating func tellClosing(by side: CloseRecord.Side) {
    if let observer, observer.beginsClosing() { tell(.closing(side)) }
  }
}
