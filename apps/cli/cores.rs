//! Pins each rank that `--ranks` starts on this machine to its own cores.

use std::fs;

use hearth_train::distributed::Placement;

/// The variable that asks a rank to keep to its share of the cores; its value is the number of ranks
/// that share them. 0 leaves the placement to the operating system.
pub const ASKED: &str = "HEARTH_PIN_CORES";

/// Pins this process to its share of the cores if [`ASKED`] says so. If that fails, the placement does
/// not change.
pub fn pin_if_asked() {
    let ranks = std::env::var(ASKED).ok().and_then(|ranks| ranks.trim().parse::<usize>().ok()).unwrap_or(0);
    let rank = Placement::from_environment().ok().flatten().and_then(|placement| placement.local_rank);
    if let (1.., Some(rank)) = (ranks, rank) {
        pin(rank, ranks);
    }
}

/// A core as the operating system numbers it, after what it shares with others: the socket, and the
/// physical core of which it may be one of several threads.
type Place = (usize, usize, usize);

fn place(cpu: usize) -> Place {
    let number = |what: &str| {
        let said = fs::read_to_string(format!("/sys/devices/system/cpu/cpu{cpu}/topology/{what}"));
        said.ok().and_then(|said| said.trim().parse::<usize>().ok()).unwrap_or(0)
    };
    (number("physical_package_id"), number("core_id"), cpu)
}

/// The cores of one of `ranks` ranks: neighbours, so that no two ranks run on threads of one physical
/// core while there are enough cores. `None` if there are more ranks than cores.
fn share(mut all: Vec<Place>, rank: usize, ranks: usize) -> Option<Vec<usize>> {
    if rank >= ranks || all.len() < ranks {
        return None;
    }
    all.sort_unstable();
    let (each, more) = (all.len() / ranks, all.len() % ranks);
    let first = rank * each + rank.min(more);
    let count = each + usize::from(rank < more);
    Some(all[first..first + count].iter().map(|(.., cpu)| *cpu).collect())
}

#[cfg(target_os = "linux")]
fn pin(rank: usize, ranks: usize) {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    // The cores that a container or a batch system allows this process.
    let Ok(allowed) = sched_getaffinity(None) else { return };
    let all: Vec<Place> = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)).map(place).collect();
    let Some(own) = share(all, rank, ranks) else { return };
    let mut set = CpuSet::new();
    own.iter().for_each(|cpu| set.set(*cpu));
    match sched_setaffinity(None, &set) {
        Ok(()) => tracing::debug!("rank {rank} of this machine has cores {own:?}"),
        Err(error) => tracing::debug!("rank {rank} of this machine has no cores of its own: {error}"),
    }
}

#[cfg(not(target_os = "linux"))]
fn pin(_rank: usize, _ranks: usize) {}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two sockets of two cores with two threads each, numbered as Linux does: the second threads last.
    fn two_sockets() -> Vec<Place> {
        (0..8).map(|cpu| (cpu % 4 / 2, cpu % 2, cpu)).collect()
    }

    #[test]
    fn ranks_share_no_core_and_each_has_neighbours() {
        let of = |ranks| (0..ranks).map(|rank| share(two_sockets(), rank, ranks)).collect::<Option<Vec<_>>>();
        assert_eq!(of(2), Some(vec![vec![0, 4, 1, 5], vec![2, 6, 3, 7]]), "a socket each");
        assert_eq!(of(4), Some(vec![vec![0, 4], vec![1, 5], vec![2, 6], vec![3, 7]]), "a core with both threads each");
        assert_eq!(of(3), Some(vec![vec![0, 4, 1], vec![5, 2, 6], vec![3, 7]]));
        assert_eq!(of(9), None, "more ranks than cores share them as the system likes");
        assert_eq!(share(two_sockets(), 4, 4), None);
    }
}
