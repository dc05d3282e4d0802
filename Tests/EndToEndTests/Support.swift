import Foundation
import Glibc
import WebSocketCore
import WebSocketHandling
import WebSocketTesting
import WebSocketTransport
import TestSupport

typealias Failure = EngineError.WebSocketError

func makeHandler(
  logger: any Logger = SilentLogger(), environment: Environment = .system,
  _ change: (inout HandlerConfiguration) -> Void = { _ in }
) -> DefaultWebSocketHandler {
  var configuration = HandlerConfiguration()
  change(&configuration)
  return DefaultWebSocketHandler(logger: logger, configuration: configuration, environment: environment)
}

func request(_ server: ScriptedServer, _ change: (inout NetworkRequest) -> Void = { _ in }) -> NetworkRequest {
  request(server.url, change)
}

/// A request whose time-outs are too long to end a test on a slow machine, unless the change says otherwise.
func request(_ url: URL, _ change: (inout NetworkRequest) -> Void = { _ in }) -> NetworkRequest {
  var request = NetworkRequest(url: url, connectTimeout: .seconds(240), closeTimeout: .seconds(240))
  change(&request)
  return request
}

/// How a script cuts what it sends: the result must be the same each time.
enum Cut: Sendable, Hashable {
  case whole
  /// One byte at a time for the first 4 KiB, then the rest: a frame's head and enough of its payload.
  case singleBytes
  /// At up to six random places.
  case random(seed: UInt64)

  static let all: [Cut] = [.whole, .singleBytes, .random(seed: 1), .random(seed: 2), .random(seed: 3)]

  func pieces(of bytes: [UInt8]) -> [[UInt8]] {
    switch self {
    case .whole: [bytes]
    case .singleBytes: Array(bytes.prefix(4096)).singleBytes + [Array(bytes.dropFirst(4096))]
    case .random(let seed): bytes.pieces(cutWithSeed: seed)
    }
  }
}

extension ScriptedConnection {
  /// Sends the bytes in pieces.
  func send(_ bytes: [UInt8], _ cut: Cut) throws {
    for piece in cut.pieces(of: bytes) { try send(piece) }
  }

  /// Answers frames until the closing handshake is done: data with itself, a ping with its pong, a Close with a Close.
  func echo() throws {
    while true {
      let frame = try readFrame()
      switch frame.opcode {
      case .text, .binary, .continuation: try send(frame.encoded())
      case .ping: try send(Frame(.pong, frame.payload).encoded())
      case .pong: break
      case .close:
        try send(frame.encoded())
        return
      }
    }
  }
}

/// Answers every name with the same addresses.
struct FixedResolver: Resolver {
  let addresses: [SocketAddress]
  /// What was asked for: host, a space, port.
  let questions = SharedList<String>()

  init(_ addresses: [SocketAddress?]) { self.addresses = addresses.compactMap(\.self) }

  /// The system's environment with this resolver.
  var environment: Environment {
    var environment = Environment.system
    environment.resolver = self
    return environment
  }

  func resolve(
    host: String, port: Int, completion: @escaping @Sendable (Result<[SocketAddress], TransportError>) -> Void
  ) {
    questions.append("\(host) \(port)")
    completion(.success(addresses))
  }
}

/// The processor time that the calling thread has used.
func threadTime() -> Duration {
  var time = timespec()
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
  return .seconds(time.tv_sec) + .nanoseconds(time.tv_nsec)
}
