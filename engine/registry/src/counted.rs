//! Counts with their nouns.

/// A count with its noun: `1 case`, `3 cases`.
///
/// ```
/// use hearth_registry::counted;
///
/// assert_eq!(counted(1, "epoch"), "1 epoch");
/// assert_eq!(counted(0, "case"), "0 cases");
/// ```
pub fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}
