import CSystem
import Foundation
import WebSocketCore

/// What sessions of one kind share: authorities, identity, versions (OpenSSL's `SSL_CTX`).
///
/// Safety: it is changed by `init` alone; afterwards OpenSSL's own locks and counts let any thread use it.
package final class TLSContext: @unchecked Sendable {
  /// Everything that a context is made from.
  struct Settings: Sendable, Hashable {
    var role: Role
    /// Whose certificates count; nil: the peer is not asked for one.
    var trust: TLSConfiguration.Trust?
    var identity: TLSIdentity?
    var minimumVersion: TLSConfiguration.Version
    var maximumVersion: TLSConfiguration.Version?

    /// The files that are read for it; nil where it is not known which, as with a directory.
    fileprivate var files: [String]? {
      var files: [String] = []
      switch trust {
      case .directory: return nil
      case .file(let path): files.append(path)
      case .system, .pem, nil: break
      }
      for case .file(let path)? in [identity?.certificates, identity?.key] { files.append(path) }
      return files
    }
  }

  let pointer: OpaquePointer
  let hasIdentity: Bool

  init(_ settings: Settings) throws(TLSFailure) {
    try OpenSSL.load()
    guard let pointer = openssl_SSL_CTX_new(openssl_TLS_method()) else { throw .other(OpenSSL.takeFailure().text) }
    self.pointer = pointer
    hasIdentity = settings.identity != nil
    // One record per write, of which a part may be taken; no buffers while idle (about 34 KiB less).
    let modes =
      OPENSSL_SSL_MODE_ENABLE_PARTIAL_WRITE | OPENSSL_SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER
      | OPENSSL_SSL_MODE_RELEASE_BUFFERS
    _ = openssl_SSL_CTX_ctrl(pointer, Int32(OPENSSL_SSL_CTRL_MODE), modes, nil)
    _ = openssl_SSL_CTX_set_options(
      pointer, UInt64(OPENSSL_SSL_OP_NO_COMPRESSION | OPENSSL_SSL_OP_NO_RENEGOTIATION))
    set(OPENSSL_SSL_CTRL_SET_MIN_PROTO_VERSION, settings.minimumVersion.number)
    if let version = settings.maximumVersion { set(OPENSSL_SSL_CTRL_SET_MAX_PROTO_VERSION, version.number) }
    switch settings.role {
    case .client:
      tls_wire_prepare_client(pointer)
      set(
        OPENSSL_SSL_CTRL_SET_SESS_CACHE_MODE, OPENSSL_SSL_SESS_CACHE_CLIENT | OPENSSL_SSL_SESS_CACHE_NO_INTERNAL)
      let names = [UInt8("http/1.1".utf8.count)] + Array("http/1.1".utf8)
      _ = openssl_SSL_CTX_set_alpn_protos(pointer, names, UInt32(names.count))
    case .server:
      tls_wire_prepare_server(pointer, settings.trust == nil ? 0 : 1)
      // Sessions are resumed by tickets, which clients keep; the server keeps nothing.
      set(OPENSSL_SSL_CTRL_SET_SESS_CACHE_MODE, 0)
      let id = Array("websocket".utf8)
      _ = openssl_SSL_CTX_set_session_id_context(pointer, id, UInt32(id.count))
    }
    if let trust = settings.trust { try load(trust) }
    if let identity = settings.identity { try load(identity) }
  }

  deinit { openssl_SSL_CTX_free(pointer) }

  private func set(_ command: Int, _ value: Int) {
    _ = openssl_SSL_CTX_ctrl(pointer, Int32(command), value, nil)
  }

  // MARK: - Sharing

  /// Settings, and what lay in their files: they may change.
  private struct Key: Sendable, Hashable {
    var settings: Settings
    var digests: [[UInt8]?]
  }

  private struct Weak: Sendable {
    weak var context: TLSContext?
  }

  private static let pool = Lock<[Key: Weak]>([:])

  /// A context for these settings, shared with whoever uses the same at the moment: each costs memory and time.
  static func shared(_ settings: Settings) throws(TLSFailure) -> TLSContext {
    try OpenSSL.load()
    guard let files = settings.files else { return try TLSContext(settings) }
    let key = Key(
      settings: settings,
      digests: files.map { FileManager.default.contents(atPath: $0).map { OpenSSL.digest(of: Array($0)) } })
    if let known = pool.withLock({ $0[key]?.context }) { return known }
    let made = try TLSContext(settings)
    pool.withLock { pool in
      pool = pool.filter { $0.value.context != nil }
      pool[key] = Weak(context: made)
    }
    return made
  }

  // MARK: - Authorities and identity

  private func load(_ trust: TLSConfiguration.Trust) throws(TLSFailure) {
    openssl_ERR_clear_error()
    switch trust {
    case .system:
      guard openssl_SSL_CTX_set_default_verify_paths(pointer) == 1 else {
        throw .configuration("the system's authorities: \(OpenSSL.takeFailure().text)")
      }
    case .file(let path):
      guard openssl_SSL_CTX_load_verify_locations(pointer, path, nil) == 1 else {
        throw .configuration("the authorities in \(path): \(OpenSSL.takeFailure().text)")
      }
    case .directory(let path):
      var isDirectory: ObjCBool = false
      guard FileManager.default.fileExists(atPath: path, isDirectory: &isDirectory), isDirectory.boolValue,
        openssl_SSL_CTX_load_verify_locations(pointer, nil, path) == 1
      else { throw .configuration("the authorities in \(path): not a directory") }
    case .pem(let bytes):
      let store = openssl_SSL_CTX_get_cert_store(pointer)
      try forEachCertificate(in: bytes, named: "the authorities") { openssl_X509_STORE_add_cert(store, $0) == 1 }
    }
  }

  private func load(_ identity: TLSIdentity) throws(TLSFailure) {
    var isFirst = true
    try forEachCertificate(in: bytes(identity.certificates), named: "the certificate") { certificate in
      defer { isFirst = false }
      if isFirst { return openssl_SSL_CTX_use_certificate(pointer, certificate) == 1 }
      // 1: the context takes a reference of its own.
      return openssl_SSL_CTX_ctrl(
        pointer, Int32(OPENSSL_SSL_CTRL_CHAIN_CERT), 1, UnsafeMutableRawPointer(certificate)) == 1
    }
    let text = try bytes(identity.key)
    let key = text.withUnsafeBytes { bytes -> OpaquePointer? in
      guard let memory = openssl_BIO_new_mem_buf(bytes.baseAddress, Int32(bytes.count)) else { return nil }
      defer { _ = openssl_BIO_free(memory) }
      guard var passphrase = identity.passphrase.map({ Array($0.utf8CString) }) else {
        return openssl_PEM_read_bio_PrivateKey(memory, nil, tls_wire_no_passphrase, nil)
      }
      return openssl_PEM_read_bio_PrivateKey(memory, nil, nil, &passphrase)
    }
    guard let key else { throw .configuration("the private key: \(OpenSSL.takeFailure().text)") }
    defer { openssl_EVP_PKEY_free(key) }
    guard openssl_SSL_CTX_use_PrivateKey(pointer, key) == 1, openssl_SSL_CTX_check_private_key(pointer) == 1 else {
      throw .configuration("the private key: \(OpenSSL.takeFailure().text)")
    }
  }

  private func bytes(_ source: TLSIdentity.Source) throws(TLSFailure) -> [UInt8] {
    switch source {
    case .pem(let bytes): return bytes
    case .file(let path):
      guard let data = FileManager.default.contents(atPath: path) else {
        throw .configuration("\(path) cannot be read")
      }
      return Array(data)
    }
  }

  /// Calls with each certificate of PEM text, which must hold one at least.
  private func forEachCertificate(
    in text: [UInt8], named name: String, _ body: (OpaquePointer) -> Bool
  ) throws(TLSFailure) {
    let count = text.withUnsafeBytes { bytes -> Int? in
      guard let memory = openssl_BIO_new_mem_buf(bytes.baseAddress, Int32(bytes.count)) else { return nil }
      defer { _ = openssl_BIO_free(memory) }
      var count = 0
      while let certificate = openssl_PEM_read_bio_X509(memory, nil, tls_wire_no_passphrase, nil) {
        defer { openssl_X509_free(certificate) }
        guard body(certificate) else { return nil }
        count += 1
      }
      return count > 0 ? count : nil
    }
    guard count != nil else { throw .configuration("\(name): \(OpenSSL.takeFailure().text)") }
    // The end of the text is an error of OpenSSL's, too.
    openssl_ERR_clear_error()
  }
}

extension TLSConfiguration.Version {
  fileprivate var number: Int {
    switch self {
    case .v1_2: OPENSSL_TLS1_2_VERSION
    case .v1_3: OPENSSL_TLS1_3_VERSION
    }
  }
}
