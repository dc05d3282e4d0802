import Foundation
import WebSocketHandling

/// An event of a connection as one line of JSON, its keys in a fixed order.
struct JSONEvent {
  /// A value of an event.
  enum Value {
    case null
    case bool(Bool)
    case int(Int)
    case string(String)
    case array([Value])
    /// JSON text.
    case json(String)

    static func optional(_ text: String?) -> Value { text.map(Value.string) ?? .null }

    static func fields(_ fields: HTTPFields) -> Value {
      .array(fields.map { .array([.string($0.name), .string($0.value)]) })
    }

    var json: String {
      switch self {
      case .null: "null"
      case .bool(let value): value ? "true" : "false"
      case .int(let value): String(value)
      case .string(let text): Self.quoted(text)
      case .json(let text): text
      case .array(let values): "[" + values.map(\.json).joined(separator: ",") + "]"
      }
    }

    /// A JSON string (RFC 8259 §7).
    private static func quoted(_ text: String) -> String {
      var result = "\""
      for scalar in text.unicodeScalars {
        switch scalar {
        case "\"": result += "\\\""
        case "\\": result += "\\\\"
        case "\n": result += "\\n"
        case "\r": result += "\\r"
        case "\t": result += "\\t"
        case "\0"..."\u{1F}":
          let digits = String(scalar.value, radix: 16)
          result += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
        default: result.unicodeScalars.append(scalar)
        }
      }
      return result + "\""
    }
  }

  private var fields: [(key: String, value: Value)]

  init(_ event: String, _ fields: [(key: String, value: Value)]) {
    self.fields = [("event", .string(event))] + fields
  }

  var line: String {
    "{" + fields.map { Value.string($0.key).json + ":" + $0.value.json }.joined(separator: ",") + "}"
  }

  static func open(_ answer: HandshakeAnswer) -> JSONEvent {
    let extensions = answer.headers.list("Sec-WebSocket-Extensions").joined(separator: ", ")
    return JSONEvent(
      "open",
      [
        ("status", .int(answer.status)), ("subprotocol", .optional(answer.subprotocol)),
        ("extensions", extensions.isEmpty ? .null : .string(extensions)), ("headers", .fields(answer.headers)),
      ])
  }

  static func message(_ message: WebSocketMessage) -> JSONEvent {
    switch message {
    case .text(let text): JSONEvent("text", [("data", .string(text))])
    case .binary(let data): JSONEvent("binary", [("base64", .string(data.base64EncodedString()))])
    }
  }

  static func control(_ event: ControlFrameEvent) -> JSONEvent {
    switch event {
    case .ping(let payload): return JSONEvent("ping", [("base64", .string(Data(payload).base64EncodedString()))])
    case .pong(let payload, let roundTrip):
      let microseconds = roundTrip.map { Int(($0 / .microseconds(1)).rounded()) }
      return JSONEvent(
        "pong",
        [
          ("base64", .string(Data(payload).base64EncodedString())),
          ("rttMicroseconds", microseconds.map(Value.int) ?? .null),
        ])
    }
  }

  static func close(_ record: CloseRecord) -> JSONEvent {
    JSONEvent(
      "close",
      [
        ("code", .int(Int(record.code.rawValue))), ("reason", .string(record.reason)),
        ("clean", .bool(record.isClean)), ("by", .string(record.initiator == .local ? "local" : "peer")),
      ])
  }

  static func reconnecting(attempt: Int, _ delayMilliseconds: Int) -> JSONEvent {
    JSONEvent("reconnecting", [("attempt", .int(attempt)), ("delayMilliseconds", .int(delayMilliseconds))])
  }

  static func ack(id: Int) -> JSONEvent { JSONEvent("ack", [("id", .int(id))]) }

  static func quote(product: String, price: String) -> JSONEvent {
    JSONEvent("quote", [("product", .string(product)), ("price", .string(price))])
  }

  static func error(_ error: EngineError.WebSocketError) -> JSONEvent {
    var answer: [(key: String, value: Value)] = [("status", .null), ("headers", .null), ("body", .null)]
    if case .handshakeRefused(let refusal) = error {
      answer = [
        ("status", .int(refusal.status)), ("headers", .fields(refusal.headers)),
        ("body", .string(String(decoding: refusal.body, as: UTF8.self))),
      ]
    }
    return JSONEvent("error", [("case", .string(error.caseName)), ("message", .string("\(error)"))] + answer)
  }
}

extension EngineError.WebSocketError {
  /// The name of the case.
  fileprivate var caseName: String {
    switch self {
    case .connectionFailed: "connectionFailed"
    case .messageSendFailed: "messageSendFailed"
    case .messageReceiveFailed: "messageReceiveFailed"
    case .invalidRequest: "invalidRequest"
    case .resolutionFailed: "resolutionFailed"
    case .unreachable: "unreachable"
    case .handshakeRefused: "handshakeRefused"
    case .handshakeFailed: "handshakeFailed"
    case .closed: "closed"
    case .closing: "closing"
    case .timedOut: "timedOut"
    case .cancelled: "cancelled"
    case .tls: "tls"
    case .limitExceeded: "limitExceeded"
    case .undecodable: "undecodable"
    case .unencodable: "unencodable"
    case .proxy: "proxy"
    case .misuse: "misuse"
    case .unsupported: "unsupported"
    }
  }
}
