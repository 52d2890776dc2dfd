//! The memory that this process may use: [`Allowance`].

use std::fmt;
use std::path::Path;

use super::limits::{Limit, of_groups, of_slurm, of_ulimit};
use super::process::machine_memory;

/// The memory that this process may use: the machine's memory, or the lowest of the limits set by
/// control groups (v1 and v2, nested), `ulimit` and SLURM.
///
/// This is the only source of that number: caches, readers, the check before a run, `hearth memory`
/// and `hearth doctor` use it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Allowance {
    /// The maximum number of bytes that the process may use.
    pub bytes: u64,
    /// Bytes that the process may use in addition to those in use now: the minimum over all limits.
    pub free: u64,
    /// The limit that sets `bytes`, in words: `this machine's memory`, `` `ulimit -v` ``.
    pub by: String,
}

impl Allowance {
    /// Reads the current allowance.
    pub fn now() -> Self {
        let (total, free) = machine_memory();
        Self::within(total, free, memory_limits())
    }

    fn within(total: u64, free: u64, limits: Vec<Limit>) -> Self {
        let machine = Self { bytes: total, free, by: "this machine's memory".to_owned() };
        limits.into_iter().fold(machine, |lowest, limit| {
            let free = lowest.free.min(limit.bytes.saturating_sub(limit.used));
            match limit.bytes < lowest.bytes {
                true => Self { bytes: limit.bytes, free, by: limit.by },
                false => Self { free, ..lowest },
            }
        })
    }
}

/// Checks that a piece of work fits into the memory that this process may still use, before it is
/// allocated: a failed allocation ends the process. Small work is not checked.
///
/// # Errors
/// Work that does not fit, in words that follow what the work is: "takes 3.1 GiB of memory, but ...".
pub fn check_free(bytes: u64) -> Result<(), String> {
    /// Below this size the system is not queried.
    const LITTLE: u64 = 64 << 20;
    if bytes <= LITTLE {
        return Ok(());
    }
    let allowance = Allowance::now();
    if bytes <= allowance.free {
        return Ok(());
    }
    let (takes, free) = (readable(bytes), readable(allowance.free));
    Err(format!("takes {takes} of memory, but {free} of {allowance} are left"))
}

impl fmt::Display for Allowance {
    /// Formats as `22.4 GiB (this machine's memory)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", readable(self.bytes), self.by)
    }
}

/// Formats bytes in a readable unit.
pub fn readable(bytes: u64) -> String {
    let units = [(60, "EiB"), (40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
    let unit = units.into_iter().find(|(bits, _)| bytes >> bits > 0);
    unit.map_or_else(
        || format!("{bytes} B"),
        |(bits, name)| format!("{:.1} {name}", bytes as f64 / (1_u64 << bits) as f64),
    )
}

/// All memory limits of this process, apart from the machine's own memory.
pub fn memory_limits() -> Vec<Limit> {
    let root = Path::new("/");
    let mut all = of_groups(root);
    all.extend(of_ulimit(root));
    all.extend(of_slurm(root, |name| std::env::var(name).ok()));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(bytes: u64, used: u64, by: &str) -> Limit {
        Limit { bytes, used, by: by.to_owned(), raise: String::new() }
    }

    #[test]
    fn the_lowest_limit_counts_and_what_is_free_is_what_each_leaves() {
        let found = Allowance::within(100, 80, vec![limit(60, 10, "a group"), limit(70, 50, "SLURM")]);
        assert_eq!(found, Allowance { bytes: 60, free: 20, by: "a group".to_owned() });
        let found = Allowance::within(100, 80, vec![limit(200, 0, "a group")]);
        assert_eq!(found, Allowance { bytes: 100, free: 80, by: "this machine's memory".to_owned() });
        assert_eq!(Allowance::within(100, 80, vec![limit(60, 90, "a group")]).free, 0);
    }

    #[test]
    fn this_process_may_use_something() {
        let found = Allowance::now();
        assert!(found.free > 0 && found.free <= found.bytes, "{found:?}");
    }
}
