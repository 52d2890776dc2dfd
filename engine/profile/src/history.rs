//! Memory over time as allocations, in the format of PyTorch's memory snapshots: [`History`].
//!
//! What is recorded is the memory in use at both ends of each range, not single allocations. A block
//! of the history is the growth of memory between two ends, with the ranges around it in place of a
//! stack of functions. When memory shrinks, the newest blocks are freed, because a backward pass frees
//! in the reverse order: the sum at each time is measured, the block that is freed is assumed.

use std::collections::HashMap;

use hearth_pickle::{Kept, Writer};

use crate::owners::{OTHERS, owner_of};
use crate::timeline::{Range, Timeline, Value};

/// Changes below this part of the highest memory are joined with the next one.
const FINE: u64 = 20_000;

/// The frame of memory that was in use when the recording began, and that no owner reports.
const BEFORE: &str = "before the recording";

/// The address of the first block. PyTorch's viewer computes with numbers of 53 bits.
const BASE: u64 = 1 << 32;

/// A block of memory from its allocation on.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Block {
    /// The bytes that are allocated before it: it lies on top of the older blocks.
    offset: u64,
    size: u64,
    /// The index of its frames.
    frames: usize,
    owner: &'static str,
}

/// A change.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Change {
    /// Microseconds since the start of the recording.
    micros: u64,
    block: Block,
    /// Whether the block is allocated, or freed.
    allocated: bool,
}

/// The allocations of a recording.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// Stacks of ranges, the innermost first.
    frames: Vec<Vec<String>>,
    changes: Vec<Change>,
    /// The blocks at the end.
    live: Vec<Block>,
    /// The highest sum of blocks.
    peak: u64,
}

impl History {
    /// The history of the training's thread; `None` where memory was not measured. `kept` has the bytes
    /// that owners keep during the whole recording.
    pub fn of(timeline: &Timeline, kept: &[(&'static str, usize)]) -> Option<Self> {
        let first = timeline.named("iteration").next().or(timeline.ranges.first())?;
        let own: Vec<&Range> = timeline.ranges.iter().filter(|range| range.thread == first.thread).collect();
        let peak = own.iter().flat_map(|range| range.memory).max().filter(|peak| *peak > 0)?;
        let mut builder = Builder { fine: (peak / FINE).max(1), ..Builder::default() };
        builder.begin(own.first()?.memory[0], kept);
        let mut open: Vec<&Range> = Vec::new();
        for range in own {
            while let Some(around) = open.pop_if(|around| around.end() <= range.start) {
                builder.reach(around.end(), around.memory[1], &open, Some(around));
            }
            builder.reach(range.start, range.memory[0], &open, None);
            open.push(range);
        }
        while let Some(around) = open.pop() {
            builder.reach(around.end(), around.memory[1], &open, Some(around));
        }
        Some(builder.history)
    }

    /// The history as a pickle that `torch.cuda._memory_viz` and pytorch.org/memory_viz open.
    pub fn pickle(&self) -> Vec<u8> {
        let mut pickle = Writer::new();
        let mut frames = Frames { all: &self.frames, written: HashMap::new() };
        pickle.begin_dict();
        pickle.text("segments");
        pickle.list([()], |pickle, ()| self.segment(pickle, &mut frames));
        pickle.text("device_traces");
        pickle.list([()], |pickle, ()| self.trace(pickle, &mut frames));
        pickle.text("allocator_settings");
        pickle.begin_dict();
        pickle.text("recorded by");
        pickle.text("hearth profile: growth of the process's memory between ranges");
        pickle.end_dict();
        pickle.end_dict();
        pickle.finish()
    }

    /// The only segment: the blocks at the end, and what was in use at the peak.
    fn segment(&self, pickle: &mut Writer, frames: &mut Frames<'_>) {
        let size: u64 = self.live.iter().map(|block| block.size).sum();
        pickle.begin_dict();
        text(pickle, "segment_type", "large");
        for (key, value) in [
            ("device", 0),
            ("address", BASE),
            ("total_size", self.peak),
            ("stream", 0),
            ("allocated_size", size),
            ("active_size", size),
            ("requested_size", size),
        ] {
            number(pickle, key, value);
        }
        pickle.text("segment_pool_id");
        pickle.pair(|pickle| [0, 0].into_iter().for_each(|id| pickle.int(id)));
        pickle.text("is_expandable");
        pickle.bool(false);
        pickle.text("frames");
        pickle.list([0; 0], |pickle, none| pickle.int(none));
        pickle.text("blocks");
        let rest = (self.peak > size).then_some(None);
        pickle.list(self.live.iter().map(Some).chain(rest), |pickle, block| {
            pickle.begin_dict();
            let (offset, bytes, state) = match block {
                Some(block) => (block.offset, block.size, "active_allocated"),
                None => (size, self.peak - size, "inactive"),
            };
            number(pickle, "address", BASE + offset);
            number(pickle, "size", bytes);
            number(pickle, "requested_size", if block.is_some() { bytes } else { 0 });
            text(pickle, "state", state);
            pickle.text("frames");
            match block {
                Some(block) => frames.write(pickle, block.frames),
                None => pickle.list([0; 0], |pickle, none| pickle.int(none)),
            }
            if let Some(block) = block {
                text(pickle, "category", block.owner);
            }
            pickle.end_dict();
        });
        pickle.end_dict();
    }

    /// The changes: an allocation is one event, and the end of a block two, as with PyTorch's allocator.
    fn trace(&self, pickle: &mut Writer, frames: &mut Frames<'_>) {
        let events = self.changes.iter().flat_map(|change| {
            let actions: &[&str] = if change.allocated { &["alloc"] } else { &["free_requested", "free_completed"] };
            actions.iter().map(move |action| (*action, change))
        });
        pickle.list(events, |pickle, (action, change)| {
            pickle.begin_dict();
            text(pickle, "action", action);
            number(pickle, "addr", BASE + change.block.offset);
            number(pickle, "size", change.block.size);
            number(pickle, "stream", 0);
            number(pickle, "time_us", change.micros);
            pickle.text("frames");
            frames.write(pickle, change.block.frames);
            text(pickle, "category", change.block.owner);
            pickle.end_dict();
        });
    }
}

fn text(pickle: &mut Writer, key: &str, value: &str) {
    pickle.text(key);
    pickle.text(value);
}

fn number(pickle: &mut Writer, key: &str, value: u64) {
    pickle.text(key);
    // Bytes and microseconds of a process are far below.
    pickle.int(i64::try_from(value).unwrap_or(i64::MAX));
}

/// Stacks of ranges, each of which is written once.
struct Frames<'a> {
    all: &'a [Vec<String>],
    written: HashMap<usize, Kept>,
}

impl Frames<'_> {
    fn write(&mut self, pickle: &mut Writer, index: usize) {
        if let Some(kept) = self.written.get(&index) {
            return pickle.again(*kept);
        }
        pickle.list(&self.all[index], |pickle, name| {
            pickle.begin_dict();
            text(pickle, "name", name);
            text(pickle, "filename", "range");
            number(pickle, "line", 0);
            pickle.end_dict();
        });
        let kept = pickle.keep();
        self.written.insert(index, kept);
    }
}

/// Makes a history from the memory at each time, in their order.
#[derive(Default)]
struct Builder {
    history: History,
    /// The sum of the blocks.
    sum: u64,
    /// Smaller changes are joined.
    fine: u64,
    known: HashMap<Vec<String>, usize>,
}

impl Builder {
    /// The memory in use at the start, by the owners that keep some.
    fn begin(&mut self, bytes: u64, kept: &[(&'static str, usize)]) {
        for &(owner, size) in kept {
            let size = (size as u64).min(bytes - self.sum);
            self.allocate(0, size, vec![owner.to_owned()], owner);
        }
        self.allocate(0, bytes - self.sum, vec![BEFORE.to_owned()], OTHERS);
    }

    /// The memory in use at a time, at an end of `range` or within `open`.
    fn reach(&mut self, at: u64, bytes: u64, open: &[&Range], range: Option<&Range>) {
        let micros = at / 1000;
        // A range that began before memory was measured.
        if bytes == 0 || bytes.abs_diff(self.sum) < self.fine {
            return;
        }
        if bytes < self.sum {
            return self.free(micros, self.sum - bytes);
        }
        let around = range.into_iter().chain(open.iter().rev().copied());
        let owner = around.clone().filter_map(|range| owner_of(range.name)).next_back().unwrap_or(OTHERS);
        self.allocate(micros, bytes - self.sum, around.map(name).collect(), owner);
    }

    fn allocate(&mut self, micros: u64, size: u64, names: Vec<String>, owner: &'static str) {
        if size == 0 {
            return;
        }
        let next = self.history.frames.len();
        let frames = *self.known.entry(names).or_insert_with_key(|names| {
            self.history.frames.push(names.clone());
            next
        });
        self.push(micros, Block { offset: self.sum, size, frames, owner });
    }

    fn push(&mut self, micros: u64, block: Block) {
        self.sum += block.size;
        self.history.peak = self.history.peak.max(self.sum);
        self.history.changes.push(Change { micros, block: block.clone(), allocated: true });
        self.history.live.push(block);
    }

    /// Frees the newest blocks; of the last one, what is left is a new block.
    fn free(&mut self, micros: u64, mut bytes: u64) {
        while bytes > 0 {
            let Some(block) = self.history.live.pop() else { return };
            self.sum -= block.size;
            let left = block.size.saturating_sub(bytes);
            bytes = bytes.saturating_sub(block.size);
            self.history.changes.push(Change { micros, block: block.clone(), allocated: false });
            if left > 0 {
                self.push(micros, Block { size: left, ..block });
            }
        }
    }
}

/// A range as a frame: with the shape of a kernel, the number of an iteration.
fn name(range: &Range) -> String {
    let detail = range.fields.iter().find_map(|(name, value)| match (*name, value) {
        ("shape" | "iteration" | "epoch", value) if !matches!(value, Value::Flag(_)) => Some(value.text()),
        _ => None,
    });
    detail.map_or_else(|| range.label(), |detail| format!("{} {detail}", range.label()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(name: &'static str, start: u64, end: u64, memory: [u64; 2]) -> Range {
        let (start, nanos) = (start * 1000, (end - start) * 1000);
        Range { name, detail: None, fields: Vec::new(), thread: 0, start, nanos, memory }
    }

    /// The sum of the blocks after each change.
    fn sums(history: &History) -> Vec<(u64, u64)> {
        let mut sum = 0;
        let change = |change: &Change| {
            match change.allocated {
                true => sum += change.block.size,
                false => sum -= change.block.size,
            }
            (change.micros, sum)
        };
        history.changes.iter().map(change).collect()
    }

    #[test]
    fn the_sum_is_measured_and_growth_has_its_ranges() {
        let ranges = vec![
            range("iteration", 0, 100, [1000, 1200]),
            range("forward", 10, 40, [1000, 1900]),
            range("kernel", 12, 20, [1100, 1600]),
            range("backward", 50, 90, [1900, 1300]),
        ];
        let timeline = Timeline { ranges, threads: vec!["main".into()], nanos: 100_000, lost: 0 };
        let history = History::of(&timeline, &[("weights", 600)]).expect("it was measured");
        assert_eq!((history.peak, history.live.iter().map(|block| block.size).sum::<u64>()), (1900, 1200));
        // Each time has the measured sum in the end.
        let last: HashMap<u64, u64> = sums(&history).into_iter().collect();
        let expected = [(0, 1000), (12, 1100), (20, 1600), (40, 1900), (90, 1300), (100, 1200)];
        assert_eq!(last, expected.into());
        let grown: Vec<(&str, u64, &str)> = history
            .changes
            .iter()
            .filter(|change| change.allocated)
            .map(|change| (&*history.frames[change.block.frames][0], change.block.size, change.block.owner))
            .collect();
        assert_eq!(
            grown,
            [
                ("weights", 600, "weights"),
                (BEFORE, 400, OTHERS),
                ("forward", 100, "activations"),
                ("kernel", 500, "activations"),
                ("forward", 300, "activations"),
                // The rest of the kernel's block, when 600 bytes are freed, and when 100 more are.
                ("kernel", 200, "activations"),
                ("kernel", 100, "activations"),
            ]
        );
        assert_eq!(history.frames[3], ["kernel", "forward", "iteration"]);
        // Blocks lie on each other: none overlaps, and none ends above the peak.
        assert!(history.changes.iter().all(|change| change.block.offset + change.block.size <= history.peak));
    }

    #[test]
    fn without_memory_there_is_no_history() {
        assert!(History::of(&Timeline::default(), &[]).is_none());
        let ranges = vec![range("iteration", 0, 100, [0, 0])];
        assert!(History::of(&Timeline { ranges, ..Timeline::default() }, &[]).is_none());
    }
}
