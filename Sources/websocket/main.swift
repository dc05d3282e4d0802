import Dispatch
import Glibc

let usage = """
  usage: websocket COMMAND ...
    chat [URL]       a chat client that comes back after a lost connection; without a URL, a demonstration of two
    chat serve       a chat room with a page for browsers
    connect URL      sends lines of standard input, shows what comes
    cable URL        subscribes to an Action Cable channel, shows what comes
    serve            an echo server or a broadcast room
    quotes serve     a server of stock quotes with a page for browsers
    quotes watch URL prints the prices of products
    bench URL        measures against an echo server, and beside another client
    autobahn URL     runs the cases of the Autobahn test suite's fuzzing server
  """

func fail(_ error: UsageError, _ usage: String) -> Never {
  Terminal.complain("websocket: \(error.message)\n\(usage)")
  exit(2)
}

signal(SIGPIPE, SIG_IGN)
let arguments = CommandLine.arguments.dropFirst(2)
switch CommandLine.arguments.dropFirst().first {
case "chat":
  do throws(UsageError) { try ChatCommand(arguments).run() } catch { fail(error, ChatCommand.usage) }
case "connect":
  do throws(UsageError) { try ConnectCommand(arguments).run() } catch { fail(error, ConnectCommand.usage) }
case "cable":
  do throws(UsageError) { try CableCommand(arguments).run() } catch { fail(error, CableCommand.usage) }
case "serve":
  do throws(UsageError) { try ServeCommand(arguments).run() } catch { fail(error, ServeCommand.usage) }
case "quotes":
  do throws(UsageError) { try QuotesCommand(arguments).run() } catch { fail(error, QuotesCommand.usage) }
case "bench":
  do throws(UsageError) { try BenchCommand(arguments).run() } catch { fail(error, BenchCommand.usage) }
case "autobahn":
  do throws(UsageError) { try AutobahnCommand(arguments).run() } catch { fail(error, AutobahnCommand.usage) }
case "help", "--help", "-h":
  Terminal.print(usage)
  exit(0)
case nil: fail(UsageError(message: "no command"), usage)
case let command?: fail(UsageError(message: "unknown command \(command)"), usage)
}
// The commands end the process themselves. `dispatchMain` would end this thread, which profilers do not survive.
while true { pause() }
