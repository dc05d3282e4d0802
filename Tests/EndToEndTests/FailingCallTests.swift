import CFaults
import Foundation
import Glibc
import Testing
import WebSocketCore
import WebSocketHandling
import WebSocketTesting
import WebSocketTransport

/// One system call that fails once in a connection's life.
private struct Fault: CustomStringConvertible {
  var name: String
  var call: cfaults_call
  /// The errors that the call is known to fail with.
  var errors: [Int32]

  var description: String { name }

  static let client = [
    Fault(name: "socket", call: cfaults_socket, errors: [EMFILE, ENOBUFS, ENOMEM]),
    Fault(
      name: "connect", call: cfaults_connect,
      errors: [ECONNREFUSED, ENETUNREACH, ETIMEDOUT, EADDRNOTAVAIL, EACCES, EINTR]),
    Fault(name: "recv", call: cfaults_recv, errors: [ECONNRESET, ETIMEDOUT, EHOSTUNREACH, ENOMEM, EINTR]),
    Fault(name: "epoll_ctl", call: cfaults_epoll_add, errors: [ENOMEM, ENOSPC]),
    Fault(name: "setsockopt", call: cfaults_setsockopt, errors: [ENOPROTOOPT, EINVAL]),
    Fault(name: "getsockopt", call: cfaults_getsockopt, errors: [ENOBUFS, EINVAL]),
    Fault(name: "getaddrinfo", call: cfaults_getaddrinfo, errors: [EAI_AGAIN, EAI_NONAME, EAI_MEMORY, EAI_SYSTEM]),
  ]

  static let sends = [
    Fault(name: "send", call: cfaults_send, errors: [EPIPE, ECONNRESET, ENOBUFS, ETIMEDOUT, EINTR])
  ]

  static let server = [
    Fault(name: "recv", call: cfaults_recv, errors: [ECONNRESET, ENOMEM, EINTR]),
    Fault(name: "send", call: cfaults_send, errors: [EPIPE, EINTR]),
    Fault(name: "epoll_ctl", call: cfaults_epoll_add, errors: [ENOMEM, ENOSPC]),
    Fault(name: "setsockopt", call: cfaults_setsockopt, errors: [EINVAL]),
  ]
}

/// A connection's life, while one system call fails.
///
/// For a process of its own.
private struct Life {
  /// Ends a process that hangs.
  static func bound() { alarm(200) }

  let url: URL
  var timeout = Duration.seconds(180)

  /// Connects, uses everything, closes, and looks whether each call was answered once; returns what was not well.
  func run(_ place: Place) async -> Tally {
    let handler = place.makeHandler()
    let tally = Tally()
    let (isAnswered, answered) = AsyncStream.makeStream(of: Void.self)
    let connected: @Sendable (Result<Void, Failure>) -> Void = tally.completion("connect")
    handler.connect(request: NetworkRequest(url: url, connectTimeout: timeout, closeTimeout: timeout)) { result in
      connected(result)
      answered.finish()
    }
    let received: @Sendable (Result<WebSocketMessage, Failure>) -> Void = tally.completion("receive")
    handler.receive(completion: received)
    handler.send(message: WebSocketMessage.text("early"), completion: tally.completion("early"))
    for await _ in isAnswered {}
    handler.ping(completion: tally.completion("ping"))
    handler.send(message: WebSocketMessage.binary(Data(count: 100_000)), completion: tally.completion("long"))
    handler.disconnect(completion: tally.completion("disconnect"))
    await tally.allAnswered()
    return tally
  }

  /// Lets each call of each kind fail with each error, once per life; returns the lives in which something timed out.
  func runAll(_ faults: [Fault], side: cfaults_side) async -> [String] {
    var late: [String] = []
    cfaults_arm(cfaults_socket, side, 0, 0)
    _ = await run(.queue)
    let counts = faults.map { min(Int(cfaults_calls($0.call)), 8) }
    #expect(!counts.contains(0), "calls in a life: \(counts)")
    let before = ProcessCounts.now
    for (fault, count) in zip(faults, counts) {
      for error in fault.errors {
        for number in 1..<count + 1 {
          for place in Place.allCases {
            cfaults_arm(fault.call, side, Int32(number), error)
            let tally = await run(place)
            let what = "\(fault) number \(number) of \(count) fails with \(error), \(place)"
            #expect(tally.doubled == [], "\(what)")
            if tally.all.values.contains(where: { if case .timedOut? = $0[0] { true } else { false } }) {
              late.append(what)
            }
          }
        }
      }
    }
    cfaults_arm(cfaults_socket, side, 0, 0)
    let healthy = await Life(url: url).run(.queue)
    #expect(healthy.succeeded == ["connect", "receive", "early", "ping", "long", "disconnect"])
    before.isReachedAgain()
    return late
  }
}

/// Sockets of clients that wait to be accepted.
private final class Waiting {
  var descriptors: [Int32] = []
  deinit { for descriptor in descriptors { close(descriptor) } }
}

@Suite("Failing system calls", .timeLimit(.minutes(5)))
struct FailingCallTests {
  @Test func `each call of a client's life may fail once: everything is answered at once, nothing is lost`() async {
    await #expect(processExitsWith: .success) {
      Life.bound()
      let server = try LoopbackServer()
      let url = try #require(URL(string: "ws://localhost:\(server.port)/"))
      let late = await Life(url: url).runAll(Fault.client, side: cfaults_opened)
      #expect(late == [])
    }
  }

  @Test func `each send of a client's life may fail once: everything is answered, nothing is lost`() async {
    await #expect(processExitsWith: .success) {
      Life.bound()
      let server = try LoopbackServer()
      let late = await Life(url: server.url).runAll(Fault.sends, side: cfaults_opened)
      #expect(late == [])
    }
  }

  @Test func `each call of a server's connection may fail once: the server lives on, nothing is lost`() async {
    await #expect(processExitsWith: .success) {
      Life.bound()
      let server = try LoopbackServer()
      // A server that cannot go on may leave the client waiting: that is what time-outs are for.
      _ = await Life(url: server.url, timeout: .milliseconds(500)).runAll(Fault.server, side: cfaults_accepted)
    }
  }

  @Test func `an accept that fails is made good: the client is connected all the same`() async {
    await #expect(processExitsWith: .success) {
      Life.bound()
      let server = try LoopbackServer()
      let before = ProcessCounts.now
      for error in [EMFILE, ENFILE, ENOBUFS, ENOMEM, ECONNABORTED, EINTR, EPROTO] {
        cfaults_arm(cfaults_accept, cfaults_opened, 1, error)
        let handler = Place.queue.makeHandler()
        try await handler.connect(request: NetworkRequest(url: server.url, connectTimeout: .seconds(180)))
        #expect(cfaults_calls(cfaults_accept) >= 2)
        try await handler.disconnect()
      }
      before.isReachedAgain()
    }
  }

  @Test func `a client that connects while the server starts is accepted, without another to follow it`() async {
    await #expect(processExitsWith: .success) {
      Life.bound()
      cfaults_connect_early()
      // Returns once the client was looked for.
      let server = try LoopbackServer()
      withExtendedLifetime(server) {}
    }
  }

  @Test func `while no connection can be accepted the server tries ten times a second, however many wait`() async {
    await #expect(processExitsWith: .success) {
      Life.bound()
      let server = try LoopbackServer()
      let address = try #require(SocketAddress.literal(host: "127.0.0.1", port: server.port))
      cfaults_arm(cfaults_accept, cfaults_opened, -1, EMFILE)
      let waiting = Waiting()
      for _ in 0..<20 {
        let before = cfaults_calls(cfaults_accept)
        let socket = try Socket.open(family: address.family)
        _ = try Socket.connect(socket, to: address)
        waiting.descriptors.append(socket.release())
        while cfaults_calls(cfaults_accept) == before { usleep(100) }
      }
      let (start, before) = (ContinuousClock.now, cfaults_calls(cfaults_accept))
      while cfaults_calls(cfaults_accept) < before + 10 { usleep(1_000) }
      // Ten tries take nine pauses at least.
      #expect(ContinuousClock.now - start > .milliseconds(850))
      cfaults_arm(cfaults_socket, cfaults_opened, 0, 0)
      let handler = Place.queue.makeHandler()
      try await handler.connect(request: NetworkRequest(url: server.url, connectTimeout: .seconds(180)))
      try await handler.disconnect()
    }
  }
}
