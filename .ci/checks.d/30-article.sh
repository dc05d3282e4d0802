# The listing of the article that the protocol comes from compiles unchanged in Swift 5 mode after one import line, runs
# against the loopback server, and given the reconnecting session goes on through ten losses of it. ARTICLE_LISTING names the text; it may also lie beside the checkout.
set -euo pipefail
article=${ARTICLE_LISTING:-}
[[ -n $article ]] || article=$(find ../shared/seeds -name '002_*.txt' 2>/dev/null | head -n 1)
[[ -f $article ]] || { echo "the article's text is not here: skipped"; exit 0; }
root=$PWD
work=$(mktemp -d)
trap 'kill ${server:-} 2>/dev/null || true; rm -rf "$work"' EXIT
listing=$(awk '/^import Foundation$/ { on = 1 } /^In this example, we/ { on = 0 } on' "$article")
mkdir -p "$work"/Sources/{Compiles,Runs,Reconnects,FourMethods,Modern}
cat >"$work/Package.swift" <<PACKAGE
// swift-tools-version: 6.2
import PackageDescription
let handling = Target.Dependency.product(name: "WebSocketHandling", package: "$(basename "$root")")
let package = Package(
  name: "article", dependencies: [.package(path: "$root")],
  targets: [
    .executableTarget(name: "Compiles", dependencies: [handling], swiftSettings: [.swiftLanguageMode(.v5)]),
    .executableTarget(name: "Runs", dependencies: [handling], swiftSettings: [.swiftLanguageMode(.v5)]),
    .executableTarget(
      name: "Reconnects",
      dependencies: [handling, .product(name: "WebSocketTesting", package: "$(basename "$root")")],
      swiftSettings: [.swiftLanguageMode(.v5)]),
    .target(name: "FourMethods", dependencies: [handling], swiftSettings: [.swiftLanguageMode(.v5)]),
    .target(
      name: "Modern", dependencies: [handling],
      swiftSettings: [.swiftLanguageMode(.v6), .treatAllWarnings(as: .error)]),
  ])
PACKAGE
printf 'import WebSocketHandling\n%s\n' "$listing" >"$work/Sources/Compiles/main.swift"
cat >"$work/Sources/FourMethods/Mock.swift" <<'SWIFT'
import WebSocketHandling

public class Mock: WebSocketHandler {
  public func connect(
    request: NetworkRequest, completion: @escaping (Result<Void, EngineError.WebSocketError>) -> Void
  ) { completion(.success(())) }
  public func disconnect(completion: @escaping (Result<Void, EngineError.WebSocketError>) -> Void) {
    completion(.success(()))
  }
  public func send<T>(message: T, completion: @escaping (Result<Void, EngineError.WebSocketError>) -> Void)
  where T: Encodable { completion(.success(())) }
  public func receive<T>(completion: @escaping (Result<T, EngineError.WebSocketError>) -> Void) where T: Decodable {
    completion(.failure(.messageReceiveFailed("nothing")))
  }
}
SWIFT
cat >"$work/Sources/Modern/Modern.swift" <<'SWIFT'
import WebSocketHandling

final class Service: Sendable {
  let handler: any WebSocketHandler
  init(handler: any WebSocketHandler) { self.handler = handler }
  func start(_ request: NetworkRequest) {
    handler.connect(request: request) { [self] result in
      if case .success = result { handler.receive { (_: Result<String, EngineError.WebSocketError>) in } }
    }
  }
}

actor Keeper {
  let handler: any WebSocketHandler
  init(handler: any WebSocketHandler) { self.handler = handler }
  func send(_ text: String) { handler.send(message: WebSocketMessage.text(text)) { _ in } }
}
SWIFT
.build/debug/websocket serve >"$work/url" & server=$!
for _ in $(seq 1200); do [[ -s $work/url ]] && break; sleep 0.05; done
url=$(head -n 1 "$work/url")
{
  echo 'import WebSocketHandling'
  awk '{ print } /^chatViewModel.sendMessage/ { exit }' <<<"$listing" | sed "s|wss://example.com/chat|$url|"
  echo 'RunLoop.main.run(until: Date(timeIntervalSinceNow: 2))'
} >"$work/Sources/Runs/main.swift"
{
  cat <<'SWIFT'
import WebSocketHandling
import WebSocketTesting

let server = try LoopbackServer()
let received = DispatchSemaphore(value: 0)
let connected = DispatchSemaphore(value: 0)
SWIFT
  awk '/^\/\/ Usage example/ { exit } { print }' <<<"$listing" | sed 's|URL(string: "wss://example.com/chat")!|server.url|'
  cat <<'SWIFT'
let session = ReconnectingSession(
  DefaultWebSocketHandler(), policy: ReconnectPolicy(backoff: Backoff(first: .zero, base: .zero, maximum: .zero))
) { if case .stateChanged(.connected) = $0 { connected.signal() } }

/// The session, with a word when the listing has printed what it received.
final class Told: WebSocketHandler {
  func connect(
    request: NetworkRequest, completion: @escaping (Result<Void, EngineError.WebSocketError>) -> Void
  ) { session.connect(request: request, completion: completion) }
  func disconnect(completion: @escaping (Result<Void, EngineError.WebSocketError>) -> Void) {
    session.disconnect(completion: completion)
  }
  func send<T>(message: T, completion: @escaping (Result<Void, EngineError.WebSocketError>) -> Void)
  where T: Encodable { session.send(message: message, completion: completion) }
  func receive<T>(completion: @escaping (Result<T, EngineError.WebSocketError>) -> Void) where T: Decodable {
    session.receive { (result: Result<T, EngineError.WebSocketError>) in
      completion(result)
      if case .success = result { received.signal() }
    }
  }
}
let chatViewModel = ChatViewModel(webSocketHandler: Told())
chatViewModel.connectToChat()
for loss in 0...10 {
  connected.wait()
  chatViewModel.sendMessage("after \(loss) losses")
  received.wait()
  if loss < 10 { server.dropAll() }
}
chatViewModel.disconnect()
session.stop { _ in exit(0) }
RunLoop.main.run()
SWIFT
} >"$work/Sources/Reconnects/main.swift"
swift build --package-path "$work" --scratch-path "$root/.build-article"
said=$("$root/.build-article/debug/Runs" 2>/dev/null | sort)
printf '%s\n' "$said"
[[ $said == "$(printf '%s\n' 'Connected to chat successfully' 'Message sent successfully' \
  'Received message: User: Hello, everyone!' | sort)" ]]

said=$(timeout 300 "$root/.build-article/debug/Reconnects" 2>/dev/null)
printf '%s\n' "$said"
[[ $(grep '^Received' <<<"$said") == "$(printf 'Received message: User: after %s losses\n' {0..10})" ]]
if grep '^Failed' <<<"$said"; then exit 1; fi
grep -qx 'Disconnected from chat successfully' <<<"$said"
