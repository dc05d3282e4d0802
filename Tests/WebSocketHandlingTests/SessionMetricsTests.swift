import Testing
import WebSocketHandling
import WebSocketTesting

@Suite("The counters of the reconnecting session")
struct SessionMetricsTests {
  @Test func `attempts, losses, messages and outcomes are counted, and what waits`() throws {
    let bench = Bench(.tenSeconds, outbox: OutboxLimits(messages: 2, age: .seconds(60)))
    bench.start()
    try bench.manual.nextConnection().reset()
    bench.manual.advance(by: .seconds(10))
    let first = try bench.open()
    bench.send("a")
    bench.send("b", key: "b")
    bench.manual.settle()
    bench.acknowledge("b")
    bench.receive()
    first.send(.text("hello"))
    bench.manual.settle()
    first.reset()
    bench.manual.settle()
    bench.send("c", .whenConnected)
    bench.send("four")
    bench.send("five!")
    bench.send("over the limit")
    bench.manual.settle()

    var expected = SessionMetrics()
    (expected.attempts, expected.connects, expected.problems, expected.messagesReceived) = (2, 1, 2, 1)
    (expected.written, expected.acknowledged, expected.dropped) = (1, 1, 2)
    (expected.outboxMessages, expected.outboxBytes) = (2, 9)
    #expect(metrics(bench) == expected)

    bench.manual.advance(by: .seconds(10))
    _ = try bench.open()
    (expected.attempts, expected.connects, expected.reconnects, expected.written) = (3, 2, 1, 3)
    (expected.outboxMessages, expected.outboxBytes) = (0, 0)
    #expect(metrics(bench) == expected)

    let samples = expected.samples
    #expect(samples.first { $0.name == "websocket_session_reconnects_total" }?.value == 1)
    #expect(samples.first { $0.labels == ["outcome": "dropped"] }?.value == 2)
    #expect(samples.allSatisfy { $0.name.hasSuffix("_total") == ($0.kind == .counter) })
    bench.stop()
    bench.manual.settle()
  }

  @Test func `a value that cannot be encoded counts as dropped`() {
    let bench = Bench()
    bench.with { session in
      session.send(Double.nan) { bench.say(.outcome("value", $0)) }
      bench.say(.ok("returned"))
    }
    let told = bench.take()
    #expect(told.count == 2)
    #expect(told.first == .ok("returned"))
    #expect(metrics(bench)?.dropped == 1)
  }

  private func metrics(_ bench: Bench) -> SessionMetrics? {
    var metrics: SessionMetrics?
    bench.with { metrics = $0.metrics }
    return metrics
  }
}
