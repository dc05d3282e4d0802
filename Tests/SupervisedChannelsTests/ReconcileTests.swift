import SupervisedChannels
import Testing
import WebSocketTesting
import TestSupport

@Suite("What the desired set opens, keeps, feeds and closes")
struct ReconcileTests {
  @Test func `a new key opens, a missing one is cancelled, the same set does nothing`() {
    let bench = Bench()
    bench.reconcile(bench.channel("a"), bench.channel("b"))
    #expect(bench.take() == [.opened("a"), .opened("b")])
    bench.reconcile(bench.channel("a"), bench.channel("b"))
    #expect(bench.take() == [])
    bench.reconcile(bench.channel("b"))
    #expect(bench.take() == [.cancelled("a")])
    bench.reconcile()
    #expect(bench.take() == [.cancelled("b")])
  }

  @Test func `what vanishes or changes its key is cancelled before anything opens`() {
    let bench = Bench()
    bench.reconcile(bench.channel("a"), bench.channel("b", key: "1"), bench.channel("c"))
    _ = bench.take()
    bench.reconcile(bench.channel("new"), bench.channel("b", key: "2"))
    #expect(bench.take() == [.cancelled("a"), .cancelled("c"), .cancelled("b1"), .opened("new"), .opened("b2")])
  }

  @Test func `of several with one id the last counts, at the place of the first`() {
    let bench = Bench()
    bench.reconcile(bench.channel("a", name: "first"), bench.channel("b"), bench.channel("a", name: "last"))
    #expect(bench.take() == [.opened("last"), .opened("b")])
    bench.reconcile()
    #expect(bench.take() == [.cancelled("last"), .cancelled("b")])
  }

  @Test func `ids and keys are told apart by their type`() {
    let bench = Bench()
    let said = SharedList<String>()
    func channel(_ id: some Hashable & Sendable, key: some Hashable & Sendable) -> Channel<String> {
      let name = "\(type(of: id)) \(type(of: key))"
      return Channel(id: id, lifetime: .ephemeral(resetKey: key)) { _ in
        said.append("open \(name)")
        return .cancelOnly { said.append("cancel \(name)") }
      }
    }
    bench.with { $0.reconcile([channel(1, key: 1), channel(1.0, key: 1), channel(true, key: 1)]) }
    bench.manual.settle()
    #expect(said.take() == ["open Int Int", "open Double Int", "open Bool Int"])
    bench.with { $0.reconcile([channel(1, key: 1.0)]) }
    bench.manual.settle()
    #expect(said.take() == ["cancel Double Int", "cancel Bool Int", "cancel Int Int", "open Int Double"])
    bench.with { $0.reconcile([channel(1, key: Optional(1.0)), channel(Optional<Int>.none, key: String?.none)]) }
    bench.manual.settle()
    #expect(
      said.take() == ["cancel Int Double", "open Int Optional<Double>", "open Optional<Int> Optional<String>"])
    bench.with { $0.reconcile([channel(1, key: Optional(1.0)), channel(Optional<Int>.none, key: String?.none)]) }
    bench.manual.settle()
    #expect(said.take() == [])
  }

  @Test func `a permanent channel keeps its instance, and what that captured, whatever changes`() {
    let bench = Bench()
    bench.reconcile(bench.channel("a", value: "1", name: "old token"))
    bench.reconcile(bench.channel("a", value: "2", name: "new token"))
    #expect(
      bench.take() == [.opened("old token"), .received("old token", "1"), .received("old token", "2")])
  }

  @Test func `a change of the reset key cancels, then opens, with the newest value`() {
    let bench = Bench()
    bench.reconcile(bench.channel("a", key: "1", value: "x"))
    #expect(bench.take() == [.opened("a1"), .received("a1", "x")])
    bench.reconcile(bench.channel("a", key: "2", value: "y"))
    #expect(bench.take() == [.cancelled("a1"), .opened("a2"), .received("a2", "y")])
    bench.reconcile(bench.channel("a", key: "3", value: "y"))
    #expect(bench.take() == [.cancelled("a2"), .opened("a3"), .received("a3", "y")])
  }

  @Test func `permanent and ephemeral are different lifetimes`() {
    let bench = Bench()
    bench.reconcile(bench.channel("a"))
    #expect(bench.take() == [.opened("a")])
    bench.reconcile(bench.channel("a", key: "1"))
    #expect(bench.take() == [.cancelled("a"), .opened("a1")])
    bench.reconcile(bench.channel("a"))
    #expect(bench.take() == [.cancelled("a1"), .opened("a")])
  }

  @Test func `a value of the state is delivered on open and on each change, and not twice`() {
    let bench = Bench()
    for value in ["online", "online", "away", "away", "online"] { bench.reconcile(bench.channel("a", value: value)) }
    #expect(
      bench.take() == [.opened("a"), .received("a", "online"), .received("a", "away"), .received("a", "online")])
  }

  @Test func `a channel without a value of the state opens without one`() {
    let bench = Bench()
    bench.reconcile(bench.channel("a"))
    #expect(bench.take() == [.opened("a")])
    bench.reconcile(bench.channel("a", value: "x"))
    #expect(bench.take() == [.received("a", "x")])
  }

  @Test func `a channel that takes values of another type is another channel`() {
    let bench = Bench()
    let said = SharedList<String>()
    bench.with { supervisor in
      supervisor.reconcile([
        Channel(id: 1, broadcasting: .onChange("x")) { _ in
          ChannelHandler(receive: { (text: String) in said.append(text) }, cancel: { said.append("cancel") })
        }
      ])
      bench.manual.settle()
      supervisor.reconcile([
        Channel(id: 1, broadcasting: .onChange(7)) { _ in
          ChannelHandler(receive: { (number: Int) in said.append("\(number)") }, cancel: {})
        }
      ])
      bench.manual.settle()
    }
    #expect(said.take() == ["x", "cancel", "7"])
  }

  @Test func `what a body or a handler asks for comes after it`() {
    let bench = Bench()
    bench.reconcile(
      bench.channel("a") { bench, context in
        bench.reconcile(bench.channel("a"), bench.channel("b"))
        #expect(bench.broadcast("hello", to: "a") == .delivered)
        context("from the body")
        bench.say(.action("the body ends"))
      })
    #expect(
      bench.take() == [
        .opened("a"), .action("the body ends"), .opened("b"), .broadcast("a", "hello"), .action("from the body"),
      ])
  }

  @Test func `nothing happens inside the call that causes it`() {
    let bench = Bench()
    bench.with { supervisor in
      supervisor.reconcile([
        Channel(id: 1) { context in
          bench.say(.opened("1"))
          return ChannelHandler(receive: { (_: String) in }, cancel: { bench.say(.cancelled("1")) })
        }
      ])
      bench.say(.action("reconcile returned"))
      bench.manual.settle()
      supervisor.cancelAll()
      bench.say(.action("cancelAll returned"))
    }
    #expect(
      bench.take() == [.action("reconcile returned"), .opened("1"), .action("cancelAll returned"), .cancelled("1")])
  }

  @Test func `an instance dispatches nothing after it was given up`() {
    let bench = Bench()
    bench.reconcile(bench.channel("a", key: "1"))
    #expect(bench.take() == [.opened("a1")])
    let old = bench.context("a1")
    old("before")
    #expect(bench.take() == [.action("before")])
    // It waits for the queue when its instance is given up.
    old("too late")
    bench.reconcile(bench.channel("a", key: "2"))
    old("later still")
    #expect(bench.take() == [.cancelled("a1"), .opened("a2")])
    bench.context("a2")("new")
    #expect(bench.take() == [.action("new")])
  }

  @Test func `an action that cancels its channel is the last of those that wait`() {
    let bench = Bench(onAction: { bench, action in if action == "stop" { bench.cancel("a") } })
    bench.reconcile(bench.channel("a"))
    _ = bench.take()
    let context = bench.context("a")
    for action in ["1", "stop", "2", "3"] { context(action) }
    #expect(bench.take() == [.action("1"), .action("stop"), .cancelled("a")])
  }

  @Test func `an action's end is told, but not of one that was not dispatched`() {
    let bench = Bench()
    bench.reconcile(bench.channel("a"))
    _ = bench.take()
    let context = bench.context("a")
    context.dispatch("1", then: { bench.say(.action("after 1")) })
    #expect(bench.take() == [.action("1"), .action("after 1")])
    context.dispatch("2", then: { bench.say(.action("after 2")) })
    bench.cancel("a")
    #expect(bench.take() == [.cancelled("a")])
  }

  @Test func `an instance that was given up before it opened is not opened`() {
    let bench = Bench()
    bench.reconcile(bench.channel("a", value: "x"))
    bench.reconcile()
    #expect(bench.take() == [])
  }

  @Test func `the release cancels each instance once`() {
    let bench = Bench()
    bench.reconcile(bench.channel("a"), bench.channel("b"), bench.channel("c"))
    _ = bench.take()
    bench.cancel("b")
    bench.release()
    #expect(bench.take() == [.cancelled("b"), .cancelled("a"), .cancelled("c")])
    bench.context("a")("nobody hears")
    #expect(bench.take() == [])
    #expect(!bench.manual.hasTimers)
  }
}
