import Testing
import WebSocketCore
import WebSocketHandling
import WebSocketTesting
import WebSocketTransport

private func second(_ seconds: Int64) -> Instant { Instant(nanoseconds: seconds * 1_000_000_000) }

private func closed(
  _ code: UInt16, by initiator: CloseRecord.Side = .peer, violation: ProtocolViolation? = nil
) -> Failure {
  .closed(
    CloseRecord(
      code: CloseCode(code), initiator: initiator, isClean: true, transportEnd: .finished, violation: violation))
}

private func refused(_ status: Int, _ headers: HTTPFields = []) -> Failure {
  .handshakeRefused(HandshakeRefusal(status: status, headers: headers, body: []))
}

private func decision(_ failure: Failure, mayAskProvider: Bool = false) -> ReconnectDecision {
  ReconnectPolicy.standard(ReconnectCause(phase: .attempt, error: failure, mayAskProvider: mayAskProvider))
}

/// A machine that lost a connection or an attempt, and its policy's rule.
private struct Tries {
  let policy: ReconnectPolicy
  private var machine: ReconnectMachine

  init(_ policy: ReconnectPolicy = ReconnectPolicy(), hasProvider: Bool = false) {
    self.policy = policy
    machine = ReconnectMachine(policy: policy, hasProvider: hasProvider)
    _ = machine.start()
  }

  /// The next attempt fails.
  mutating func fail(
    _ failure: Failure, at now: Instant = second(0), randomBits: UInt64 = 0
  ) -> ReconnectMachine.Action {
    _ = machine.timerFired()
    return judge(machine.attemptFailed(failure, at: now), now, randomBits)
  }

  /// The next attempt succeeds, and the connection is lost after that time.
  mutating func lose(
    _ failure: Failure, after uptime: Duration, at now: Instant = second(0), randomBits: UInt64 = 0
  ) -> ReconnectMachine.Action {
    _ = machine.timerFired()
    machine.connected(at: now)
    return judge(machine.lost(failure, at: now + uptime), now + uptime, randomBits)
  }

  private mutating func judge(
    _ cause: ReconnectCause?, _ now: Instant, _ randomBits: UInt64
  ) -> ReconnectMachine.Action {
    guard let cause else { return .none }
    return machine.judged(policy.rule(cause), at: now, randomBits: randomBits)
  }
}

private struct TokenServiceIsDown: Error {}

@Suite("The policy of reconnecting")
struct ReconnectPolicyTests {
  @Test("R105: close codes that a new connection would only repeat stop")
  func closeCodes() {
    let codes: [UInt16] = [
      1000, 1001, 1002, 1003, 1005, 1006, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014, 2999, 3000, 4000, 4999,
    ]
    let retried = codes.filter { decision(closed($0)) == .retry() }
    #expect(retried == [1001, 1005, 1006, 1011, 1012, 1013, 1014, 2999])
    #expect(decision(closed(1002, by: .local, violation: .maskedFrameFromServer)) == .retry())
    #expect(decision(closed(1001, by: .local)) == .retry())
  }

  @Test("R105: refusals")
  func refusals() {
    let statuses = [200, 301, 400, 401, 403, 404, 408, 410, 426, 429, 500, 502, 503, 504]
    #expect(statuses.filter { decision(refused($0)) == .retry() } == [429, 500, 502, 503, 504])
    #expect(decision(refused(401), mayAskProvider: true) == .retry())
    #expect(decision(refused(403), mayAskProvider: true) == .retry())
    #expect(decision(refused(404), mayAskProvider: true) == .stop)
    let header = HTTPField(name: "retry-after", value: "120")
    #expect(decision(refused(503, [header])) == .retry(notBefore: .seconds(120)))
    #expect(decision(refused(429, [header])) == .retry(notBefore: .seconds(120)))
  }

  @Test("R105: verdicts on certificates and impossible requests stop, networks are tried again")
  func others() {
    let stopping: [Failure] = [
      .tls(.expired), .tls(.wrongHost), .tls(.selfSigned), .tls(.unavailable("")), .invalidRequest(.host),
      .unsupported(""), .proxy(status: 407, reason: ""),
    ]
    #expect(stopping.map { decision($0) } == stopping.map { _ in .stop })
    let retried: [Failure] = [
      .unreachable(address: "", errorNumber: 111, reason: ""), .resolutionFailed(host: "", reason: ""),
      .timedOut(.connect), .timedOut(.pong), .tls(.connectionEnded), .proxy(status: 502, reason: ""),
    ]
    #expect(retried.map { decision($0) } == retried.map { _ in .retry() })
  }

  @Test("an error of the provider's own is tried again and keeps its type")
  func foreignError() {
    let cause = ReconnectCause(phase: .request, error: TokenServiceIsDown())
    #expect(ReconnectPolicy.standard(cause) == .retry())
    #expect(cause.error is TokenServiceIsDown)
  }

  @Test(
    "Retry-After is seconds, or a date measured against the answer's own",
    arguments: [
      ("0", nil, 0), ("120", nil, 120), ("99999999999999999999", nil, 86_400), ("-1", nil, nil), ("", nil, nil),
      ("soon", nil, nil), ("1.5", nil, nil), ("Sun, 06 Nov 1994 08:49:37 GMT", nil, nil),
      ("Sun, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:48:07 GMT", 90),
      ("Sun, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:50:00 GMT", 0),
      ("Thu, 01 Mar 2096 00:00:05 GMT", "Tue, 28 Feb 2096 23:59:55 GMT", 86_400),
      ("Wed, 01 Mar 2023 00:00:05 GMT", "Tue, 28 Feb 2023 23:59:55 GMT", 10),
      ("Mon, 01 Jan 2024 00:00:01 GMT", "Sun, 31 Dec 2023 23:59:59 GMT", 2),
      ("Sun, 06 Nov 1994 08:49 GMT", "Sun, 06 Nov 1994 08:48:07 GMT", nil),
    ] as [(String, String?, Int?)])
  func retryAfter(value: String, date: String?, seconds: Int?) {
    var headers: HTTPFields = [HTTPField(name: "Retry-After", value: value)]
    if let date { headers.append("Date", date) }
    let refusal = HandshakeRefusal(status: 503, headers: headers, body: [])
    #expect(refusal.retryAfter == seconds.map { .seconds($0) })
  }

  @Test("R105: credentials that are refused are asked for once more, then it stops; a connection starts anew")
  func credentials() {
    var tries = Tries(hasProvider: true)
    #expect(tries.fail(refused(401)) == .wait(.zero, attempt: 1))
    #expect(tries.lose(closed(1001), after: .seconds(9)) == .wait(.zero, attempt: 1))
    #expect(tries.fail(refused(403)) == .wait(.zero, attempt: 2))
    #expect(tries.fail(refused(401)) == .stop(.failed(refused(401))))
  }

  @Test func `without a provider the first refusal of credentials stops`() {
    var tries = Tries()
    #expect(tries.fail(refused(401)) == .stop(.failed(refused(401))))
  }

  @Test("R105: the schedule's jitter comes on top of Retry-After")
  func jitter() {
    var tries = Tries()
    let busy = refused(503, [HTTPField(name: "Retry-After", value: "60")])
    #expect(tries.fail(busy, randomBits: .max) == .wait(.seconds(65), attempt: 1))
  }

  @Test("R106: failures are counted, and the session gives up by name")
  func maximumFailures() {
    var tries = Tries(ReconnectPolicy(maximumFailures: 2))
    let failure = Failure.timedOut(.connect)
    let actions = (1...3).map { _ in tries.fail(failure) }
    #expect(actions == [.wait(.zero, attempt: 1), .wait(.zero, attempt: 2), .stop(.gaveUp(failures: 3, failure))])
  }

  @Test("R106: only a connection that lasted ends the row of failures")
  func flapping() {
    var tries = Tries()
    let actions = (1...30).map { _ in tries.lose(closed(1006), after: .milliseconds(4_999), randomBits: .max) }
    let seconds = [5, 2, 4, 8, 16] + Array(repeating: 30, count: 25)
    #expect(actions == zip(seconds, 1...).map { .wait(.seconds($0), attempt: $1) })
    #expect(
      tries.lose(closed(1006), after: .seconds(5), randomBits: .max) == .wait(.seconds(5), attempt: 1))
  }

  @Test("R109: no attempt begins after the total time, counted from the first failure of the row")
  func maximumTime() {
    var tries = Tries(ReconnectPolicy(maximumTime: .seconds(10)))
    let failure = Failure.timedOut(.connect)
    #expect(tries.fail(failure, at: second(100), randomBits: .max) == .wait(.seconds(5), attempt: 1))
    #expect(tries.fail(failure, at: second(108), randomBits: .max) == .wait(.seconds(2), attempt: 2))
    #expect(tries.fail(failure, at: second(110), randomBits: .max) == .stop(.gaveUp(failures: 3, failure)))
  }

  @Test func `a rule of the caller's sees the whole cause and can replace any decision`() {
    var tries = Tries(
      ReconnectPolicy { cause in
        if cause.phase == .connection(uptime: .seconds(3)), cause.failure == closed(4009), cause.failures == 1 {
          return .retry(notBefore: .seconds(7))
        }
        return ReconnectPolicy.standard(cause)
      })
    #expect(tries.lose(closed(4009), after: .seconds(3)) == .wait(.seconds(7), attempt: 1))
    #expect(tries.lose(closed(4009), after: .seconds(3)) == .stop(.failed(closed(4009))))
  }

  @Test(
    "a thousand clients that lose their server at once do not come back at once",
    arguments: [(isBack: true, share: 0.05), (isBack: false, share: 0.1)])
  func herd(isBack: Bool, share: Double) {
    var generator = SeededGenerator(seed: 1)
    let end = second(10)
    var attempts: [Instant] = []
    for _ in 0..<1_000 {
      var tries = Tries()
      var now = second(0)
      var action = tries.lose(closed(1006), after: .zero, randomBits: generator.next())
      while case .wait(let delay, _) = action {
        now = now + delay
        guard now < end else { break }
        attempts.append(now)
        if isBack { break }
        action = tries.fail(closed(1006), at: now, randomBits: generator.next())
      }
    }
    attempts.sort()
    let busiest = attempts.indices.map { first in
      attempts[first...].prefix { $0 < attempts[first] + .milliseconds(100) }.count
    }.max()
    #expect(attempts.count >= 1_000)
    #expect(Double(busiest ?? 0) <= share * Double(attempts.count))
  }
}
