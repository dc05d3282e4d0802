import WebSocketTransport

/// A list that any thread adds to.
package final class SharedList<Element: Sendable>: Sendable {
  private let elements = Lock<[Element]>([])

  package init() {}

  package func append(_ element: Element) { elements.withLock { $0.append(element) } }

  package var all: [Element] { elements.withLock { $0 } }

  package func take() -> [Element] {
    elements.withLock { elements in
      defer { elements = [] }
      return elements
    }
  }
}
