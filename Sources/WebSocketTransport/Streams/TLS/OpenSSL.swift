import CSystem
import WebSocketCore

/// The library itself: loading it, and the errors that it leaves behind.
enum OpenSSL {
  /// Loads the library at its first use.
  static func load() throws(TLSFailure) {
    if let reason = openssl_load() {
      throw .unavailable(
        "OpenSSL 1.1.1 or later cannot be loaded (\(String(cString: reason))): install Debian's package libssl3")
    }
  }

  /// SHA-256.
  static func digest(of bytes: [UInt8]) -> [UInt8] {
    var digest = [UInt8](repeating: 0, count: 32)
    _ = openssl_EVP_Digest(bytes, bytes.count, &digest, nil, openssl_EVP_sha256(), nil)
    return digest
  }

  /// An error of OpenSSL's.
  struct Failure {
    /// The reason code of an error of the TLS part; 0 for another part's.
    var reason: Int
    var text: String
    /// Whether it is about the application protocol (ALPN), for which there is no reason of its own.
    var isApplicationProtocol = false
  }

  /// Takes the errors of this thread and returns the first, which names the cause.
  static func takeFailure() -> Failure {
    var function: UnsafePointer<CChar>?
    let error = openssl_take_error(&function)
    let isApplicationProtocol = function.map { String(cString: $0).contains("alpn") } ?? false
    defer { openssl_ERR_clear_error() }
    guard error != 0 else { return Failure(reason: 0, text: "no reason given") }
    guard let words = openssl_ERR_reason_error_string(error) else {
      var text = [CChar](repeating: 0, count: 256)
      openssl_ERR_error_string_n(error, &text, text.count)
      return Failure(
        reason: Int(openssl_ssl_reason(error)),
        text: String(decoding: text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self))
    }
    return Failure(
      reason: Int(openssl_ssl_reason(error)), text: String(cString: words),
      isApplicationProtocol: isApplicationProtocol)
  }
}

extension TLSFailure {
  /// What an error of a verification means.
  init(verification code: Int) {
    switch code {
    case OPENSSL_X509_V_ERR_CERT_HAS_EXPIRED: self = .expired
    case OPENSSL_X509_V_ERR_CERT_NOT_YET_VALID: self = .notYetValid
    case OPENSSL_X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT: self = .selfSigned
    case OPENSSL_X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT, OPENSSL_X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY,
      OPENSSL_X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE, OPENSSL_X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
      self = .unknownAuthority
    case OPENSSL_X509_V_ERR_HOSTNAME_MISMATCH, OPENSSL_X509_V_ERR_IP_ADDRESS_MISMATCH: self = .wrongHost
    case OPENSSL_X509_V_ERR_INVALID_PURPOSE: self = .wrongPurpose
    default: self = .certificate(String(cString: openssl_X509_verify_cert_error_string(code)))
    }
  }

  /// What an error of a session means.
  ///
  /// - Parameters:
  ///   - wasAsked: whether the peer asked for a certificate.
  ///   - hasShown: whether this endpoint had one to show.
  init(_ failure: OpenSSL.Failure, wasAsked: Bool, hasShown: Bool) {
    switch failure.reason {
    case OPENSSL_SSL_R_HTTP_REQUEST, OPENSSL_SSL_R_HTTPS_PROXY_REQUEST, OPENSSL_SSL_R_WRONG_VERSION_NUMBER:
      self = .notTLS
    case OPENSSL_SSL_R_UNSUPPORTED_PROTOCOL, OPENSSL_SSL_R_NO_PROTOCOLS_AVAILABLE, OPENSSL_SSL_R_VERSION_TOO_LOW,
      OPENSSL_SSL_R_VERSION_TOO_HIGH, OPENSSL_SSL_R_NO_CIPHERS_AVAILABLE, OPENSSL_SSL_R_NO_SHARED_CIPHER:
      self = .nothingShared
    case OPENSSL_SSL_R_BAD_EXTENSION where failure.isApplicationProtocol: self = .wrongApplicationProtocol(nil)
    case OPENSSL_SSL_R_NO_APPLICATION_PROTOCOL: self = .wrongApplicationProtocol(nil)
    case OPENSSL_SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE: self = .clientCertificateRequired
    case OPENSSL_SSL_AD_REASON_OFFSET...:
      self =
        Self(
          alert: failure.reason - OPENSSL_SSL_AD_REASON_OFFSET, wasAsked: wasAsked, hasShown: hasShown)
        ?? .other(failure.text)
    default: self = .other(failure.text)
    }
  }

  /// What an alert of the peer's means (RFC 8446 §6.2).
  private init?(alert: Int, wasAsked: Bool, hasShown: Bool) {
    switch alert {
    case OPENSSL_SSL_AD_CERTIFICATE_REQUIRED: self = .clientCertificateRequired
    case OPENSSL_SSL_AD_NO_APPLICATION_PROTOCOL: self = .wrongApplicationProtocol(nil)
    // Before TLS 1.3 there is no alert of its own for a certificate that was not shown.
    case OPENSSL_SSL_AD_HANDSHAKE_FAILURE where wasAsked && !hasShown,
      OPENSSL_SSL_AD_BAD_CERTIFICATE where wasAsked && !hasShown:
      self = .clientCertificateRequired
    case OPENSSL_SSL_AD_BAD_CERTIFICATE where wasAsked, OPENSSL_SSL_AD_UNSUPPORTED_CERTIFICATE where wasAsked,
      OPENSSL_SSL_AD_CERTIFICATE_REVOKED where wasAsked, OPENSSL_SSL_AD_CERTIFICATE_EXPIRED where wasAsked,
      OPENSSL_SSL_AD_CERTIFICATE_UNKNOWN where wasAsked, OPENSSL_SSL_AD_UNKNOWN_CA where wasAsked,
      OPENSSL_SSL_AD_ACCESS_DENIED where wasAsked, OPENSSL_SSL_AD_DECRYPT_ERROR where wasAsked:
      self = .clientCertificateRefused
    case OPENSSL_SSL_AD_HANDSHAKE_FAILURE, OPENSSL_SSL_AD_PROTOCOL_VERSION,
      OPENSSL_SSL_AD_INSUFFICIENT_SECURITY:
      self = .nothingShared
    default: return nil
    }
  }
}
