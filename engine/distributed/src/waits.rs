//! The time that ranks wait for each other: [`Waits`].

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{At, CommError, Communicator};

/// The waits of one rank in one phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PhaseWaits {
    /// The number of operations that were waited for.
    pub operations: u64,
    /// The number of bytes that this rank contributed to them.
    pub bytes: u64,
    /// The time spent waiting, in seconds.
    pub seconds: f64,
    /// The longest wait, in seconds.
    pub longest_seconds: f64,
}

/// The waits of one rank, by phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Waits {
    /// The waits, by the phase of [`At`].
    pub phases: BTreeMap<String, PhaseWaits>,
}

impl Waits {
    /// The time spent waiting in all phases, in seconds.
    pub fn seconds(&self) -> f64 {
        self.phases.values().map(|phase| phase.seconds).sum()
    }

    /// Adds the waits of another communicator of this rank.
    pub(crate) fn and(mut self, other: Waits) -> Waits {
        for (phase, more) in other.phases {
            let entry = self.phases.entry(phase).or_default();
            entry.operations += more.operations;
            entry.bytes += more.bytes;
            entry.seconds += more.seconds;
            entry.longest_seconds = entry.longest_seconds.max(more.longest_seconds);
        }
        self
    }
}

/// The waits of a communicator in use.
#[derive(Debug, Default)]
pub(crate) struct Ledger(Mutex<Waits>);

impl Ledger {
    pub(crate) fn record(&self, phase: &str, bytes: u64, waited: Duration) {
        let mut waits = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Phases are few; only the first wait of a phase allocates its name.
        if !waits.phases.contains_key(phase) {
            waits.phases.insert(phase.to_owned(), PhaseWaits::default());
        }
        if let Some(entry) = waits.phases.get_mut(phase) {
            entry.operations += 1;
            entry.bytes += bytes;
            entry.seconds += waited.as_secs_f64();
            entry.longest_seconds = entry.longest_seconds.max(waited.as_secs_f64());
        }
    }

    pub(crate) fn waits(&self) -> Waits {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The waits of every rank, on every rank.
///
/// # Errors
/// As [`Pending::wait`](crate::Pending::wait).
pub fn gather_waits(ranks: &dyn Communicator, at: &At) -> Result<Vec<Waits>, CommError> {
    let own = serde_json::to_vec(&ranks.waits()).unwrap_or_default();
    let parts = ranks.all_gather(own, at)?;
    Ok(parts.iter().map(|part| serde_json::from_slice(part).unwrap_or_default()).collect())
}

/// The rank for which the others wait.
#[derive(Clone, Debug, PartialEq)]
pub struct Straggler {
    /// The rank that waited least.
    pub rank: usize,
    /// The difference of its wait to that of the median rank, in seconds.
    pub behind_seconds: f64,
}

/// The rank that waited least: in a collective, all ranks wait for the last one, which does not
/// wait. `None` with fewer than two ranks.
pub fn straggler(waits: &[Waits]) -> Option<Straggler> {
    let mut order: Vec<(f64, usize)> = waits.iter().enumerate().map(|(rank, waits)| (waits.seconds(), rank)).collect();
    order.sort_by(|a, b| a.0.total_cmp(&b.0));
    match order.as_slice() {
        [] | [_] => None,
        [(least, rank), ..] => Some(Straggler { rank: *rank, behind_seconds: order[order.len() / 2].0 - least }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_straggler_is_who_waits_least() {
        let ranks = [3.0, 0.5, 2.0, 3.5].map(|seconds| {
            let ledger = Ledger::default();
            ledger.record("gradients", 100, Duration::from_secs_f64(seconds));
            ledger.record("gradients", 20, Duration::ZERO);
            ledger.waits()
        });
        let found = straggler(&ranks).expect("four ranks");
        assert_eq!((found.rank, found.behind_seconds), (1, 2.5));
        let phase = &ranks[0].phases["gradients"];
        assert_eq!((phase.operations, phase.bytes, phase.longest_seconds), (2, 120, 3.0));
        assert_eq!(straggler(&ranks[..1]), None);
    }
}
