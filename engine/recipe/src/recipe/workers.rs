//! The number of threads that a recipe requests.

use hearth_registry::{Document, Fault};

use super::Data;

/// The largest number of threads of a kind: more than the cores of the largest machines.
const MOST: i64 = 1024;

/// Fails for a number of threads that no machine can start.
pub(super) fn check(document: &Document, data: &Data) -> Result<(), Fault> {
    let of_cache = ["workers", "replace_workers"].map(|key| {
        let count = data.cache.node().get(key).and_then(|node| node.to_toml().as_integer());
        (format!("data.cache.{key}"), count.unwrap_or(0))
    });
    let of_loader = ("data.workers".to_owned(), i64::try_from(data.workers).unwrap_or(i64::MAX));
    for (key, count) in of_cache.into_iter().chain([of_loader]) {
        if count > MOST {
            let message = format!("{count} threads are too many: give at most {MOST}");
            return Err(document.fault(&key, message));
        }
    }
    Ok(())
}
