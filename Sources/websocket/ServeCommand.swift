import Dispatch
import Foundation
import WebSocketHandling
import WebSocketServing

/// `websocket serve`: an echo server or a broadcast room.
final class ServeCommand: Sendable {
  static let usage = """
    usage: websocket serve [options]
      --port P   the port of 127.0.0.1 to listen on; without it the system picks one
      --echo     send each message back to its sender only, instead of to everybody
      --cert FILE   serve wss with this certificate (PEM, behind it those that lead to the authority)
      --key FILE    its private key
      --client-ca FILE   demand a certificate from one of these authorities of each client
    """

  private let port: Int
  private let isEcho: Bool
  private let tls: TLSServerConfiguration?

  init(_ arguments: some Sequence<String>) throws(UsageError) {
    let options = try CommandLineOptions(
      arguments, flags: ["--echo"], valued: ["--port", "--cert", "--key", "--client-ca"])
    try options.noOperands()
    port = try options.integer("--port", in: 0...65_535) ?? 0
    isEcho = options.has("--echo")
    var tls = try options.identity().map { TLSServerConfiguration(identity: $0) }
    let clientAuthorities = options.string("--client-ca")
    guard tls != nil || clientAuthorities == nil else {
      throw UsageError(message: "--client-ca needs --cert and --key")
    }
    tls?.clientTrust = clientAuthorities.map { .file($0) }
    self.tls = tls
  }

  func run() {
    let room = Room()
    Terminal.serve { () throws(EngineError.WebSocketError) in
      try WebSocketServer(port: port, tls: tls) { [isEcho] connection in
        if isEcho { WebSocketServer.echo(connection) } else { room.join(connection) }
      }
    }
  }
}
