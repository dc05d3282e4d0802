import Dispatch
import StoreBridge
import Testing
import WebSocketTesting
import WebSocketTransport
import TestSupport

@Suite("From messages to actions")
struct BridgeTests {
  @Test func `without batching each value is dispatched by itself, in order, and nil is skipped`() {
    let bench = Bench()
    bench.run(.immediate)
    bench.source.send("1", "-", "2")
    bench.source.send("3")
    #expect(bench.take() == [["1"], ["2"], ["3"]])
  }

  @Test func `a window dispatches once what came in it, and reads the state once, at its end`() {
    let bench = Bench()
    bench.run(.window(.seconds(1)))
    bench.setState(" old")
    bench.source.send("1")
    #expect(bench.take(after: .milliseconds(900)) == [])
    bench.source.send("2", "3")
    bench.setState(" new")
    #expect(bench.stateReads == 0)
    #expect(bench.take(after: .milliseconds(100)) == [["1 new", "2 new", "3 new"]])
    #expect(bench.stateReads == 1)
    // The next window begins with the next value.
    #expect(bench.take(after: .seconds(10)) == [])
    bench.source.send("4")
    #expect(bench.take(after: .milliseconds(999)) == [])
    #expect(bench.take(after: .milliseconds(1)) == [["4 new"]])
    #expect(!bench.manual.hasTimers)
  }

  @Test func `a batch that is full goes at once`() {
    let bench = Bench()
    bench.run(.window(.seconds(1), max: 2))
    bench.source.send("1", "2", "3", "4", "5")
    #expect(bench.take() == [["1", "2"], ["3", "4"]])
    #expect(bench.take(after: .seconds(1)) == [["5"]])
  }

  @Test func `debounce waits for quiet, but not for ever, and drops nothing`() {
    let bench = Bench()
    bench.run(.debounce(.milliseconds(100), maxWait: .milliseconds(250)))
    bench.source.send("1")
    #expect(bench.take(after: .milliseconds(90)) == [])
    bench.source.send("2")
    #expect(bench.take(after: .milliseconds(99)) == [])
    #expect(bench.take(after: .milliseconds(1)) == [["1", "2"]])
    for number in 3...5 {
      bench.source.send("\(number)")
      #expect(bench.take(after: .milliseconds(80)) == [])
    }
    #expect(bench.take(after: .milliseconds(10)) == [["3", "4", "5"]])
    #expect(bench.take(after: .seconds(1)) == [])
  }

  @Test func `a message that cannot be read becomes its signal's actions, in its place, and the stream goes on`() {
    let bench = Bench()
    bench.run(.window(.seconds(1)))
    bench.source.send("1", "x", "2")
    #expect(bench.take(after: .seconds(1)) == [["1", "undecodable x: Unreadable()", "2"]])
  }

  @Test func `signals become actions, after those of the messages before them`() {
    let bench = Bench()
    bench.run(.window(.seconds(1)))
    bench.source.signal(.connected(reconnected: false))
    bench.source.send("1", "2")
    bench.source.signal(.disconnected(Unreadable(), willReconnect: true))
    bench.source.signal(.connected(reconnected: true))
    bench.source.signal(.mayHaveMissed)
    bench.source.send("3")
    #expect(
      bench.take() == [["connected"], ["1", "2"], ["disconnected, true"], ["reconnected"], ["missed"]])
    #expect(bench.take(after: .seconds(1)) == [["3"]])
    bench.source.send("4")
    bench.source.signal(.rejected)
    bench.source.signal(.ended(Unreadable()))
    #expect(bench.take() == [["4"], ["rejected"], ["ended: Unreadable()"]])
    #expect(!bench.manual.hasTimers)
    bench.source.send("5")
    bench.source.signal(.ended(nil))
    #expect(bench.take(after: .seconds(10)) == [])
  }

  @Test func `after a cancel nothing is dispatched, and what waits is discarded`() {
    let bench = Bench()
    bench.run(.window(.seconds(1)))
    bench.source.send("1")
    #expect(bench.take(after: .milliseconds(500)) == [])
    // This one waits for the queue.
    bench.source.send("2")
    #expect(bench.runner.cancel(by: "id"))
    bench.source.send("3")
    bench.source.signal(.ended(nil))
    #expect(bench.take(after: .seconds(10)) == [])
    #expect(bench.source.cancels == 1)
    #expect(!bench.manual.hasTimers)
    #expect(!bench.runner.cancel(by: "id"))
  }

  @Test func `a cancel from the store's own dispatch is the end`() {
    let bench = Bench()
    bench.runner.run(
      bench.effect(.immediate, onDispatch: { [runner = bench.runner] _ in runner.cancel(by: "id") }),
      cancellation: "id")
    bench.manual.settle()
    bench.source.send("1", "2", "3")
    #expect(bench.take() == [["1"]])
  }

  @Test func `the builder runs when the effect starts, once, and not where it was cancelled before`() {
    let bench = Bench()
    let builds = SharedList<Int>()
    let effect = bench.effect(
      .immediate,
      builder: { [source = bench.source] in
        builds.append(1)
        return source
      })
    bench.runner.run(effect, cancellation: "cancelled")
    bench.runner.cancel(by: "cancelled")
    bench.manual.settle()
    #expect(builds.all == [])
    bench.runner.run(effect, cancellation: "id")
    #expect(builds.all == [])
    bench.manual.settle()
    #expect(builds.all == [1])
    #expect(bench.source.isStarted)
  }

  @Test func `a builder without a channel is a signal, and the id is free`() {
    let bench = Bench()
    bench.runner.run(bench.effect(.window(.seconds(1)), builder: { nil }), cancellation: "nil")
    bench.runner.run(bench.effect(.window(.seconds(1)), builder: { throw Unreadable() }), cancellation: "throws")
    #expect(bench.take() == [["no channel: nil"], ["no channel: Unreadable()"]])
    #expect(!bench.runner.isRunning("nil") && !bench.runner.isRunning("throws"))
  }

  @Test func `an id that runs is not run again, one that ended is`() {
    let bench = Bench()
    #expect(bench.runner.run(bench.effect(.immediate), cancellation: "id"))
    #expect(!bench.runner.run(bench.effect(.immediate, builder: { nil }), cancellation: "id"))
    #expect(bench.runner.run(bench.effect(.immediate, builder: { nil }), cancellation: "other"))
    #expect(bench.take() == [["no channel: nil"]])
    bench.source.signal(.ended(nil))
    #expect(bench.take() == [["ended: nil"]])
    #expect(bench.runner.run(bench.effect(.immediate), cancellation: "id"))
  }

  @Test func `the actions of an end may run the effect again`() {
    let bench = Bench()
    let again = bench.effect(.immediate, builder: { nil })
    bench.runner.run(
      bench.effect(
        .immediate,
        onDispatch: { [runner = bench.runner] actions in
          if actions == ["ended: nil"] { #expect(runner.run(again, cancellation: "id")) }
        }), cancellation: "id")
    bench.manual.settle()
    bench.source.signal(.ended(nil))
    #expect(bench.take() == [["ended: nil"], ["no channel: nil"]])
  }

  @Test func `what an effect holds may call the runner as it goes`() {
    final class Caller: Sendable {
      let runner: EffectRunner<String>
      let answers: SharedList<Bool>

      init(_ runner: EffectRunner<String>, _ answers: SharedList<Bool>) {
        (self.runner, self.answers) = (runner, answers)
      }

      deinit { answers.append(runner.isRunning("id")) }
    }
    struct Held: StoreEffect {
      let runner: EffectRunner<String>
      let answers: SharedList<Bool>
      let ends: SharedList<@Sendable () -> Void>

      func start(onEnd: @escaping @Sendable () -> Void) -> @Sendable () -> Void {
        ends.append(onEnd)
        let caller = Caller(runner, answers)
        return { _ = caller }
      }
    }
    let runner = EffectRunner<String>()
    let answers = SharedList<Bool>()
    let ends = SharedList<@Sendable () -> Void>()
    let effect = Held(runner: runner, answers: answers, ends: ends)
    runner.run(effect, cancellation: "id")
    for end in ends.take() { end() }
    runner.run(effect, cancellation: "id")
    runner.cancel(by: "id")
    runner.run(effect, cancellation: "id")
    runner.cancelAll()
    #expect(answers.take() == [false, false, false])
  }

  @Test func `cancelAll cancels every effect, and so does the release of the runner`() {
    let bench = Bench()
    let sources = [TestSource(), TestSource(), TestSource()]
    for (index, source) in sources.enumerated() {
      bench.runner.run(bench.effect(.immediate, builder: { source }), cancellation: "\(index)")
    }
    bench.manual.settle()
    bench.runner.cancelAll()
    #expect(sources.map(\.cancels) == [1, 1, 1])
    #expect(bench.runner.run(bench.effect(.immediate), cancellation: "0"))
    bench.manual.settle()

    let last = TestSource()
    do {
      let runner = EffectRunner<Int>()
      runner.run(bench.effect(.immediate, builder: { last }), cancellation: 1)
      bench.manual.settle()
    }
    #expect(last.cancels == 1)
  }

  @Test(arguments: [true, false])
  func `an end releases the source and what the effect holds, though the source keeps what it was given`(
    isCancelled: Bool
  ) {
    let bench = Bench()
    let (source, held) = (Weak<TestSource>(), Weak<SharedList<Int>>())
    do {
      let builds = SharedList<Int>()
      held.object = builds
      let effect = bench.effect(
        .immediate,
        builder: {
          builds.append(1)
          let new = TestSource()
          source.object = new
          return new
        })
      bench.runner.run(effect, cancellation: "id")
    }
    bench.manual.settle()
    source.object?.send("1")
    #expect(bench.take() == [["1"]])
    #expect(held.object?.all == [1])
    if isCancelled { bench.runner.cancel(by: "id") } else { source.object?.signal(.ended(nil)) }
    #expect(bench.take() == (isCancelled ? [] : [["ended: nil"]]))
    #expect(source.object == nil)
    #expect(held.object == nil)
  }

  @Test func `a source is asked for no more than the store has room for`() {
    let bench = Bench()
    bench.run(.window(.seconds(1)))
    for _ in 0..<300 { bench.source.send("1") }
    // The queue had no turn yet.
    #expect(bench.source.asked == 255)
    #expect(bench.take(after: .seconds(1)).map(\.count) == [300])
  }

  @Test func `a source is asked for no more than the limit's bytes, and a batch that reaches the limit goes at once`() {
    let bench = Bench()
    bench.run(.window(.seconds(1)), waitingLimit: 8)
    for _ in 0..<3 { bench.source.send("123") }
    // The queue had no turn yet: six bytes leave room for one more, nine do not.
    #expect(bench.source.asked == 2)
    #expect(bench.take() == [["123", "123", "123"]])
    #expect(bench.source.asked == 3)
    // Neither one that is larger than the limit nor those that are skipped stop the source.
    bench.source.send("12345678901")
    #expect(bench.source.asked == 3)
    #expect(bench.take() == [["12345678901"]])
    for asked in 4..<24 {
      #expect(bench.source.asked == asked)
      bench.source.send("-")
      #expect(bench.take() == [])
    }
    bench.source.send("1")
    #expect(bench.take(after: .seconds(1)) == [["1"]])
  }

  @Test func `while the store is busy the limit's bytes wait, and then all arrive in order`() {
    let bench = Bench()
    let (count, length, limit) = (100, 64 << 10, 1 << 20)
    let given = Lock(0)
    let most = Lock(0)
    let give: @Sendable () -> Void = { [source = bench.source] in
      while source.asked >= given.withLock({ $0 }), given.withLock({ $0 }) < count {
        let number = given.withLock { given in
          defer { given += 1 }
          return given
        }
        let digits = "\(number)"
        source.send(String(repeating: "0", count: length - digits.count) + digits)
      }
    }
    let taken = Lock(0)
    let effect = bench.effect(
      .window(.seconds(1)), waitingLimit: limit,
      onDispatch: { actions in
        give()
        most.withLock { $0 = max($0, given.withLock { $0 } - taken.withLock { $0 }) }
        taken.withLock { $0 += actions.count }
      })
    bench.runner.run(effect, cancellation: "id")
    bench.manual.settle()
    var heard: [String] = []
    while heard.count < count {
      give()
      heard += bench.take(after: .seconds(1)).joined()
    }
    #expect(heard == (0..<count).map(String.init))
    #expect(most.withLock { $0 } * length == limit)
  }

  @Test func `mappings, signals and dispatch run on the caller's queue, one after the other`() async {
    let queue = DispatchQueue(label: "store", attributes: .concurrent)
    let source = TestSource()
    let inside = Lock(0)
    let ended = AsyncStream.makeStream(of: Int.self)
    let store = StorePort<String, String>(
      withState: { $0("") },
      dispatch: { actions in
        dispatchPrecondition(condition: .onQueue(queue))
        #expect(
          inside.withLock { inside in
            inside += 1
            return inside
          } == 1)
        inside.withLock { $0 -= 1 }
        ended.continuation.yield(actions.count)
      })
    let effect = SocketChannelEffect(
      store: store, queue: queue,
      channelBuilder: {
        dispatchPrecondition(condition: .onQueue(queue))
        return source
      }, outputMapper: NumberMapper(), actionMapper: SayingMapper(), batching: .immediate,
      signal: {
        dispatchPrecondition(condition: .onQueue(queue))
        return [$0.name]
      })
    let runner = EffectRunner<Int>()
    runner.run(effect, cancellation: 1)
    while !source.isStarted { await Task.yield() }
    for number in 0..<100 { source.send("\(number)") }
    source.signal(.ended(nil))
    var iterator = ended.stream.makeAsyncIterator()
    for _ in 0...100 { _ = await iterator.next() }
    #expect(!runner.isRunning(1))
  }
}
