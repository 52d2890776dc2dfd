//! Warnings that a command gives several times: each is printed once, and counted at the end.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::note;

/// The number of different warnings that are remembered; others are printed each time.
const KEPT: usize = 200;

static GIVEN: Mutex<BTreeMap<String, u64>> = Mutex::new(BTreeMap::new());

/// Whether all are printed.
static ALL: AtomicBool = AtomicBool::new(false);

/// Prints each warning every time from now on: the log of a server is about one request after another.
pub fn print_all() {
    ALL.store(true, Ordering::Relaxed);
}

/// Whether a warning is printed: it is given for the first time, or all are printed.
pub fn is_printed(warning: &str) -> bool {
    ALL.load(Ordering::Relaxed) || count(&mut GIVEN.lock().unwrap_or_else(PoisonError::into_inner), warning)
}

fn count(given: &mut BTreeMap<String, u64>, warning: &str) -> bool {
    match given.get_mut(warning) {
        Some(count) => {
            *count += 1;
            false
        }
        None => {
            if given.len() < KEPT {
                given.insert(warning.to_owned(), 1);
            }
            true
        }
    }
}

/// Prints how often each was given, of those that were given several times.
pub fn report() {
    let given = std::mem::take(&mut *GIVEN.lock().unwrap_or_else(PoisonError::into_inner));
    for (warning, count) in given.into_iter().filter(|(_, count)| *count > 1) {
        note!("{count} times: {}", warning.lines().next().unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_is_printed_once_and_many_different_ones_each_time() {
        let mut given = BTreeMap::new();
        assert_eq!(["a", "b", "a", "a"].map(|warning| count(&mut given, warning)), [true, true, false, false]);
        assert_eq!((given["a"], given["b"]), (3, 1));
        (0..KEPT).for_each(|number| assert!(count(&mut given, &number.to_string())));
        assert!(count(&mut given, "late") && count(&mut given, "late"));
    }
}
