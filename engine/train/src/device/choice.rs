//! The order in which `auto` takes the GPUs of a machine: [`order`].

use std::cmp::Reverse;

use hearth_machine::Slot;

/// Percent of time in which kernels run, above which a GPU is in use.
const BUSY: f64 = 10.0;

/// Free memories are alike within this part of the largest.
const STEPS: f64 = 20.0;

/// The indices of the GPUs, the best first: GPUs in use last, then by free memory, in steps of a
/// twentieth of the largest, then by the work that they do, then by index. An unknown GPU counts as idle,
/// and as without free memory.
pub(super) fn order(slots: &[Slot]) -> Vec<usize> {
    let most = slots.iter().filter_map(|slot| slot.free).max().unwrap_or(0).max(1) as f64;
    let key = |index: usize| {
        let work = slots[index].utilisation.unwrap_or(0.0);
        let free = (slots[index].free.unwrap_or(0) as f64 / most * STEPS).round() as u64;
        // Percent, to be compared.
        (work > BUSY, Reverse(free), (work * 100.0).round() as u64)
    };
    let mut indices: Vec<usize> = (0..slots.len()).collect();
    indices.sort_by_key(|index| key(*index));
    indices
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A GPU with this free memory in GiB, and this utilisation.
    fn slot(free: u64, utilisation: f64) -> Slot {
        Slot { free: Some(free << 30), utilisation: Some(utilisation), ..Slot::default() }
    }

    #[test]
    fn the_gpu_with_most_free_memory_and_least_work_comes_first() {
        assert_eq!(order(&[slot(20, 0.0), slot(79, 0.0), slot(40, 0.0)]), [1, 2, 0]);
        // Most memory is free, but another process computes.
        assert_eq!(order(&[slot(70, 95.0), slot(30, 0.0), slot(60, 50.0)]), [1, 0, 2]);
        // A display takes a little of the first one.
        assert_eq!(order(&[slot(78, 7.0), slot(79, 0.0)]), [1, 0]);
        assert_eq!(order(&[slot(79, 0.0), slot(78, 0.0), slot(79, 0.0)]), [0, 1, 2], "alike: by index");
        assert_eq!(order(&[]), [0; 0]);
    }

    #[test]
    fn unknown_gpus_keep_their_order() {
        assert_eq!(order(&[Slot::default(), Slot::default()]), [0, 1]);
        assert_eq!(order(&[Slot::default(), slot(8, 3.0)]), [1, 0]);
        let without_work = Slot { utilisation: None, ..slot(8, 0.0) };
        assert_eq!(order(&[slot(8, 90.0), without_work]), [1, 0]);
    }
}
