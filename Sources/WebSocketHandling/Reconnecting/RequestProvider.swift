/// Makes the request of each attempt: a fresh token, another URL.
///
/// It sees the request that the session was started with and gives the one to connect with. It is asked before every
/// attempt and has as long as that request's ``NetworkRequest/connectTimeout``. What it throws goes to the policy as any
/// other failure; what it answers too late is ignored.
public struct RequestProvider: Sendable {
  /// Hears the request, or why there is none.
  public typealias Completion = @Sendable (Result<NetworkRequest, any Error>) -> Void

  package let provide: @Sendable (NetworkRequest, @escaping Completion) -> Void

  /// A provider with a callback, which may come on any thread; only the first counts.
  public init(_ provide: @escaping @Sendable (NetworkRequest, @escaping Completion) -> Void) {
    self.provide = provide
  }

  /// A provider that suspends; each call is a task of its own.
  public init(async provide: @escaping @Sendable (NetworkRequest) async throws -> NetworkRequest) {
    self.init { request, completion in
      Task {
        do {
          completion(.success(try await provide(request)))
        } catch {
          completion(.failure(error))
        }
      }
    }
  }
}
