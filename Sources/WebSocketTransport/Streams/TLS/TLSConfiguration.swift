public import WebSocketCore

/// How a client's `wss` connections are secured.
///
/// The default verifies the server's certificate against the system's authorities and the URL's host. Files are read at
/// a handler's first `wss` connect and kept as long as the handler.
public struct TLSConfiguration: Sendable {
  /// The authorities whose certificates count.
  public enum Trust: Sendable, Hashable {
    /// Those of the system, where OpenSSL looks for them; `SSL_CERT_FILE` and `SSL_CERT_DIR` say otherwise.
    case system
    /// Those in a PEM file, and no others.
    case file(String)
    /// Those in a directory of PEM files that bear their hashes as names (`openssl rehash`), and no others.
    case directory(String)
    /// Those in these bytes of PEM, and no others.
    case pem([UInt8])
  }

  /// A version of TLS.
  public enum Version: Sendable, Hashable {
    /// TLS 1.2 (RFC 5246).
    case v1_2
    /// TLS 1.3 (RFC 8446).
    case v1_3
  }

  /// What is known when the verification hook is asked.
  public struct Evidence: Sendable, Hashable {
    /// The name or address that the certificate must be for.
    public let host: String
    /// The peer's certificate, then those it sent with it.
    public let chain: [PeerCertificate]
    /// What verification and pins found; nil: nothing is wrong.
    public let verdict: TLSFailure?
  }

  /// Decides on a peer: it must call its second argument once, on any thread, with whether to go on.
  public typealias Hook = @Sendable (Evidence, @escaping @Sendable (Bool) -> Void) -> Void

  /// The authorities.
  ///
  /// Default: the system's.
  public var trust = Trust.system
  /// The lowest version to accept.
  ///
  /// Default: TLS 1.2.
  public var minimumVersion = Version.v1_2
  /// The name to ask the server for and to verify, where it is not the URL's host.
  ///
  /// An address is verified and not asked for (RFC 6066 §3), as it is with a URL.
  public var serverName: String?
  /// What to show a server that demands a client certificate.
  public var identity: TLSIdentity?
  /// The SHA-256 of the public keys (SubjectPublicKeyInfo) of which one must be in the verified chain; empty: any.
  ///
  /// With verification off it must be that of the server's own certificate.
  public var pinnedKeys: Set<[UInt8]> = []
  /// Asked after the TLS handshake and before the first byte of the opening handshake; its answer replaces the verdict.
  ///
  /// It runs where the handler's callbacks run, under no lock; the connect deadline goes on meanwhile.
  public var verify: Hook?
  /// Accepts any certificate of anybody: TLS then keeps nobody out who sits in between.
  ///
  /// Pins and the hook still count. Default: false.
  public var insecurelySkipsVerification = false

  /// The defaults.
  public init() {}
}

/// A certificate with its private key.
public struct TLSIdentity: Sendable, Hashable {
  /// Where PEM text is.
  public enum Source: Sendable, Hashable {
    /// In a file.
    case file(String)
    /// Here.
    case pem([UInt8])
  }

  /// The certificate, and behind it those that lead to the authority.
  public var certificates: Source
  /// The private key.
  public var key: Source
  /// What the key is encrypted with; nil: it is not.
  public var passphrase: String?

  /// An identity; nothing is read yet.
  public init(certificates: Source, key: Source, passphrase: String? = nil) {
    self.certificates = certificates
    self.key = key
    self.passphrase = passphrase
  }
}

/// How a server secures its connections.
public struct TLSServerConfiguration: Sendable, Hashable {
  /// What the server shows.
  public var identity: TLSIdentity
  /// The lowest version to accept.
  ///
  /// Default: TLS 1.2.
  public var minimumVersion = TLSConfiguration.Version.v1_2
  /// The authorities of the clients, each of which must then show a certificate; nil: none is asked for.
  public var clientTrust: TLSConfiguration.Trust?
  /// The highest version to accept; nil: the highest there is.
  package var maximumVersion: TLSConfiguration.Version?

  /// A server that shows this identity and asks for none.
  public init(identity: TLSIdentity) { self.identity = identity }
}
