//! Memory over time by owner: [`MemoryByOwner`].

use std::collections::BTreeMap;

use serde::Serialize;

use crate::timeline::{Range, Timeline};

/// The rest, which no other work explains: waiting batches, a checkpoint that is being written.
pub(crate) const OTHERS: &str = "batches and others";

/// The phases of the training's thread, and the owner of the memory above [`OTHERS`] in each.
const PHASES: [(&str, &str); 6] = [
    ("forward", "activations"),
    ("loss", "activations"),
    ("backward", "activations and gradients"),
    ("reduce", "gradients"),
    ("optimizer", "gradients"),
    ("validation", "validation"),
];

/// The owner of memory that a phase of the training allocates.
pub(crate) fn owner_of(phase: &str) -> Option<&'static str> {
    PHASES.iter().find(|(name, _)| *name == phase).map(|(_, owner)| *owner)
}

/// Memory over time, by owner. Weights, optimizer and caches report their own bytes; the rest in
/// use is assigned to the phase of the training's thread at that time. Memory that other threads
/// allocate meanwhile is assigned to the same phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct MemoryByOwner {
    /// The names of the owners.
    pub owners: Vec<String>,
    /// Nanoseconds since the start of the recording, and the bytes of each owner.
    pub samples: Vec<(u64, Vec<u64>)>,
}

impl MemoryByOwner {
    /// Computes it from a timeline whose ranges recorded memory, and the bytes that owners keep.
    pub fn of(timeline: &Timeline, kept: &[(&'static str, usize)]) -> Self {
        let samples = samples(timeline);
        let fixed: u64 = kept.iter().map(|(_, bytes)| *bytes as u64).sum();
        let phases = Phases::of(timeline);
        let named: Vec<(u64, Option<&'static str>, u64)> =
            samples.iter().map(|(at, bytes)| (*at, phases.at(*at), bytes.saturating_sub(fixed))).collect();
        // Between steps, the rest never falls below this value.
        let others = named.iter().map(|(_, _, left)| *left).min().unwrap_or_default();
        let mut owners: Vec<&'static str> = kept.iter().map(|(name, _)| *name).collect();
        owners.push(OTHERS);
        for (_, owner) in PHASES {
            if !owners.contains(&owner) && named.iter().any(|(_, found, _)| *found == Some(owner)) {
                owners.push(owner);
            }
        }
        let place = |name: &str| owners.iter().position(|owner| *owner == name).unwrap_or(kept.len());
        let sample = |(at, owner, left): (u64, Option<&'static str>, u64)| {
            let mut bytes = vec![0; owners.len()];
            for (index, (_, kept)) in kept.iter().enumerate() {
                bytes[index] = *kept as u64;
            }
            bytes[place(OTHERS)] += others;
            bytes[place(owner.unwrap_or(OTHERS))] += left - others;
            (at, bytes)
        };
        let samples = named.into_iter().map(sample).collect();
        Self { owners: owners.into_iter().map(str::to_owned).collect(), samples }
    }

    /// The bytes of each owner when their sum is highest.
    pub fn peak(&self) -> Vec<(String, u64)> {
        let Some((_, bytes)) = self.samples.iter().max_by_key(|(_, bytes)| bytes.iter().sum::<u64>()) else {
            return Vec::new();
        };
        self.owners.iter().cloned().zip(bytes.iter().copied()).collect()
    }
}

/// The memory in use over time: the maximum of each thousandth of the recording.
pub(crate) fn samples(timeline: &Timeline) -> Vec<(u64, u64)> {
    let step = (timeline.nanos / 1000).max(1);
    let mut highest: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    for range in &timeline.ranges {
        for (at, bytes) in [(range.start, range.memory[0]), (range.end(), range.memory[1])] {
            if bytes == 0 {
                continue;
            }
            let kept = highest.entry(at / step).or_insert((at, bytes));
            if bytes > kept.1 {
                *kept = (at, bytes);
            }
        }
    }
    highest.into_values().collect()
}

/// The phases of the training's thread over time.
struct Phases<'a> {
    ranges: Vec<&'a Range>,
}

impl<'a> Phases<'a> {
    fn of(timeline: &'a Timeline) -> Self {
        let thread = timeline.named("iteration").map(|range| range.thread).next();
        let of_training =
            |range: &&Range| Some(range.thread) == thread && PHASES.iter().any(|(name, _)| *name == range.name);
        let mut ranges: Vec<&Range> = Vec::new();
        for range in timeline.ranges.iter().filter(of_training) {
            // Ranges within a validation belong to the validation.
            if ranges.last().is_none_or(|last| last.end() <= range.start) {
                ranges.push(range);
            }
        }
        Self { ranges }
    }

    fn at(&self, at: u64) -> Option<&'static str> {
        let next = self.ranges.partition_point(|range| range.start <= at);
        let range = self.ranges.get(next.checked_sub(1)?)?;
        owner_of(range.name).filter(|_| at <= range.end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(name: &'static str, thread: usize, start: u64, nanos: u64, memory: [u64; 2]) -> Range {
        Range { name, detail: None, fields: Vec::new(), thread, start, nanos, memory }
    }

    #[test]
    fn memory_belongs_to_what_the_training_does() {
        let ranges = vec![
            range("iteration", 0, 0, 100, [130, 130]),
            range("forward", 0, 5, 35, [130, 400]),
            range("backward", 0, 45, 35, [400, 230]),
            range("optimizer", 0, 85, 10, [230, 130]),
            range("validation", 0, 200, 90, [140, 140]),
            range("forward", 0, 210, 50, [140, 5000]),
            range("transform", 1, 110, 20, [150, 160]),
        ];
        let timeline = Timeline { ranges, threads: vec!["main".into(), "loader".into()], nanos: 1000, lost: 0 };
        let found = MemoryByOwner::of(&timeline, &[("caches", 20), ("weights", 100)]);
        let names = [
            "caches",
            "weights",
            "batches and others",
            "activations",
            "activations and gradients",
            "gradients",
            "validation",
        ];
        assert_eq!(found.owners, names);
        let at = |wanted: u64| found.samples.iter().find(|(at, _)| *at == wanted).map(|(_, bytes)| bytes.clone());
        assert_eq!(at(40), Some(vec![20, 100, 10, 270, 0, 0, 0]));
        assert_eq!(at(45), Some(vec![20, 100, 10, 0, 270, 0, 0]));
        assert_eq!(at(85), Some(vec![20, 100, 10, 0, 0, 100, 0]));
        assert_eq!(at(130), Some(vec![20, 100, 40, 0, 0, 0, 0]), "the loader's while the training waits");
        assert_eq!(at(260), Some(vec![20, 100, 10, 0, 0, 0, 4870]));
        assert_eq!(found.peak()[6], ("validation".to_owned(), 4870));
        assert!(found.samples.iter().all(|(at, bytes)| {
            let all = bytes.iter().sum::<u64>();
            timeline
                .ranges
                .iter()
                .any(|r| (r.start == *at && r.memory[0] == all) || (r.end() == *at && r.memory[1] == all))
        }));
        assert_eq!(MemoryByOwner::of(&Timeline::default(), &[("weights", 1)]).samples, []);
    }
}
