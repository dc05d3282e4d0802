public import Foundation

/// Decodes what was received.
///
/// Called on the callbacks' thread.
public protocol HTTPResponseHandler: Sendable {
  /// The value that `data` stands for.
  func decode<T: Decodable>(data: Data, to type: T.Type) throws -> T
}

/// Decodes JSON with Foundation's decoder.
public struct DefaultHTTPResponseHandler: HTTPResponseHandler {
  private let makeDecoder: @Sendable () -> JSONDecoder

  /// - Parameter makeDecoder: the decoder to use; default: one without special settings.
  public init(makeDecoder: @escaping @Sendable () -> JSONDecoder = { JSONDecoder() }) {
    self.makeDecoder = makeDecoder
  }

  /// Decodes JSON.
  public func decode<T: Decodable>(data: Data, to type: T.Type) throws -> T {
    try makeDecoder().decode(type, from: data)
  }
}
