import Foundation
import Testing
import WebSocketCore
import WebSocketHandling
import WebSocketTesting

@Suite("The outbox of the reconnecting session")
struct SessionOutboxTests {
  @Test func `what was sent while down goes out in order, before what is sent later`() throws {
    let bench = Bench(.tenSeconds)
    let first = try bench.opened()
    first.reset()
    bench.manual.settle()
    _ = bench.take()
    for number in 1...3 { bench.send("\(number)") }
    bench.manual.advance(by: .seconds(10))
    let second = try bench.open()
    bench.send("4")
    for number in 1...4 { #expect(try second.readMessage() == .text("\(number)")) }
    #expect(
      bench.take() == [.state(.connecting), .state(.connected)] + (1...4).map { .outcome("\($0)", .written) })
  }

  @Test func `count and bytes are bounded, and one message always fits`() {
    let bench = Bench(outbox: OutboxLimits(messages: 2, bytes: 200))
    bench.with { $0.setGate(isOpen: false) }
    bench.start()
    let large = String(repeating: "x", count: 500)
    for text in [large, "a"] { bench.send(text) }
    #expect(
      bench.take() == [
        .state(.held), .outcome("a", .dropped(.limitExceeded(.sendQueue, size: 500 + 64 + 1 + 64, limit: 200))),
      ])
    bench.stop()
    #expect(bench.take() == [.outcome(large, .dropped(.cancelled)), .state(.stopped(.requested))])
    bench.start()
    for text in ["a", "b", "c"] { bench.send(text) }
    #expect(
      bench.take() == [
        .state(.held), .outcome("c", .dropped(.limitExceeded(.sendQueue, size: 3, limit: 2))),
      ])
  }

  @Test func `a message expires at its age exactly, and a send says so`() {
    let bench = Bench(outbox: OutboxLimits(age: .seconds(5)))
    bench.with { $0.setGate(isOpen: false) }
    bench.start()
    bench.send("a")
    bench.manual.advance(by: .seconds(2))
    bench.with { $0.send(message: "b") { bench.note("b", $0) } }
    bench.manual.advance(by: .milliseconds(2_999))
    #expect(bench.take() == [.state(.held)])
    bench.manual.advance(by: .milliseconds(1))
    #expect(bench.take() == [.outcome("a", .expired)])
    bench.manual.advance(by: .seconds(2))
    #expect(bench.take() == [.failed("b", .timedOut(.outbox))])
    #expect(!bench.manual.hasTimers)
  }

  @Test func `a message for now is dropped without a connection`() throws {
    let bench = Bench(.tenSeconds)
    bench.start()
    bench.send("early", .whenConnected)
    let server = try bench.open()
    bench.send("now", .whenConnected)
    #expect(try server.readMessage() == .text("now"))
    #expect(
      bench.take() == [
        .state(.connecting), .outcome("early", .dropped(.messageSendFailed("WebSocket is not connected"))),
        .state(.connected), .outcome("now", .written),
      ])
  }

  @Test func `once the connection takes no more a message for now is dropped, and any other waits for the next one`()
    throws
  {
    let bench = Bench(.tenSeconds)
    let first = try bench.opened()
    first.sendClose(.goingAway)
    bench.manual.settle()
    bench.send("refused")
    bench.manual.settle()
    bench.send("now", .whenConnected)
    bench.send("kept")
    #expect(bench.take() == [.outcome("now", .dropped(.messageSendFailed("WebSocket is not connected")))])
    first.finish()
    bench.manual.advance(by: .seconds(10))
    let second = try bench.open()
    #expect(try second.readMessage() == .text("refused"))
    #expect(try second.readMessage() == .text("kept"))
    #expect(second.unread == [])
  }

  @Test func `a broken connection leaves in doubt what it was given; what may come twice is written again`() throws {
    let bench = Bench(.tenSeconds)
    let first = try bench.opened()
    first.setWriteRoom(0)
    bench.send("once")
    bench.send("again", .again)
    bench.send("now", .whenConnected)
    bench.manual.settle()
    first.reset()
    let told = bench.take()
    #expect(
      told.filter { if case .outcome = $0 { true } else { false } } == [
        .outcome("once", .maybeDelivered(reset)), .outcome("now", .maybeDelivered(reset)),
      ])
    bench.manual.advance(by: .seconds(10))
    let second = try bench.open()
    #expect(try second.readMessage() == .text("again"))
    #expect(bench.take() == [.state(.connecting), .state(.connected), .outcome("again", .written)])
  }

  @Test("a message that the handler had not begun when the connection ended waits for the next one", arguments: 0...1)
  func unbegun(way: Int) throws {
    let bench = Bench(.tenSeconds)
    let first = try bench.opened()
    first.setWriteRoom(0)
    let long = String(repeating: "x", count: 100_000)
    bench.send("begun" + long)
    bench.send("unbegun" + long)
    bench.send("now" + long, .whenConnected)
    bench.manual.settle()
    if way == 0 { first.reset() } else { first.sendClose(.goingAway) }
    bench.manual.settle()
    if way == 1 { first.finish() }
    let outcomes = bench.take().compactMap { said -> String? in
      switch said {
      case .outcome(let text, .maybeDelivered): "in doubt: \(text.prefix { $0 != "x" })"
      case .outcome(let text, .dropped(let failure)): "dropped: \(text.prefix { $0 != "x" }), \(failure == .closing)"
      default: nil
      }
    }
    #expect(Set(outcomes) == ["in doubt: begun", "dropped: now, true"])
    bench.manual.advance(by: .seconds(10))
    let second = try bench.open()
    #expect(try second.readMessage() == .text("unbegun" + long))
    #expect(second.unread == [])
    #expect(bench.take().last == .outcome("unbegun" + long, .written))
  }

  @Test func `a message in doubt that is not written again stays in doubt`() throws {
    let bench = Bench(.tenSeconds, outbox: OutboxLimits(age: .seconds(5)))
    let server = try bench.opened()
    server.setWriteRoom(0)
    bench.send("again", .again)
    bench.manual.settle()
    server.reset()
    _ = bench.take()
    bench.manual.advance(by: .seconds(5))
    #expect(bench.take() == [.outcome("again", .maybeDelivered(reset))])
  }

  @Test func `an acknowledged message has arrived, and one without its acknowledgement is written at most`() throws {
    let bench = Bench(.tenSeconds, outbox: OutboxLimits(age: .seconds(5)))
    let server = try bench.opened()
    for text in ["a", "b", "c"] { bench.send(text, key: text) }
    bench.send("plain")
    for text in ["a", "b", "c", "plain"] { #expect(try server.readMessage() == .text(text)) }
    #expect(bench.take() == [.outcome("plain", .written)])
    for key in ["b", "b", "unknown"] { bench.acknowledge(key) }
    #expect(bench.take() == [.outcome("b", .acknowledged)])
    bench.manual.advance(by: .milliseconds(4_999))
    #expect(bench.take() == [])
    bench.acknowledge("a")
    bench.manual.advance(by: .milliseconds(1))
    #expect(bench.take() == [.outcome("a", .acknowledged), .outcome("c", .written)])
    bench.acknowledge("c")
    #expect(bench.take() == [])
  }

  @Test func `what was written and not acknowledged is written again, in order, before what is sent later`() throws {
    let bench = Bench(.tenSeconds)
    let first = try bench.opened()
    for text in ["1", "2", "3"] { bench.send(text, .again, key: text) }
    for text in ["1", "2", "3"] { #expect(try first.readMessage() == .text(text)) }
    bench.acknowledge("2")
    first.reset()
    bench.manual.settle()
    bench.send("4", .again, key: "4")
    bench.manual.advance(by: .seconds(10))
    let second = try bench.open()
    for text in ["1", "3", "4"] { #expect(try second.readMessage() == .text(text)) }
    for text in ["4", "3", "1"] { bench.acknowledge(text) }
    #expect(
      bench.take().filter { if case .outcome = $0 { true } else { false } }
        == ["2", "4", "3", "1"].map { .outcome($0, .acknowledged) })
  }

  @Test func `a message in doubt can be acknowledged later, and is not written again before`() throws {
    let bench = Bench(.tenSeconds)
    let first = try bench.opened()
    for text in ["1", "2"] { bench.send(text, .once, key: text) }
    for text in ["3", "4"] { bench.send(text, .again, key: text) }
    bench.manual.settle()
    first.reset()
    bench.manual.settle()
    _ = bench.take()
    for text in ["1", "3"] { bench.acknowledge(text) }
    #expect(bench.take() == [.outcome("1", .acknowledged), .outcome("3", .acknowledged)])
    bench.manual.advance(by: .seconds(10))
    let second = try bench.open()
    #expect(try second.readMessage() == .text("4"))
    #expect(second.unread == [])
    _ = bench.take()
    bench.stop()
    #expect(
      bench.take() == [
        .outcome("2", .maybeDelivered(reset)), .outcome("4", .written), .state(.stopped(.requested)),
      ])
  }

  @Test func `what waits for its acknowledgement counts, until it comes`() throws {
    let bench = Bench(.tenSeconds, outbox: OutboxLimits(messages: 2))
    _ = try bench.opened()
    for text in ["a", "b", "c"] { bench.send(text, key: text) }
    let full = DeliveryOutcome.dropped(.limitExceeded(.sendQueue, size: 3, limit: 2))
    #expect(bench.take() == [.outcome("c", full)])
    bench.acknowledge("a")
    bench.send("d", key: "d")
    bench.acknowledge("d")
    #expect(bench.take() == [.outcome("a", .acknowledged), .outcome("d", .acknowledged)])
  }

  @Test func `a key that no connection was given yet is not acknowledged`() throws {
    let bench = Bench(.tenSeconds)
    bench.start()
    bench.send("a", key: "a")
    bench.acknowledge("a")
    let server = try bench.open()
    #expect(try server.readMessage() == .text("a"))
    #expect(bench.take() == [.state(.connecting), .state(.connected)])
    bench.acknowledge("a")
    #expect(bench.take() == [.outcome("a", .acknowledged)])
  }

  @Test func `stop sends what the connection was given before it closes`() throws {
    let bench = Bench()
    let server = try bench.opened()
    server.setWriteRoom(0)
    bench.send("last words")
    bench.disconnect()
    bench.manual.settle()
    server.setWriteRoom(nil)
    bench.manual.settle()
    #expect(try server.readMessage() == .text("last words"))
    try server.readClose()
    server.sendClose(.normalClosure)
    server.finish()
    #expect(
      bench.take() == [.state(.stopped(.requested)), .outcome("last words", .written), .ok("disconnect")])
  }
}
