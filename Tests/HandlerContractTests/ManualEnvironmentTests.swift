import Foundation
import Testing
import WebSocketCore
import WebSocketHandling
import WebSocketTesting
import WebSocketTransport

@Suite("The manual environment")
struct ManualEnvironmentTests {
  private func note(_ text: String, in journal: Journal) -> @Sendable () -> Void { { journal.note(.step(text)) } }

  @Test func `timers run at their exact times, in order, and what follows from one runs before time moves on`() {
    let manual = ManualEnvironment()
    let journal = Journal(manual)
    let loop = manual.environment.makeLoop()
    _ = loop.schedule(after: .milliseconds(20), note("second", in: journal))
    _ = loop.schedule(after: .milliseconds(10)) { [unowned loop] in
      journal.note(.step("first"))
      loop.execute { journal.note(.step("after the first")) }
      _ = loop.schedule(after: .milliseconds(5)) { journal.note(.step("in between")) }
    }
    _ = loop.schedule(after: .milliseconds(20), note("third", in: journal))
    let forgotten = loop.schedule(after: .milliseconds(12), note("forgotten", in: journal))
    loop.cancel(forgotten)
    _ = loop.schedule(after: .milliseconds(31), note("too late", in: journal))
    manual.advance(by: .milliseconds(30))
    #expect(
      journal.timeline == [
        Timed(10, .step("first")), Timed(10, .step("after the first")), Timed(15, .step("in between")),
        Timed(20, .step("second")), Timed(20, .step("third")),
      ])
    #expect(manual.elapsed == .milliseconds(30))
    #expect(manual.hasTimers)
  }

  @Test func `a timer that is due at the new time runs, and settling lets the clock stand`() {
    let manual = ManualEnvironment()
    let journal = Journal(manual)
    let loop = manual.environment.makeLoop()
    _ = loop.schedule(after: .seconds(1), note("due", in: journal))
    manual.settle()
    #expect(journal.timeline == [])
    manual.advance(by: .seconds(1))
    #expect(journal.timeline == [Timed(1000, .step("due"))])
    #expect(!manual.hasTimers)
  }

  @Test func `the loop's work knows that it runs on the loop, callbacks do not`() {
    let manual = ManualEnvironment()
    let journal = Journal(manual)
    let loop = manual.environment.makeLoop()
    loop.execute { [unowned loop] in journal.note(.step("loop \(loop.isCurrent)")) }
    manual.environment.callbackExecutor?.execute { [unowned loop] in journal.note(.step("callback \(loop.isCurrent)")) }
    manual.settle()
    #expect(!loop.isCurrent)
    #expect(journal.all == [.step("loop true"), .step("callback false")])
  }

  @Test func `one seed gives the same bytes, another seed others`() {
    let first = ManualEnvironment(seed: 7).environment.random.bytes(64)
    let same = ManualEnvironment(seed: 7).environment.random.bytes(64)
    let other = ManualEnvironment(seed: 8).environment.random.bytes(64)
    #expect(first == same)
    #expect(first != other)
    #expect(Set(first).count > 32)
  }

  @Test func `work from other threads waits for the environment's thread`() async {
    let manual = ManualEnvironment()
    let journal = Journal(manual)
    let loop = manual.environment.makeLoop()
    await withTaskGroup(of: Void.self) { group in
      for _ in 0..<8 { group.addTask { for _ in 0..<100 { loop.execute { journal.note(.step("x")) } } } }
    }
    #expect(journal.all == [])
    manual.settle()
    #expect(journal.all == Array(repeating: .step("x"), count: 800))
  }

  @Test func `a connection echoes`() throws {
    let client = Client(.queue)
    let server = try client.open()
    client.send("hello")
    #expect(try server.readMessage() == .text("hello"))
    server.send(.text("hello yourself"))
    client.receive()
    client.disconnect()
    #expect(try server.readClose() == .normalClosure)
    server.sendClose(.normalClosure)
    server.finish()
    client.manual.settle()
    #expect(
      client.journal.all == [
        .ok("send hello"), .message(.text("hello yourself")), .ok("disconnect"),
      ])
    #expect(server.clientHasClosed)
    #expect(client.manual.lookedUp == ["chat.example"])
    #expect(client.manual.dialled == ["192.0.2.1:80"])
  }

  @Test func `names and addresses answer as scripted, each address in turn`() throws {
    let client = Client(.queue)
    client.manual.script(name: "chat.example", .addresses(["192.0.2.7", "2001:db8::1"], after: .seconds(1)))
    client.manual.script(address: "192.0.2.7", .refused(after: .seconds(2)))
    client.manual.script(address: "2001:db8::1", .accepted(after: .seconds(3)))
    client.connect()
    // The second address is tried beside the first after its head start of 250 ms.
    client.manual.advance(by: .milliseconds(4_249))
    #expect(client.manual.connections.isEmpty)
    #expect(client.manual.pendingDials == 1)
    client.manual.advance(by: .milliseconds(1))
    #expect(try client.manual.nextConnection().address == "[2001:db8::1]:80")
    #expect(client.manual.dialled == ["192.0.2.7:80", "[2001:db8::1]:80"])
    #expect(client.manual.pendingDials == 0)
  }

  @Test func `an address that never answers holds the next one up by the head start alone, as over TCP`() throws {
    let client = Client(.queue)
    client.manual.script(
      name: "chat.example", .addresses(["192.0.2.7", "192.0.2.8", "2001:db8::1", "2001:db8::2"]))
    for address in ["192.0.2.7", "2001:db8::1"] { client.manual.script(address: address, .never) }
    client.manual.script(address: "192.0.2.8", .refused(after: .milliseconds(100)))
    client.connect()
    client.manual.settle()
    client.manual.advance(by: TCPDialer.headStart * 2 + .milliseconds(99))
    #expect(client.manual.dialled == ["192.0.2.7:80", "[2001:db8::1]:80", "192.0.2.8:80"])
    #expect(client.manual.connections.isEmpty)
    client.manual.advance(by: .milliseconds(1))
    #expect(try client.manual.nextConnection().address == "[2001:db8::2]:80")
    #expect(client.manual.pendingDials == 0)
    #expect(client.manual.elapsed == TCPDialer.headStart * 2 + .milliseconds(100))
  }

  @Test func `a secure connect needs no thread beside the environment's`() {
    let client = Client(.queue)
    client.connect(Client.request("wss://chat.example/"))
    client.manual.settle()
    #expect(client.manual.lookedUp == ["chat.example"])
  }

  @Test func `a refusal and an unknown name come with their errors`() {
    let client = Client(.queue)
    client.manual.script(name: "chat.example", .failure("no such name"))
    client.connect()
    client.manual.settle()
    client.manual.script(name: "chat.example", .addresses(["192.0.2.7"]))
    client.manual.script(address: "192.0.2.7", .refused())
    client.connect()
    client.manual.settle()
    #expect(
      client.journal.all == [
        .failed("connect", .resolutionFailed(host: "chat.example", reason: "no such name")),
        .failed(
          "connect", .unreachable(address: "192.0.2.7:80", errorNumber: ECONNREFUSED, reason: "Connection refused")),
      ])
  }

  @Test func `a client's write stops where there is no room and goes on when there is`() throws {
    let client = Client(.queue)
    let server = try client.open()
    server.setWriteRoom(8)
    server.setLargestWrite(3)
    client.send("hello")
    #expect(server.unread.count == 8)
    #expect(client.journal.all == [])
    server.setWriteRoom(nil)
    #expect(try server.readMessage() == .text("hello"))
    #expect(client.journal.all == [.ok("send hello")])
  }

  @Test func `reading what has not come is missing, and ended once the client has closed`() throws {
    let client = Client(.queue)
    let server = try client.open()
    #expect(throws: ScriptFailure.missing) { try server.readMessage() }
    client.send("x")
    #expect(throws: ScriptFailure.otherFrame("TEXT \"x\" [1 bytes]")) { try server.readClose() }
    server.reset()
    #expect(throws: ScriptFailure.ended) { try server.readMessage() }
  }
}
