/// Which end of the connection this endpoint is (RFC 6455 §1.2).
///
/// The two roles differ in three rules only: who masks, who speaks first, and who closes TCP first.
public enum Role: Sendable, Hashable {
  case client
  case server

  /// Whether frames sent by this role carry a masking key (RFC 6455 §5.1: a client masks, a server never does).
  @inlinable package var masksItsFrames: Bool { self == .client }

  /// Whether this role ends TCP once both Close frames have passed (RFC 6455 §7.1.1: the server does).
  package var closesTransportFirst: Bool { self == .server }

  /// The role of the other end.
  package var peer: Role { self == .client ? .server : .client }
}
