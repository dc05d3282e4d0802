/// Why TLS failed.
///
/// The first group is this endpoint's judgement of the peer's certificate; none of the opening handshake has been sent
/// then.
public enum TLSFailure: Error, Sendable, Hashable {
  /// The certificate's time is over.
  case expired
  /// The certificate's time has not begun.
  case notYetValid
  /// No known authority signed the certificate.
  case unknownAuthority
  /// The certificate signed itself.
  case selfSigned
  /// The certificate is for another host or address.
  case wrongHost
  /// The certificate is for another purpose, such as one for clients shown by a server.
  case wrongPurpose
  /// No pinned key is in the chain.
  case pinMismatch
  /// The hook of the caller's refused.
  case refusedByCaller
  /// The certificate is wrong in another way; OpenSSL's words.
  case certificate(String)

  /// No version or cipher is shared.
  case nothingShared
  /// The server selected another application protocol than HTTP/1.1 (ALPN), or refused that one; its name, if it told.
  case wrongApplicationProtocol(String?)
  /// The peer demands a certificate, and none was shown.
  case clientCertificateRequired
  /// The peer refused the certificate that was shown.
  case clientCertificateRefused
  /// What answered does not speak TLS.
  case notTLS
  /// TCP ended before the handshake did.
  case connectionEnded

  /// OpenSSL is not there; the text names the package to install.
  case unavailable(String)
  /// A certificate or a key of the configuration cannot be used; the text says which and why.
  case configuration(String)
  /// Anything else; OpenSSL's words.
  case other(String)
}

extension TLSFailure: CustomStringConvertible {
  /// The failure in a few words.
  public var description: String {
    switch self {
    case .expired: "the certificate has expired"
    case .notYetValid: "the certificate is not valid yet"
    case .unknownAuthority: "the certificate is from an unknown authority"
    case .selfSigned: "the certificate is self-signed"
    case .wrongHost: "the certificate is for another host"
    case .wrongPurpose: "the certificate is for another purpose"
    case .pinMismatch: "no pinned key is in the certificate's chain"
    case .refusedByCaller: "the certificate was refused by the verification hook"
    case .certificate(let reason): "the certificate is not accepted: \(reason)"
    case .nothingShared: "no version or cipher is shared"
    case .wrongApplicationProtocol(let name?): "the peer selected the application protocol \(name.debugDescription)"
    case .wrongApplicationProtocol(nil): "the peer does not offer http/1.1"
    case .clientCertificateRequired: "the peer demands a client certificate"
    case .clientCertificateRefused: "the peer refused the client certificate"
    case .notTLS: "the peer does not speak TLS"
    case .connectionEnded: "the peer ended TCP during the handshake"
    case .unavailable(let reason), .configuration(let reason), .other(let reason): reason
    }
  }
}
