package import WebSocketCore

/// Secures a client's connections, and keeps what later ones can use of earlier ones.
package final class TLSConnector: Sendable {
  /// The servers whose last session is kept.
  private static let maximumSessions = 16

  private struct State: Sendable {
    var context: TLSContext?
    /// The newest session of each server, by host and port.
    var sessions: [String: TLSResumption] = [:]
  }

  private let configuration: TLSConfiguration
  private let state = Lock(State())

  package init(_ configuration: TLSConfiguration) { self.configuration = configuration }

  /// Loads OpenSSL and reads the configuration's files, once.
  ///
  /// May block for some milliseconds.
  package func prepare() throws(TLSFailure) { _ = try context() }

  private func context() throws(TLSFailure) -> TLSContext {
    if let context = state.withLock({ $0.context }) { return context }
    let made = try TLSContext.shared(
      TLSContext.Settings(
        role: .client, trust: configuration.trust, identity: configuration.identity,
        minimumVersion: configuration.minimumVersion))
    state.withLock { $0.context = made }
    return made
  }

  /// Performs the handshake over a connected transport, and calls `completion` once unless cancelled before.
  ///
  /// - Parameters:
  ///   - host: the URL's.
  ///   - runHook: runs the verification hook where the handler's callbacks run.
  package func connect(
    over base: any Transport, host: String, port: Int, on loop: any EventLoop,
    runHook: @escaping @Sendable (@escaping @Sendable () -> Void) -> Void,
    completion: @escaping @Sendable (Result<any Transport, TLSFailure>) -> Void
  ) -> any DialAttempt {
    let name = configuration.serverName ?? host
    let server = "\(name) \(host) \(port)"
    let policy = TLSHandshake.Policy(
      host: name, pinnedKeys: configuration.pinnedKeys,
      skipsVerification: configuration.insecurelySkipsVerification, hook: configuration.verify, runHook: runHook)
    do throws(TLSFailure) {
      // With TLS 1.3 a session is used once, so that nobody can tell by it who comes again (RFC 8446 §C.4).
      let earlier = state.withLock { $0.sessions.removeValue(forKey: server) }
      let session = try TLSSession(
        client: context(), name: name, continues: policy.skipsVerification || policy.hook != nil, resuming: earlier)
      let transport = TLSTransport(session, over: base, on: loop) { [weak self] in self?.keep($0, for: server) }
      let handshake = TLSHandshake(transport, on: loop, policy: policy) { [weak self] result in
        switch result {
        case .success(let transport):
          if let earlier, transport.mayResumeAgain { self?.keep(earlier, for: server) }
          completion(.success(transport))
        case .failure(let failure): completion(.failure(failure))
        }
      }
      loop.execute { handshake.start() }
      return handshake
    } catch {
      base.close()
      loop.execute { completion(.failure(error)) }
      return FailedAttempt()
    }
  }

  private func keep(_ session: TLSResumption, for server: String) {
    // Released outside the lock, which is not needed for that.
    let dropped = state.withLock { state -> TLSResumption? in
      let old = state.sessions.updateValue(session, forKey: server)
      guard state.sessions.count > Self.maximumSessions, let other = state.sessions.keys.first(where: { $0 != server })
      else { return old }
      return state.sessions.removeValue(forKey: other)
    }
    _ = dropped
  }
}

private final class FailedAttempt: DialAttempt {
  func cancel() {}
}

/// Secures a server's connections.
package final class TLSAcceptor: Sendable {
  private let context: TLSContext

  /// Loads OpenSSL and reads the configuration's files.
  package init(_ configuration: TLSServerConfiguration) throws(TLSFailure) {
    context = try TLSContext(
      TLSContext.Settings(
        role: .server, trust: configuration.clientTrust, identity: configuration.identity,
        minimumVersion: configuration.minimumVersion, maximumVersion: configuration.maximumVersion))
  }

  /// TLS over an accepted connection; the handshake happens inside the first reads.
  package func secure(_ base: any Transport, on loop: any EventLoop) throws(TLSFailure) -> TLSTransport {
    TLSTransport(try TLSSession(server: context), over: base, on: loop)
  }
}
