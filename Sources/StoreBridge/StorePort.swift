/// The two things that the bridge asks of a store, whatever store it is.
///
///     let port = StorePort(
///       withState: { [weak store] actions in store.map { actions($0.state) } ?? [] },
///       dispatch: { [weak store] actions in for action in actions { store?.dispatch(action) } })
public struct StorePort<State, Action: Sendable>: Sendable {
  /// Reads the state once and makes actions of it.
  public let withState: @Sendable (_ actions: (State) -> [Action]) -> [Action]
  /// Takes the actions of one batch, in their order.
  public let dispatch: @Sendable ([Action]) -> Void

  /// A port to a store; hold the store weakly where it lives shorter than its effects.
  ///
  /// - Parameters:
  ///   - withState: calls what it is given with the state, once, and returns what that returned.
  ///   - dispatch: takes the actions of one batch, never none. Called on the effect's queue; while it runs nothing more
  ///     is dispatched, and what arrives holds its sender back.
  public init(
    withState: @escaping @Sendable (_ actions: (State) -> [Action]) -> [Action],
    dispatch: @escaping @Sendable ([Action]) -> Void
  ) {
    self.withState = withState
    self.dispatch = dispatch
  }
}
