package import WebSocketCore

/// What a handler has counted since it was made, and what waits in it now.
///
/// Counting is on with ``HandlerConfiguration/countsTraffic``; ``samples`` is the form for a metrics system.
public struct HandlerMetrics: Sendable, Hashable {
  /// Frames of one opcode.
  public struct Frames: Sendable, Hashable {
    /// How many.
    public var count = 0
    /// Their payload bytes.
    public var bytes = 0

    /// None yet.
    public init() {}
  }

  /// The frames of one direction, by opcode (RFC 6455 §11.8).
  public struct Traffic: Sendable, Hashable {
    /// Text messages: their first frames.
    public var text = Frames()
    /// Binary messages: their first frames.
    public var binary = Frames()
    /// The further frames of messages in fragments.
    public var continuation = Frames()
    /// Close frames.
    public var close = Frames()
    /// Pings.
    public var ping = Frames()
    /// Pongs.
    public var pong = Frames()

    /// None yet.
    public init() {}

    package mutating func add(_ opcode: Opcode, bytes: Int) {
      switch opcode {
      case .text: Self.add(bytes, to: &text)
      case .binary: Self.add(bytes, to: &binary)
      case .continuation: Self.add(bytes, to: &continuation)
      case .close: Self.add(bytes, to: &close)
      case .ping: Self.add(bytes, to: &ping)
      case .pong: Self.add(bytes, to: &pong)
      }
    }

    private static func add(_ bytes: Int, to frames: inout Frames) {
      frames.count += 1
      frames.bytes += bytes
    }
  }

  /// Frames of the peers', by their headers: the payload of one that a connection broke in counts as announced.
  public var received = Traffic()
  /// Frames taken to be sent; what waits is among them, and so is what a connection that broke did not write.
  public var sent = Traffic()
  /// Payload bytes per byte on the wire; nil, as nothing is compressed yet.
  public var compressionRatio: Double?
  /// Payload bytes that wait to be written.
  public var sendQueueBytes = 0
  /// Messages and control frames that wait to be written.
  public var sendQueueMessages = 0
  /// What waits for the application or is in its hands, in bytes: payload plus 64 for each message.
  public var receiveBufferBytes = 0
  /// The pongs of the current or last connection.
  public var roundTripTimes = RoundTripTimes()
  /// Connects that succeeded.
  public var connects = 0
  /// Connects that failed.
  public var failedConnects = 0
  /// Connections that ended with a closing handshake.
  public var cleanEnds = 0
  /// Connections that ended without one.
  public var uncleanEnds = 0
  /// How long the last successful connect took.
  public var phases: ConnectPhases?

  /// Nothing yet.
  public init() {}
}

extension HandlerMetrics {
  /// Everything as numbers with names; what there is no value for is left out.
  public var samples: [MetricSample] {
    var samples = received.samples(direction: "in") + sent.samples(direction: "out")
    samples += [
      MetricSample("websocket_connects_total", ["outcome": "success"], counter: connects),
      MetricSample("websocket_connects_total", ["outcome": "failure"], counter: failedConnects),
      MetricSample("websocket_ends_total", ["clean": "true"], counter: cleanEnds),
      MetricSample("websocket_ends_total", ["clean": "false"], counter: uncleanEnds),
      MetricSample("websocket_send_queue_bytes", gauge: Double(sendQueueBytes)),
      MetricSample("websocket_send_queue_messages", gauge: Double(sendQueueMessages)),
      MetricSample("websocket_receive_buffer_bytes", gauge: Double(receiveBufferBytes)),
    ]
    if let compressionRatio { samples.append(MetricSample("websocket_compression_ratio", gauge: compressionRatio)) }
    for part in [0.5, 0.9, 0.99] {
      guard let time = roundTripTimes.percentile(part) else { continue }
      samples.append(MetricSample("websocket_round_trip_seconds", ["quantile": "\(part)"], gauge: time / .seconds(1)))
    }
    return samples + (phases?.samples ?? [])
  }
}

extension HandlerMetrics.Traffic {
  fileprivate func samples(direction: String) -> [MetricSample] {
    let all = [
      ("text", text), ("binary", binary), ("continuation", continuation), ("close", close), ("ping", ping),
      ("pong", pong),
    ]
    return all.flatMap { opcode, frames in
      let labels = ["direction": direction, "opcode": opcode]
      return [
        MetricSample("websocket_frames_total", labels, counter: frames.count),
        MetricSample("websocket_payload_bytes_total", labels, counter: frames.bytes),
      ]
    }
  }
}

extension ConnectPhases {
  fileprivate var samples: [MetricSample] {
    let all = [("resolve", resolve), ("tcp", tcp), ("proxy", proxy), ("tls", tls), ("handshake", handshake)]
    return all.compactMap { phase, time in
      time.map { MetricSample("websocket_connect_seconds", ["phase": phase], gauge: $0 / .seconds(1)) }
    }
  }
}
