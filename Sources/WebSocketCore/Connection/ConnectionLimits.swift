/// How much a peer may make this endpoint hold for one incoming message.
public struct ConnectionLimits: Sendable, Hashable {
  /// The largest message this endpoint will assemble, in bytes.
  ///
  /// Default: 16 MiB, the largest that the Autobahn test suite sends.
  ///
  /// A longer one fails the connection with ``CloseCode/messageTooBig`` as soon as a frame's header announces it
  /// (RFC 6455 §7.4.1). Raising it lets one peer hold that much memory.
  public var maximumMessageBytes: Int

  /// The largest frame, in bytes.
  ///
  /// Default: 16 MiB, since a message may come in one frame.
  ///
  /// A longer one fails the connection with ``CloseCode/messageTooBig`` when its header arrives, before any memory is
  /// allocated.
  public var maximumFrameBytes: Int

  /// The most frames in one message.
  ///
  /// Default: 131,072, twice what the Autobahn test suite sends.
  ///
  /// Bounds the work that a peer causes with empty frames, which no limit in bytes would notice. More fail the
  /// connection with ``CloseCode/messageTooBig``.
  public var maximumFragments: Int

  /// Limits with the documented defaults for those that are not given.
  public init(
    maximumMessageBytes: Int = 16 << 20, maximumFrameBytes: Int = 16 << 20, maximumFragments: Int = 131_072
  ) {
    self.maximumMessageBytes = maximumMessageBytes
    self.maximumFrameBytes = maximumFrameBytes
    self.maximumFragments = maximumFragments
  }
}
