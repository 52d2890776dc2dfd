//! The name of a type as its own file writes it.

/// The type's name without path and parameters: the default name of a transform, a loss, a metric
/// or a network.
///
/// ```
/// struct Halver;
/// struct Both<A>(A);
/// assert_eq!(hearth_registry::type_name::<Halver>(), "Halver");
/// assert_eq!(hearth_registry::type_name::<Both<Option<Halver>>>(), "Both");
/// ```
pub fn type_name<T: ?Sized>() -> &'static str {
    let full = std::any::type_name::<T>();
    let plain = full.split('<').next().unwrap_or(full);
    plain.rsplit("::").next().unwrap_or(plain)
}
