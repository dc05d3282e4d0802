/// What a channel's body is given: the way back into the program.
///
/// It can be called as a function: `dispatch(.event(event))`. Both ways may be used from any thread, also from inside
/// the body. After its instance was cancelled it does nothing.
public struct ChannelContext<Action: Sendable>: Sendable {
  private let perform: @Sendable (Action, (@Sendable () -> Void)?) -> Void
  private let end: @Sendable ((any Error)?) -> Void

  init(
    perform: @escaping @Sendable (Action, (@Sendable () -> Void)?) -> Void,
    end: @escaping @Sendable ((any Error)?) -> Void
  ) {
    self.perform = perform
    self.end = end
  }

  /// Dispatches an action, later and on the supervisor's queue.
  ///
  /// Actions of one thread are dispatched in the order of its calls.
  public func dispatch(_ action: Action) { perform(action, nil) }

  /// Dispatches an action and hears when that has returned, so as to make no more actions than are taken.
  ///
  /// - Parameters:
  ///   - action: what is dispatched.
  ///   - done: called on the supervisor's queue; not where the instance was cancelled before.
  public func dispatch(_ action: Action, then done: @escaping @Sendable () -> Void) { perform(action, done) }

  /// Dispatches an action.
  public func callAsFunction(_ action: Action) { dispatch(action) }

  /// Says that the instance ended by itself, such as a socket that was closed by its peer.
  ///
  /// Its `cancel` is called, and the channel's ``Restart`` says what happens then.
  ///
  /// - Parameter error: why; nil where nothing went wrong.
  public func ended(_ error: (any Error)? = nil) { end(error) }
}
