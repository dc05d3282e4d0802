/// Makes a store's actions of the program's values.
public protocol ActionMapping<Output, State, Action>: Sendable {
  /// What an output mapping makes.
  associatedtype Output: Sendable
  /// The store's state.
  associatedtype State
  /// The store's actions.
  associatedtype Action: Sendable

  /// The actions for a value.
  ///
  /// - Parameters:
  ///   - output: the value.
  ///   - state: as it was when the value's batch was complete; the same for the whole batch.
  func actions(from output: Output, state: State) -> [Action]
}
