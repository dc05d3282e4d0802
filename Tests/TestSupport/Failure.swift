package import WebSocketHandling

/// The error that an operation ends with; nil where it succeeds.
package func failure(
  _ body: () async throws(EngineError.WebSocketError) -> Void
) async -> EngineError.WebSocketError? {
  do throws(EngineError.WebSocketError) {
    try await body()
    return nil
  } catch {
    return error
  }
}
