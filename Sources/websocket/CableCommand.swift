import ActionCable
import Foundation
import WebSocketHandling
import WebSocketTransport

/// `websocket cable URL`: one subscription to an Action Cable channel.
final class CableCommand: Sendable {
  static let usage = """
    usage: websocket cable [options] URL --channel NAME
      --channel NAME        the channel's class, such as ChatChannel
      --param NAME=VALUE    a parameter; JSON where the value is that, else text; may come more than once
      --perform ACTION      an action to call once the subscription is confirmed
      --data JSON           its data, an object
      --header 'K: V'       a further header field; may come more than once
      --origin ORIGIN       the Origin header; default: the URL's own
      --subprotocol NAME    a further subprotocol to offer; may come more than once
      --stale-after S       seconds of silence after which the connection counts as dead; default: 6
      --ca FILE             the authorities to trust, in PEM, instead of the system's
      --insecure            accept any certificate
      --count N             end after N messages
      --json                one JSON object per event on standard output
    """

  private struct State: Sendable {
    var received = 0
    var isEnding = false
    var hasPerformed = false
    var subscription: Subscription?
  }

  private let client: ActionCableClient
  private let identifier: ChannelIdentifier
  private let action: String?
  private let data: JSONValue
  private let isJSON: Bool
  private let count: Int?
  private let state = Lock(State())

  init(_ arguments: some Sequence<String>) throws(UsageError) {
    let options = try CommandLineOptions(
      arguments, flags: ["--json", "--insecure"],
      valued: [
        "--channel", "--param", "--perform", "--data", "--header", "--origin", "--subprotocol", "--stale-after",
        "--ca", "--count",
      ])
    let text = try options.operand("URL")
    guard let url = URL(string: text) else { throw UsageError(message: "\(text) is not a URL") }
    guard let channel = options.string("--channel") else { throw UsageError(message: "--channel is needed") }
    do throws(InvalidIdentifier) {
      identifier = try ChannelIdentifier(channel, try Self.parameters(options.all("--param")))
    } catch {
      throw UsageError(message: "--param: \(error)")
    }
    action = options.string("--perform")
    data = try Self.data(options.string("--data"))
    isJSON = options.has("--json")
    count = try options.integer("--count", in: 1...Int.max)
    var headers = HTTPFields()
    for header in options.all("--header") {
      guard let colon = header.firstIndex(of: ":") else {
        throw UsageError(message: "--header takes 'Name: value'")
      }
      headers.append(
        String(header[..<colon]), header[header.index(after: colon)...].trimmingCharacters(in: .whitespaces))
    }
    var configuration = CableConfiguration()
    configuration.origin = options.string("--origin")
    configuration.subprotocols = options.all("--subprotocol")
    var handler = HandlerConfiguration()
    handler.tls = try options.tls()
    client = ActionCableClient(
      url: url, headers: headers, staleAfter: try options.seconds("--stale-after") ?? .seconds(6),
      configuration: configuration,
      handler: DefaultWebSocketHandler(logger: SilentLogger(), configuration: handler), logger: SilentLogger())
  }

  /// What is JSON is taken as JSON, anything else as a string.
  private static func parameters(_ texts: [String]) throws(InvalidIdentifier) -> [String: JSONValue] {
    var parameters: [String: JSONValue] = [:]
    for text in texts {
      let parts = text.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
      let value = parts.count > 1 ? parts[1] : ""
      parameters[parts[0]] = (try? JSONValue(parsing: value)) ?? .string(value)
    }
    return parameters
  }

  private static func data(_ text: String?) throws(UsageError) -> JSONValue {
    guard let text else { return [:] }
    guard let value = try? JSONValue(parsing: text), case .object = value else {
      throw UsageError(message: "--data takes a JSON object")
    }
    return value
  }

  func run() {
    Terminal.onTermination { [self] in end(status: 0) }
    let subscription = client.subscribe(to: identifier) { [self] in heard($0) }
    state.withLock { $0.subscription = subscription }
    client.connect()
  }

  private func heard(_ event: SubscriptionEvent) {
    guard !state.withLock({ $0.isEnding }) else { return }
    switch event {
    case .confirmed:
      report(.confirmed, "confirmed")
      perform()
    case .message(let message): show(message)
    case .gap: report(.gap, "messages may be missing")
    case .disconnected(let cause, let willReconnect):
      report(.disconnected(cause, willReconnect: willReconnect), "disconnected: \(cause)")
      if !willReconnect { end(status: 1) }
    case .ended(let end):
      report(end == .rejected ? .rejected : .unanswered, end == .rejected ? "rejected" : "the server does not answer")
      self.end(status: 1)
    }
  }

  private func show(_ message: CableMessage) {
    let number = state.withLock { state in
      state.received += 1
      return state.received
    }
    Terminal.print(isJSON ? JSONEvent.message(message).line : message.bodyText)
    if number == count { end(status: 0) }
  }

  private func perform() {
    let subscription = state.withLock { state in
      defer { state.hasPerformed = true }
      return state.hasPerformed ? nil : state.subscription
    }
    guard let action, let subscription else { return }
    subscription.perform(action, data) { outcome in
      if outcome != .written { Terminal.complain("not performed: \(outcome)") }
    }
  }

  private func report(_ event: JSONEvent, _ text: String) {
    if isJSON { Terminal.print(event.line) } else { Terminal.complain(text) }
  }

  /// Closes the connection and ends the process, once.
  private func end(status: Int32) {
    let isFirst = state.withLock { state in
      defer { state.isEnding = true }
      return !state.isEnding
    }
    if isFirst { client.shutdown { exit(status) } }
  }
}

extension JSONEvent {
  fileprivate static let confirmed = JSONEvent("confirmed", [])
  fileprivate static let rejected = JSONEvent("rejected", [])
  fileprivate static let unanswered = JSONEvent("timedOut", [])
  fileprivate static let gap = JSONEvent("gap", [])

  fileprivate static func message(_ message: CableMessage) -> JSONEvent {
    // On one line: line breaks stand between values only, since in strings they are escaped.
    let line = message.bodyText.unicodeScalars.filter { $0 != "\n" && $0 != "\r" }
    return JSONEvent("message", [("message", .json(String(String.UnicodeScalarView(line))))])
  }

  fileprivate static func disconnected(_ cause: DisconnectCause, willReconnect: Bool) -> JSONEvent {
    let reason: JSONEvent.Value
    switch cause {
    case .requested: reason = .string("requested")
    case .server(let word): reason = .optional(word?.word)
    case .stale: reason = .string("stale")
    case .noWelcome: reason = .string("noWelcome")
    case .unsupportedSubprotocol: reason = .string("unsupportedSubprotocol")
    case .lost: reason = .string("lost")
    case .gaveUp: reason = .string("gaveUp")
    }
    return JSONEvent("disconnected", [("reason", reason), ("willReconnect", .bool(willReconnect))])
  }
}
