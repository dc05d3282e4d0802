import WebSocketTransport

/// Wrong usage of the tool; the text says of what.
struct UsageError: Error {
  var message: String
}

/// The options and operands of one subcommand, checked against those that it knows.
struct CommandLineOptions {
  private var values: [String: [String]] = [:]
  private(set) var operands: [String] = []

  /// - Parameters:
  ///   - flags: options without a value, with their dashes.
  ///   - valued: options that take the next argument.
  init(_ arguments: some Sequence<String>, flags: Set<String> = [], valued: Set<String> = []) throws(UsageError) {
    var rest = Array(arguments)[...]
    while let argument = rest.popFirst() {
      if flags.contains(argument) {
        values[argument, default: []].append("")
      } else if valued.contains(argument) {
        guard let value = rest.popFirst() else { throw UsageError(message: "\(argument) needs a value") }
        values[argument, default: []].append(value)
      } else if argument.hasPrefix("-") {
        throw UsageError(message: "unknown option \(argument)")
      } else {
        operands.append(argument)
      }
    }
  }

  func has(_ name: String) -> Bool { values[name] != nil }

  /// Every value of an option that may come more than once.
  func all(_ name: String) -> [String] { values[name] ?? [] }

  func string(_ name: String) -> String? { values[name]?.last }

  func integer(_ name: String, in range: ClosedRange<Int>) throws(UsageError) -> Int? {
    guard let text = string(name) else { return nil }
    guard let value = Int(text), range.contains(value) else {
      throw UsageError(message: "\(name) takes a whole number from \(range.lowerBound) to \(range.upperBound)")
    }
    return value
  }

  /// Seconds, which may have decimals.
  func seconds(_ name: String) throws(UsageError) -> Duration? {
    guard let text = string(name) else { return nil }
    guard let value = Double(text), value > 0, value <= 1e9 else {
      throw UsageError(message: "\(name) takes a number of seconds above 0")
    }
    return .seconds(value)
  }

  /// One of the names of an enumeration.
  func choice<Choice: RawRepresentable & CaseIterable>(
    _ name: String
  ) throws(UsageError) -> Choice? where Choice.RawValue == String {
    guard let text = string(name) else { return nil }
    guard let choice = Choice(rawValue: text) else {
      throw UsageError(message: "\(name) is one of \(Choice.allCases.map(\.rawValue).joined(separator: ", "))")
    }
    return choice
  }

  /// The only operand.
  func operand(_ what: String) throws(UsageError) -> String {
    guard operands.count == 1, let operand = operands.first else {
      throw UsageError(message: "exactly one \(what) is needed")
    }
    return operand
  }

  /// The certificate and key of `--cert` and `--key`, which come together.
  func identity() throws(UsageError) -> TLSIdentity? {
    switch (string("--cert"), string("--key")) {
    case (let certificate?, let key?): return TLSIdentity(certificates: .file(certificate), key: .file(key))
    case (nil, nil): return nil
    default: throw UsageError(message: "--cert and --key come together")
    }
  }

  /// A client's TLS as `--ca`, `--insecure`, `--cert` and `--key` say.
  func tls() throws(UsageError) -> TLSConfiguration {
    var tls = TLSConfiguration()
    if let authorities = string("--ca") { tls.trust = .file(authorities) }
    tls.insecurelySkipsVerification = has("--insecure")
    tls.identity = try identity()
    return tls
  }

  func noOperands() throws(UsageError) {
    if let operand = operands.first { throw UsageError(message: "unexpected \(operand)") }
  }
}
