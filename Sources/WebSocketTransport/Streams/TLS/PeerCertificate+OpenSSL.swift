import CSystem
import Foundation
import Glibc

extension PeerCertificate {
  /// Reads one of OpenSSL's certificates, which stays its owner's.
  init(_ certificate: OpaquePointer) {
    subject = Self.subject(of: certificate)
    names = Self.names(of: certificate)
    validFrom = Date(
      timeIntervalSince1970: TimeInterval(tls_wire_seconds(openssl_X509_get0_notBefore(certificate))))
    validUntil = Date(
      timeIntervalSince1970: TimeInterval(tls_wire_seconds(openssl_X509_get0_notAfter(certificate))))
    publicKeySHA256 = Self.publicKeyDigest(of: certificate)
    bytes = Self.encoded { openssl_i2d_X509(certificate, $0) }
  }

  /// The certificates of one of OpenSSL's stacks.
  static func all(in stack: OpaquePointer?) -> [PeerCertificate] {
    guard let stack else { return [] }
    return (0..<max(0, openssl_OPENSSL_sk_num(stack))).compactMap { index in
      openssl_OPENSSL_sk_value(stack, index).map { PeerCertificate(OpaquePointer($0)) }
    }
  }

  private static func subject(of certificate: OpaquePointer) -> String {
    guard let memory = openssl_BIO_new(openssl_BIO_s_mem()) else { return "" }
    defer { _ = openssl_BIO_free(memory) }
    let name = openssl_X509_get_subject_name(certificate)
    _ = openssl_X509_NAME_print_ex(memory, name, 0, UInt(OPENSSL_XN_FLAG_RFC2253))
    var text = [UInt8](repeating: 0, count: 4096)
    let count = openssl_BIO_read(memory, &text, Int32(text.count))
    return String(decoding: text.prefix(Int(max(0, count))), as: UTF8.self)
  }

  private static func names(of certificate: OpaquePointer) -> [String] {
    guard
      let stack = openssl_X509_get_ext_d2i(certificate, Int32(OPENSSL_NID_subject_alt_name), nil, nil)
    else { return [] }
    defer { openssl_free_names(stack) }
    return (0..<max(0, openssl_OPENSSL_sk_num(OpaquePointer(stack)))).compactMap { index in
      var kind: Int32 = 0
      guard let name = openssl_OPENSSL_sk_value(OpaquePointer(stack), index),
        let value = openssl_GENERAL_NAME_get0_value(OpaquePointer(name), &kind),
        Int(kind) == OPENSSL_GEN_DNS || Int(kind) == OPENSSL_GEN_IPADD,
        let data = openssl_ASN1_STRING_get0_data(OpaquePointer(value))
      else { return nil }
      let octets = Array(
        UnsafeBufferPointer(start: data, count: Int(openssl_ASN1_STRING_length(OpaquePointer(value)))))
      return Int(kind) == OPENSSL_GEN_DNS ? String(decoding: octets, as: UTF8.self) : address(octets)
    }
  }

  private static func address(_ octets: [UInt8]) -> String? {
    guard octets.count == 4 || octets.count == 16 else { return nil }
    var text = [CChar](repeating: 0, count: Int(INET6_ADDRSTRLEN))
    guard
      inet_ntop(octets.count == 4 ? AF_INET : AF_INET6, octets, &text, socklen_t(text.count)) != nil
    else { return nil }
    return String(decoding: text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }

  /// The SHA-256 of a certificate's SubjectPublicKeyInfo.
  static func publicKeyDigest(of certificate: OpaquePointer) -> [UInt8] {
    OpenSSL.digest(of: encoded { openssl_i2d_X509_PUBKEY(openssl_X509_get_X509_PUBKEY(certificate), $0) })
  }

  /// What one of OpenSSL's encoders writes: asked for the length first, then for the bytes.
  private static func encoded(
    _ encode: (UnsafeMutablePointer<UnsafeMutablePointer<UInt8>?>?) -> Int32
  ) -> [UInt8] {
    let count = Int(encode(nil))
    guard count > 0 else { return [] }
    return [UInt8](unsafeUninitializedCapacity: count) { buffer, filled in
      var target = buffer.baseAddress
      filled = Int(max(0, encode(&target)))
    }
  }
}
