import Foundation
import StockQuotes
import WebSocketHandling
import WebSocketServing

/// A server that a command runs until a signal stops it.
protocol StoppableServer: Sendable {
  var url: URL { get }
  var clientCount: Int { get }
  func shutDown()
}

extension WebSocketServer: StoppableServer {
  var clientCount: Int { connections.count }
}

extension QuoteServer: StoppableServer {}

extension Terminal {
  /// Prints the server's URL as the first line; SIGINT or SIGTERM closes its connections and ends the process.
  ///
  /// - Parameter start: makes the server; where it fails the process ends with 1.
  static func serve(_ start: () throws(EngineError.WebSocketError) -> any StoppableServer) {
    do throws(EngineError.WebSocketError) {
      let server = try start()
      onTermination {
        server.shutDown()
        exitOnce(isDone: { server.clientCount == 0 })
      }
      print("\(server.url)")
    } catch {
      complain("\(error)")
      exit(1)
    }
  }
}
