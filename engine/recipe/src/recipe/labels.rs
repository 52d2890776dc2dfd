//! The names of a recipe's labels.

use std::collections::HashSet;

use hearth_registry::{Document, Fault};

/// Fails if two labels have the same name: tables and metrics could not distinguish them.
pub(super) fn check(document: &Document, labels: &[String]) -> Result<(), Fault> {
    let mut seen = HashSet::new();
    match labels.iter().find(|label| label.trim().is_empty() || !seen.insert(label.as_str())) {
        None => Ok(()),
        Some(empty) if empty.trim().is_empty() => Err(document.fault("labels", "a label has no name")),
        Some(twice) => {
            Err(document.fault("labels", format!("two labels are called {twice:?}: give each a name of its own")))
        }
    }
}
