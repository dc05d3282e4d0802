/// Something long-lived that gives actions to a store; an ``EffectRunner`` runs it.
public protocol StoreEffect: Sendable {
  /// Begins.
  ///
  /// - Parameter onEnd: called once where the effect ends by itself.
  /// - Returns: what ends it; nothing is dispatched afterwards.
  func start(onEnd: @escaping @Sendable () -> Void) -> @Sendable () -> Void
}
