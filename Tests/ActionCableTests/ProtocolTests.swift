import ActionCable
import Testing

@Suite("Channel identifiers")
struct ChannelIdentifierTests {
  @Test func `keys are sorted by Unicode scalar at every depth, and nothing else varies`() throws {
    let identifier = try ChannelIdentifier(
      "C/D",
      [
        "a10": 1, "a2": 2, "B": 3, "b": 4, "é": nil, "z": true, "\u{FFFD}": 1, "\u{10000}": 2,
        "o": ["y": [1.5, 1.0, -0.0], "x": "\u{1}\n\"\\"],
      ])
    #expect(
      identifier.text
        == #"{"B":3,"a10":1,"a2":2,"b":4,"channel":"C/D","o":{"x":"\u0001\u000a\"\\","y":[1.5,1,0]},"z":true,"é":null,"#
        + "\"\u{FFFD}\":1,\"\u{10000}\":2}")
  }

  @Test func `two orders are one identifier, and so are 1 and 1.0`() throws {
    let first = try ChannelIdentifier("C", ["a": 1, "b": 2])
    let second = try ChannelIdentifier("C", ["b": 2.0, "a": 1])
    #expect(first == second)
    #expect(Set([first, second]).count == 1)
  }

  @Test func `identifiers differ where their bytes do`() throws {
    #expect(try ChannelIdentifier("\u{E9}") != ChannelIdentifier("e\u{301}"))
  }

  @Test func `a parameter named channel and numbers that JSON has not are refused`() {
    #expect(throws: InvalidIdentifier.channelIsReserved) { try ChannelIdentifier("C", ["channel": "D"]) }
    for number in [Double.nan, .infinity] {
      #expect(throws: InvalidIdentifier.numberIsNotFinite) { try ChannelIdentifier("C", ["a": [.number(number)]]) }
    }
  }
}

@Suite("Frames of the server")
struct ServerMessageTests {
  @Test(
    "frames are read whatever the order of their keys",
    arguments: [
      (#"{"type":"welcome","sid":"rcl245"}"#, .welcome),
      (#"  {"message":1681828329, "type" : "ping"} "#, .ping),
      (#"{"type":"confirm_subscription","identifier":"a\u0026b"}"#, .confirmSubscription(identifier: "a&b")),
      (#"{"identifier":"x","type":"reject_subscription"}"#, .rejectSubscription(identifier: "x")),
      (#"{"type":"disconnect","reason":"remote","reconnect":true}"#, .disconnect(.remote, reconnect: true)),
      (#"{"type":"disconnect"}"#, .disconnect(nil, reconnect: nil)),
      (#"{"identifier":"\ud83d\ude00","message":{"a":[]}}"#, .message(identifier: "😀", type: nil, body: 39..<47)),
      (#"{"type":"confirm_subscription"}"#, .unknown(type: "confirm_subscription")),
      (#"{"identifier":{"channel":"C"},"message":1}"#, .unknown(type: nil)),
      (#"{"identifier":"x"}"#, .unknown(type: nil)),
      (#"{"type":7}"#, .unknown(type: nil)),
      (#"{"type":"ping","type":"welcome"}"#, .welcome),
    ] as [(String, ServerMessage)])
  func read(text: String, message: ServerMessage) throws {
    #expect(try ServerMessage(parsing: text) == message)
  }

  @Test(
    "text that is no JSON object is a documented error",
    arguments: [
      ("", .malformed(offset: 0)), ("{", .malformed(offset: 1)), ("[1]", .notAnObject), ("null", .notAnObject),
      (#"{"a":01}"#, .malformed(offset: 6)), (#"{"a":1,}"#, .malformed(offset: 7)), ("{} x", .malformed(offset: 3)),
      (#"{"a":"\x"}"#, .malformed(offset: 7)), ("{\"a\":\"\n\"}", .malformed(offset: 6)),
      (#"{"a":1."#, .malformed(offset: 7)), (#"{"a":tru}"#, .malformed(offset: 8)),
      (#"{"a":"#, .malformed(offset: 5)), (#"{"a""#, .malformed(offset: 4)),
    ] as [(String, FrameFault)])
  func faults(text: String, fault: FrameFault) {
    #expect(throws: fault) { try ServerMessage(parsing: text) }
  }

  @Test func `nesting is limited`() throws {
    func nested(_ depth: Int) -> String {
      "{\"message\":" + String(repeating: "[", count: depth) + String(repeating: "]", count: depth) + "}"
    }
    #expect(try ServerMessage(parsing: nested(255)) == .unknown(type: nil))
    #expect(throws: FrameFault.tooDeep) { try ServerMessage(parsing: nested(256)) }
    #expect(throws: FrameFault.tooDeep) { try ServerMessage(parsing: nested(1_000_000)) }
  }

  @Test func `values are read as they are written`() throws {
    let text = #"{"a":[1,-2.5,1e3,"x\u00e9\ud800",true,false,null],"b":{}}"#
    #expect(
      try JSONValue(parsing: text)
        == ["a": [1, -2.5, 1000.0, "xé\u{FFFD}", true, false, nil], "b": [:]])
    #expect(throws: FrameFault.malformed(offset: 0)) { try JSONValue(parsing: "1e999") }
  }
}
