import CSystem
import WebSocketCore

/// One connection's TLS: records in, bytes out, and the other way round.
///
/// It owns no socket.
///
/// Safety: OpenSSL's session and the wire belong to this value alone, from `init` to `deinit`, and are used by one
/// thread at a time. That is why it may move between threads (`@unchecked Sendable`).
struct TLSSession: ~Copyable, @unchecked Sendable {
  /// What became of a step.
  enum Step: Sendable {
    /// Done; the number of bytes read or written, 0 for a handshake.
    case done(Int)
    /// Records of the peer's are needed first.
    case needsInput
    /// Records must be taken away first.
    case needsOutput
    case ended(TransportEnd)
  }

  /// What is read from the base at a time, in bytes: four records.
  static let readBytes = 64 << 10

  private let ssl: OpaquePointer
  private let wire: UnsafeMutablePointer<tls_wire>
  private let context: TLSContext
  /// Records that were read and are not decrypted.
  private var input = ByteBuffer()
  /// What verification found wrong with the peer when the session began that is to be resumed; 0: nothing.
  private var earlierVerifyError: Int32 = 0

  private init(_ context: TLSContext, _ prepare: (OpaquePointer) -> Bool) throws(TLSFailure) {
    let wire = UnsafeMutablePointer<tls_wire>.allocate(capacity: 1)
    wire.initialize(to: tls_wire())
    let ssl = openssl_SSL_new(context.pointer)
    guard let ssl, tls_wire_attach(ssl, wire) == 1, prepare(ssl) else {
      openssl_SSL_free(ssl)
      wire.deallocate()
      throw .other(OpenSSL.takeFailure().text)
    }
    self.ssl = ssl
    self.wire = wire
    self.context = context
  }

  /// A server's side of a connection.
  init(server context: TLSContext) throws(TLSFailure) {
    try self.init(context) { ssl in
      openssl_SSL_set_accept_state(ssl)
      return true
    }
  }

  /// A client's side of a connection.
  ///
  /// - Parameters:
  ///   - name: the host name or address that the server must prove to be.
  ///   - continues: whether the handshake goes on with a certificate that is not accepted, for ``verdict`` to tell.
  ///   - earlier: a session to resume.
  init(
    client context: TLSContext, name: String, continues: Bool, resuming earlier: TLSResumption?
  ) throws(TLSFailure) {
    try self.init(context) { ssl in
      openssl_SSL_set_connect_state(ssl)
      if let earlier { _ = openssl_SSL_set_session(ssl, earlier.pointer) }
      return Self.expect(name, ssl)
    }
    wire.pointee.continues = continues ? 1 : 0
    earlierVerifyError = earlier?.verifyError ?? 0
  }

  /// Sets whom the server must prove to be, and asks for that name; false where it cannot be set.
  private static func expect(_ name: String, _ ssl: OpaquePointer) -> Bool {
    let parameters = openssl_SSL_get0_param(ssl)
    if let address = SocketAddress.literal(host: name, port: 0) {
      // Compared with the certificate's addresses alone; never asked for (RFC 6066 §3).
      return openssl_X509_VERIFY_PARAM_set1_ip_asc(parameters, String(address.host.prefix { $0 != "%" })) == 1
    }
    // The root's dot of a full name is no part of it in TLS (RFC 6066 §3).
    let name = name.hasSuffix(".") ? String(name.dropLast()) : name
    openssl_X509_VERIFY_PARAM_set_hostflags(parameters, UInt32(OPENSSL_X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS))
    guard openssl_X509_VERIFY_PARAM_set1_host(parameters, name, name.utf8.count) == 1 else { return false }
    var text = Array(name.utf8CString)
    return openssl_SSL_ctrl(
      ssl, Int32(OPENSSL_SSL_CTRL_SET_TLSEXT_HOSTNAME), OPENSSL_TLSEXT_NAMETYPE_host_name, &text) == 1
  }

  deinit {
    openssl_SSL_free(ssl)
    tls_wire_clear(wire)
    wire.deallocate()
  }

  // MARK: - Steps

  mutating func handshake() -> Step {
    let result = call { openssl_SSL_do_handshake($0) }
    return result == 1 ? .done(0) : failure(result)
  }

  /// Reads what at most one record holds.
  mutating func read(into buffer: UnsafeMutableRawBufferPointer) -> Step {
    let count = Int32(clamping: buffer.count)
    let result = call { openssl_SSL_read($0, buffer.baseAddress, count) }
    return result > 0 ? .done(Int(result)) : failure(result)
  }

  /// Encrypts what at most one record holds.
  mutating func write(_ bytes: UnsafeRawBufferPointer) -> Step {
    let count = Int32(clamping: bytes.count)
    let result = call { openssl_SSL_write($0, bytes.baseAddress, count) }
    return result > 0 ? .done(Int(result)) : failure(result)
  }

  /// Says that nothing more will be written (`close_notify`).
  mutating func finishWriting() {
    _ = call { openssl_SSL_shutdown($0) }
    openssl_ERR_clear_error()
  }

  private mutating func call(_ body: (OpaquePointer) -> Int32) -> Int32 {
    // OpenSSL judges a result by this thread's queue of errors, which others may have left full.
    openssl_ERR_clear_error()
    let records = input.readable
    wire.pointee.input = records.bindMemory(to: UInt8.self).baseAddress
    wire.pointee.input_count = records.count
    let result = body(ssl)
    input.consume(records.count - wire.pointee.input_count)
    wire.pointee.input_count = 0
    return result
  }

  private func failure(_ result: Int32) -> Step {
    switch Int(openssl_SSL_get_error(ssl, result)) {
    case OPENSSL_SSL_ERROR_WANT_READ: return .needsInput
    case OPENSSL_SSL_ERROR_WANT_WRITE: return .needsOutput
    case OPENSSL_SSL_ERROR_ZERO_RETURN: return .ended(.finished)
    default:
      let error = OpenSSL.takeFailure()
      if error.reason == OPENSSL_SSL_R_CERTIFICATE_VERIFY_FAILED, let verdict { return .ended(.tls(verdict)) }
      // A record that is none means something else once records have gone to and fro.
      if error.reason == OPENSSL_SSL_R_WRONG_VERSION_NUMBER, isEstablished {
        return .ended(.tls(.other(error.text)))
      }
      return .ended(
        .tls(
          TLSFailure(
            error, wasAsked: wire.pointee.certificate_requested != 0, hasShown: context.hasIdentity)))
    }
  }

  // MARK: - Records

  /// Reads records of the peer's, as many as are there at once.
  mutating func readRecords(from base: any Transport) -> ReadOutcome {
    let room = UnsafeMutableRawBufferPointer(start: input.reserve(Self.readBytes), count: Self.readBytes)
    let outcome = base.read(into: room)
    if case .bytes(let count) = outcome { input.commit(count) }
    return outcome
  }

  /// Gives the memory for records back unless some wait: an idle connection has no use for it.
  mutating func releaseInput() {
    if input.isEmpty { input.removeAll() }
  }

  /// Records to be written, valid until the next step.
  var output: UnsafeRawBufferPointer {
    let (start, end) = (wire.pointee.output_start, wire.pointee.output_end)
    return UnsafeRawBufferPointer(start: wire.pointee.output.map { $0 + start }, count: end - start)
  }

  func consumeOutput(_ count: Int) { tls_wire_consume(wire, count) }

  /// Makes room for the records of that many bytes at once.
  func reserveOutput(for count: Int) { tls_wire_reserve(wire, count + (count >> 14 + 1) * 64) }

  // MARK: - Facts

  /// The first thing that verification found wrong.
  var verdict: TLSFailure? { verifyError == 0 ? nil : TLSFailure(verification: Int(verifyError)) }

  /// A resumed session brings no certificate to verify: what was found when it began stands.
  private var verifyError: Int32 { isResumed ? earlierVerifyError : wire.pointee.verify_error }

  var applicationProtocol: String? {
    var name: UnsafePointer<UInt8>?
    var length: UInt32 = 0
    openssl_SSL_get0_alpn_selected(ssl, &name, &length)
    guard let name, length > 0 else { return nil }
    return String(decoding: UnsafeBufferPointer(start: name, count: Int(length)), as: UTF8.self)
  }

  /// Whether the handshake is done.
  var isEstablished: Bool { openssl_SSL_is_init_finished(ssl) == 1 }

  var version: String { String(cString: openssl_SSL_get_version(ssl)) }

  var isResumed: Bool { openssl_SSL_session_reused(ssl) == 1 }

  var agreement: TLSAgreement {
    let cipher = openssl_SSL_CIPHER_get_name(openssl_SSL_get_current_cipher(ssl))
    var peer: PeerCertificate?
    if let certificate = openssl_peer_certificate(ssl) {
      peer = PeerCertificate(certificate)
      openssl_X509_free(certificate)
    }
    return TLSAgreement(
      version: version, cipher: cipher.map { String(cString: $0) } ?? "",
      applicationProtocol: applicationProtocol, peerCertificate: peer, isResumed: isResumed)
  }

  /// The certificates that a server showed, its own first.
  var chain: [PeerCertificate] { PeerCertificate.all(in: openssl_SSL_get_peer_cert_chain(ssl)) }

  /// The SHA-256 of the public keys that are proved: those of the verified chain; without one that of the peer.
  var provedKeys: [[UInt8]] {
    if wire.pointee.verify_error == 0, let stack = openssl_SSL_get0_verified_chain(ssl) {
      return PeerCertificate.all(in: stack).map(\.publicKeySHA256)
    }
    guard let certificate = openssl_peer_certificate(ssl) else { return [] }
    defer { openssl_X509_free(certificate) }
    return [PeerCertificate.publicKeyDigest(of: certificate)]
  }

  /// Takes the newest session that the server offered to resume.
  func takeResumption() -> TLSResumption? {
    guard let session = wire.pointee.session else { return nil }
    wire.pointee.session = nil
    return TLSResumption(owning: session, verifyError: verifyError)
  }
}

/// A session that can be resumed (OpenSSL's `SSL_SESSION`).
///
/// Safety: OpenSSL counts its references atomically and does not change it once it is complete.
final class TLSResumption: @unchecked Sendable {
  let pointer: OpaquePointer
  /// What verification found wrong with the peer when the session began, as OpenSSL's number; 0: nothing.
  let verifyError: Int32

  init(owning pointer: OpaquePointer, verifyError: Int32) {
    self.pointer = pointer
    self.verifyError = verifyError
  }

  deinit { openssl_SSL_SESSION_free(pointer) }
}
