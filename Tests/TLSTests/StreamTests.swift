import Foundation
import Glibc
import Testing
import WebSocketCore
import WebSocketHandling
import WebSocketTesting
import WebSocketTransport
import TestSupport

@Suite("Messages over TLS", certificatesExist, .timeLimit(.minutes(5)))
struct StreamTests {
  @Test(
    "messages of every size come back whole, also where TCP takes little at a time",
    arguments: [TLSConfiguration.Version.v1_2, .v1_3])
  func sizes(version: TLSConfiguration.Version) async throws {
    let server = try server { $0.maximumVersion = version }
    let relay = try Relay(to: server.port) { _, bytes, _ in bytes.pieces(of: 1449) }
    let handler = try makeHandler()
    try await handler.connect(request: request(port: relay.port))
    // A prime length, so that no piece that is lost or comes twice goes unseen.
    let pattern = Data((0..<4093).map { UInt8(truncatingIfNeeded: $0 &* 31) })
    var bytes = Data()
    while bytes.count < 5 << 20 { bytes += pattern }
    for count in [0, 1, 125, 126, 16_383, 16_384, 16_385, 65_535, 65_536, 65_537, 1 << 20, 5 << 20] {
      let message = WebSocketMessage.binary(bytes.prefix(count))
      try await handler.send(message: message)
      #expect(try await handler.receive(WebSocketMessage.self) == message)
    }
    try await handler.disconnect()
  }

  @Test func `R120: a thousand messages come back in order, sent at once`() async throws {
    let server = try server()
    let handler = try makeHandler()
    try await handler.connect(request: request(port: server.port))
    for number in 0..<1000 { handler.send(.text("\(number)")) }
    var seen: [WebSocketMessage] = []
    while seen.count < 1000 { seen.append(try await handler.receive(WebSocketMessage.self)) }
    #expect(seen == (0..<1000).map { .text("\($0)") })
    try await handler.disconnect()
  }

  @Test func `a completed closing handshake over TLS is clean and ends with close_notify`() async throws {
    let server = try server()
    let handler = try makeHandler()
    try await handler.connect(request: request(port: server.port))
    try await handler.disconnect()
    let record = CloseRecord(
      code: .normalClosure, initiator: .local, isClean: true, transportEnd: .finished)
    #expect(
      await failure { () throws(Failure) in _ = try await handler.receive(WebSocketMessage.self) } == .closed(record))
  }

  @Test func `a stream that ends without close_notify was cut`() async throws {
    let server = try server()
    let relay = try Relay(to: server.port)
    let handler = try makeHandler()
    try await handler.connect(request: request(port: relay.port))
    try await handler.send(message: WebSocketMessage.text("x"))
    #expect(try await handler.receive(WebSocketMessage.self) == .text("x"))
    relay.cut()
    let record = CloseRecord(
      code: .abnormalClosure, initiator: .peer, isClean: false, transportEnd: .truncated)
    #expect(
      await failure { () throws(Failure) in _ = try await handler.receive(WebSocketMessage.self) } == .closed(record))
  }

  @Test("R98: an altered record ends the connection with its cause", arguments: [0, 5, 6, 20])
  func corruption(place: Int) async throws {
    let mayAlter = Lock(false)
    let server = try server()
    let relay = try Relay(to: server.port) { direction, bytes, _ in
      guard direction == .toClient, mayAlter.withLock({ $0 }), place < bytes.count else { return [bytes] }
      var altered = bytes
      altered[place] ^= 0x40
      return [altered]
    }
    let handler = try makeHandler()
    try await handler.connect(request: request(port: relay.port))
    try await handler.send(message: WebSocketMessage.text("x"))
    #expect(try await handler.receive(WebSocketMessage.self) == .text("x"))
    mayAlter.withLock { $0 = true }
    try await handler.send(message: WebSocketMessage.text("altered on its way back"))
    let error = await failure { () throws(Failure) in _ = try await handler.receive(WebSocketMessage.self) }
    guard case .closed(let record) = error, case .tls(.other) = record.transportEnd else {
      Issue.record("\(String(describing: error))")
      return
    }
    #expect(!record.isClean)
    // connect works again.
    mayAlter.withLock { $0 = false }
    try await handler.connect(request: request(port: relay.port))
  }

  @Test func `R122: a peer that is gone is an error and no signal`() async throws {
    let server = try server()
    let relay = try Relay(to: server.port)
    let handler = try makeHandler()
    try await handler.connect(request: request(port: relay.port))
    relay.cut()
    while await failure({ () throws(Failure) in try await handler.send(message: "x") }) == nil {}
  }

  @Test func `R79: 500 connects that are cancelled at any moment leave no descriptor, thread or memory behind`() async {
    await #expect(processExitsWith: .success) {
      let server = try server()
      // The first use loads libraries and starts threads.
      try #require(try await connectFailure(to: server) == nil)
      let before = try Resources.now()
      var halfway = 0
      for round in 0..<500 {
        if round == 250 { halfway = try Resources.residentBytes() }
        let handler = try makeHandler()
        try handler.connect(request: request(port: server.port)) { _ in }
        // From none to several milliseconds: before TCP, in each step of TLS, and behind the opening handshake.
        usleep(UInt32(round % 50 * 100))
        _ = await failure { () throws(Failure) in try await handler.disconnect() }
      }
      let grown = try Resources.residentBytes() - halfway
      // Sanitizers keep books of their own, and what was freed.
      let isCounted = ProcessInfo.processInfo.environment["SANITIZER"] == nil
      guard grown < 4 << 20 || !isCounted else { fatalError("\(grown) bytes more are resident") }
      // Idle threads of the system's pool go after some seconds.
      let deadline = ContinuousClock.now + .seconds(120)
      var now = try Resources.now()
      while now.descriptors > before.descriptors || now.threads > before.threads {
        guard ContinuousClock.now < deadline else { fatalError("\(now) instead of \(before)") }
        usleep(10_000)
        now = try Resources.now()
      }
    }
  }

  @Test func `a secure connection is opened though all threads of the global queue are taken`() async {
    await #expect(processExitsWith: .success) { try Self.connectWhileBusy() }
  }

  private static func connectWhileBusy() throws {
    let server = try server()
    let handler = try makeHandler()
    let request = try request(port: server.port) { $0.connectTimeout = .seconds(240) }
    let release = DispatchSemaphore(value: 0)
    for _ in 0..<300 { DispatchQueue.global().async { release.wait() } }
    let answered = DispatchSemaphore(value: 0)
    handler.connect(request: request) { result in
      if case .success = result { answered.signal() }
    }
    #expect(answered.wait(timeout: .now() + 240) == .success)
  }

  @Test(arguments: 0..<5) func `a process ends cleanly while its connections use OpenSSL`(_: Int) async {
    await #expect(processExitsWith: .success) { try await Self.exitWhileConnecting() }
  }

  /// Ends this process while eight tasks connect over and over, each anywhere in it.
  private static func exitWhileConnecting() async throws {
    let server = try server()
    let connects = Lock(0)
    @Sendable func connectAgainAndAgain() async throws {
      while true {
        if let error = try await connectFailure(to: server) { throw error }
        let count = connects.withLock { count in
          count += 1
          return count
        }
        if count == 20 { exit(EXIT_SUCCESS) }
      }
    }
    try await withThrowingTaskGroup(of: Void.self) { group in
      for _ in 0..<8 { group.addTask(operation: connectAgainAndAgain) }
      try await group.waitForAll()
    }
  }

  @Test func `without OpenSSL ws works, and wss fails with the package's name`() async throws {
    let plain = try LoopbackServer()
    let secure = try server()
    let folder = FileManager.default.temporaryDirectory.appending(path: "no-openssl-\(getpid())")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: folder) }
    // Files of that name which are no libraries: the system's own are not looked for any more.
    for version in ["4", "3", "1.1"] {
      for name in ["ssl", "crypto"] { try Data().write(to: folder.appending(path: "lib\(name).so.\(version)")) }
    }
    let connected = try Tool.connect(to: plain.url, libraries: folder.path)
    #expect(connected.status == 0, "\(connected.errors)")
    let failed = try Tool.connect(to: secure.url, libraries: folder.path)
    #expect(failed.status == 1)
    #expect(failed.errors.contains("libssl3"))
    #expect(failed.errors.split(separator: "\n").count == 1)
    #expect(secure.handshakeCount == 0)
  }
}

/// The command-line tool, in a process of its own.
private enum Tool {
  static func connect(to url: URL, libraries: String) throws -> (status: Int32, errors: String) {
    // The tool is built beside the tests.
    let arguments = CommandLine.arguments
    let bundle =
      try arguments.firstIndex(of: "--test-bundle-path").map { arguments[$0 + 1] } ?? #require(arguments.first)
    let process = Process()
    process.executableURL = URL(filePath: bundle).deletingLastPathComponent().appending(path: "websocket")
    process.arguments = ["connect", "--connect-timeout", "240", url.absoluteString]
    var environment = ProcessInfo.processInfo.environment
    let known = environment["LD_LIBRARY_PATH"].map { ":\($0)" } ?? ""
    environment["LD_LIBRARY_PATH"] = libraries + known
    process.environment = environment
    process.standardInput = FileHandle.nullDevice
    process.standardOutput = FileHandle.nullDevice
    let errors = Pipe()
    process.standardError = errors
    try process.run()
    let text = String(decoding: errors.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
    process.waitUntilExit()
    return (process.terminationStatus, text)
  }
}

/// What this process holds.
private struct Resources: Sendable {
  var descriptors: Int
  var threads: Int

  static func now() throws -> Resources {
    let files = FileManager.default
    return Resources(
      descriptors: try files.contentsOfDirectory(atPath: "/proc/self/fd").count,
      threads: try files.contentsOfDirectory(atPath: "/proc/self/task").count)
  }

  static func residentBytes() throws -> Int {
    let fields = try String(contentsOfFile: "/proc/self/statm", encoding: .utf8).split(separator: " ")
    return try #require(fields.count > 1 ? Int(fields[1]) : nil) * Int(getpagesize())
  }
}
