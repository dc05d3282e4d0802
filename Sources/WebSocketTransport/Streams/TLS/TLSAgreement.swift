public import Foundation

/// What both ends of a TLS connection agreed on.
public struct TLSAgreement: Sendable, Hashable {
  /// The version, such as `TLSv1.3`.
  public let version: String
  /// The cipher suite, such as `TLS_AES_256_GCM_SHA384`.
  public let cipher: String
  /// The application protocol (ALPN); nil where the peer selected none.
  public let applicationProtocol: String?
  /// The peer's certificate; nil where it showed none.
  public let peerCertificate: PeerCertificate?
  /// Whether an earlier session was resumed.
  public let isResumed: Bool
}

/// A certificate that the peer showed.
public struct PeerCertificate: Sendable, Hashable {
  /// The subject's distinguished name (RFC 4514), such as `CN=example.com,O=Example`.
  public let subject: String
  /// The host names and addresses that it is for, from its subject alternative names.
  public let names: [String]
  /// When its time begins.
  public let validFrom: Date
  /// When its time is over.
  public let validUntil: Date
  /// The SHA-256 of its public key (SubjectPublicKeyInfo), as ``TLSConfiguration/pinnedKeys`` wants it.
  public let publicKeySHA256: [UInt8]
  /// The whole certificate (DER).
  public let bytes: [UInt8]
}
