//! The owners of memory, as they register it: [`owns`].

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

static OWNERS: Mutex<BTreeMap<&'static str, usize>> = Mutex::new(BTreeMap::new());

fn all() -> std::sync::MutexGuard<'static, BTreeMap<&'static str, usize>> {
    OWNERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Registers that `owner` keeps `bytes` more of the process's memory from now on: `weights`,
/// `optimizer`, `caches`.
pub fn owns(owner: &'static str, bytes: usize) {
    *all().entry(owner).or_default() += bytes;
}

/// Removes all owners before another training.
pub fn no_owners() {
    all().clear();
}

/// The bytes that each owner keeps, by name.
pub fn owners() -> Vec<(&'static str, usize)> {
    all().iter().map(|(owner, bytes)| (*owner, *bytes)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_add_up_until_another_training_begins() {
        owns("weights", 10);
        owns("caches", 7);
        owns("weights", 5);
        assert_eq!(owners(), [("caches", 7), ("weights", 15)]);
        no_owners();
        assert_eq!(owners(), []);
    }
}
