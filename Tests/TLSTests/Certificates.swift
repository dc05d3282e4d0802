import Foundation
import WebSocketTransport

/// Certificates of a private authority, made once by the `openssl` command line tool.
final class Certificates: Sendable {
  static let isAvailable = !(FileManager.default.contents(atPath: "/usr/bin/openssl") ?? Data()).isEmpty
  static let shared = Result { try Certificates() }

  private let folder: URL

  private init() throws {
    folder = FileManager.default.temporaryDirectory.appending(
      path: "tls-tests-\(ProcessInfo.processInfo.processIdentifier)")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    try run("ecparam -name prime256v1 -genkey -noout -out key.pem")
    for authority in ["authority", "stranger"] {
      try run("ecparam -name prime256v1 -genkey -noout -out \(authority)-key.pem")
      try run("req -x509 -new -key \(authority)-key.pem -out \(authority).pem -days 3650 -subj /CN=\(authority)")
    }
    try issue("good", "subjectAltName=DNS:localhost,IP:127.0.0.1\nextendedKeyUsage=serverAuth")
    try issue("expired", "subjectAltName=IP:127.0.0.1", from: "20000101000000Z", until: "20000102000000Z")
    try issue("early", "subjectAltName=IP:127.0.0.1", from: "20990101000000Z", until: "20990102000000Z")
    try issue("elsewhere", "subjectAltName=DNS:example.com,IP:192.0.2.1")
    try issue("client", "subjectAltName=IP:127.0.0.1\nextendedKeyUsage=clientAuth")
    try issue("stranger-good", "subjectAltName=IP:127.0.0.1", authority: "stranger")
    try issue("stranger-client", "extendedKeyUsage=clientAuth", authority: "stranger")
    try issue("wildcard", "subjectAltName=DNS:*.example.com")
    try issue("common-name", "keyUsage=digitalSignature", subject: "/CN=127.0.0.1")
    try issue("common-name-host", "subjectAltName=DNS:other.example", subject: "/CN=named.example")
    try run("req -x509 -new -key key.pem -out alone.pem -days 30 -subj /CN=alone -addext subjectAltName=IP:127.0.0.1")
    try run("ec -in key.pem -aes256 -passout pass:secret -out locked-key.pem")
    let authority = try Data(contentsOf: folder.appending(path: "authority.pem"))
    var chain = try Data(contentsOf: folder.appending(path: "good.pem"))
    for _ in 0..<400 { chain += authority }
    try chain.write(to: folder.appending(path: "huge.pem"))
  }

  func path(_ name: String) -> String { folder.appending(path: name).path }

  var authority: TLSConfiguration.Trust { .file(path("authority.pem")) }

  func identity(_ name: String) -> TLSIdentity {
    TLSIdentity(certificates: .file(path("\(name).pem")), key: .file(path("key.pem")))
  }

  private func issue(
    _ name: String, _ extensions: String, authority: String = "authority", subject: String = "/CN=tests",
    from: String = "20200101000000Z", until: String = "20980101000000Z"
  ) throws {
    try run("req -new -key key.pem -out \(name).csr -subj \(subject)")
    try Data("\(extensions)\n".utf8).write(to: folder.appending(path: "\(name).ext"))
    let database = folder.appending(path: "\(name)-database")
    try FileManager.default.createDirectory(at: database, withIntermediateDirectories: true)
    try Data().write(to: database.appending(path: "index.txt"))
    let settings = """
      [ca]
      default_ca = it
      [it]
      database = \(database.path)/index.txt
      new_certs_dir = \(database.path)
      rand_serial = yes
      default_md = sha256
      policy = any
      [any]
      commonName = supplied
      """
    try Data(settings.utf8).write(to: folder.appending(path: "\(name).cnf"))
    try run(
      "ca -batch -notext -config \(name).cnf -cert \(authority).pem -keyfile \(authority)-key.pem -in \(name).csr"
        + " -out \(name).pem -startdate \(from) -enddate \(until) -extfile \(name).ext")
  }

  private func run(_ arguments: String) throws {
    let process = Process()
    process.executableURL = URL(filePath: "/usr/bin/openssl")
    process.arguments = arguments.split(separator: " ").map(String.init)
    process.currentDirectoryURL = folder
    let said = Pipe()
    process.standardError = said
    process.standardInput = FileHandle.nullDevice
    try process.run()
    let text = String(decoding: said.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
    process.waitUntilExit()
    guard process.terminationStatus == 0 else { throw Failed(command: arguments, text: text) }
  }

  struct Failed: Error {
    var command: String
    var text: String
  }
}
