/// Why a session connects no more.
public enum StopReason: Sendable, Hashable {
  /// The caller wanted it.
  case requested
  /// The policy's rule said so after this failure.
  case failed(EngineError.WebSocketError)
  /// A limit of the policy was reached: so many failures in a row, the last of which is this.
  case gaveUp(failures: Int, EngineError.WebSocketError)

  /// What calls fail with that the session cannot answer otherwise.
  package var failure: EngineError.WebSocketError {
    switch self {
    case .requested: .cancelled
    case .failed(let failure), .gaveUp(_, let failure): failure
    }
  }
}
