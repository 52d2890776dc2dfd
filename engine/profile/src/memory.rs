//! The parts of the memory by work: [`Memory`].

use std::collections::BTreeMap;

use serde::Serialize;

use crate::owners::MemoryByOwner;
use crate::timeline::{Range, Timeline, Value};

/// The memory that a kind of kernel leaves allocated in a forward pass, for the backward pass.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Activation {
    /// The kernel, with its shape.
    pub kernel: String,
    /// The number of runs in a forward pass, on average.
    pub count: f64,
    /// Bytes in a forward pass, on average; negative where the kernel frees more than it allocates.
    pub bytes: f64,
}

/// The memory of a timeline whose ranges recorded it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Memory {
    /// The maximum of bytes at either end of a range.
    pub peak: u64,
    /// The ranges around that moment, outermost first.
    pub at: Vec<String>,
    /// Seconds from the start of the recording to the peak.
    pub seconds: f64,
    /// The iteration of the training or the validation at the peak.
    pub iteration: Option<i64>,
    /// The bytes of each owner when their sum is highest.
    pub owners: BTreeMap<String, u64>,
    /// Bytes at the start of the training's forward passes, on average: weights, optimizer, caches,
    /// batches.
    pub before_forward: f64,
    /// Bytes at the end of these forward passes.
    pub after_forward: f64,
    /// The difference, by kernel, in descending order.
    pub activations: Vec<Activation>,
}

impl Memory {
    /// The memory of a timeline, given its memory by owner; `None` where memory was not measured.
    pub fn of(timeline: &Timeline, by_owner: &MemoryByOwner) -> Option<Self> {
        let ends = |range: &Range| [(range.start, range.memory[0]), (range.end(), range.memory[1])];
        let samples = timeline.ranges.iter().flat_map(ends);
        let (at, peak) = samples.max_by_key(|(at, bytes)| (*bytes, std::cmp::Reverse(*at))).filter(|(_, b)| *b > 0)?;
        let around: Vec<&Range> =
            timeline.ranges.iter().filter(|range| range.start <= at && at <= range.end()).collect();
        let iteration = around.iter().rev().find_map(|range| iteration(range));
        let around = around.into_iter().map(Range::label).collect();
        let owners = by_owner.peak().into_iter().collect();
        let forward = of_training(timeline);
        let count = forward.len().max(1) as f64;
        let mean = |end: usize| forward.iter().map(|range| range.memory[end] as f64).sum::<f64>() / count;
        let mut kernels: BTreeMap<String, (u64, f64)> = BTreeMap::new();
        for pass in &forward {
            let within = timeline.named("kernel").filter(|kernel| {
                kernel.thread == pass.thread && pass.start <= kernel.start && kernel.end() <= pass.end()
            });
            for kernel in within {
                let shape = kernel.fields.iter().find(|(name, _)| *name == "shape");
                let shape = shape.map(|(_, shape)| format!(" {}", shape.text())).unwrap_or_default();
                let (times, bytes) = kernels.entry(format!("{}{shape}", kernel.label())).or_default();
                *times += 1;
                *bytes += kernel.memory[1] as f64 - kernel.memory[0] as f64;
            }
        }
        let activation = |(kernel, (times, bytes)): (String, (u64, f64))| Activation {
            kernel,
            count: times as f64 / count,
            bytes: bytes / count,
        };
        let mut activations: Vec<Activation> = kernels.into_iter().map(activation).collect();
        activations.sort_by(|a, b| b.bytes.total_cmp(&a.bytes));
        let seconds = at as f64 * 1e-9;
        let [before_forward, after_forward] = [mean(0), mean(1)];
        Some(Self { peak, at: around, seconds, iteration, owners, before_forward, after_forward, activations })
    }
}

impl Memory {
    /// Formats a table for the user.
    pub fn table(&self) -> String {
        let mib = |bytes: f64| bytes / 1_048_576.0;
        let iteration = self.iteration.map(|number| format!(" of iteration {number}")).unwrap_or_default();
        let mut text = format!(
            "memory: {:.0} MiB at most, {:.2} s after the beginning, in {}{iteration}\n",
            mib(self.peak as f64),
            self.seconds,
            self.at.join(", ")
        );
        let mut owners: Vec<(&String, &u64)> = self.owners.iter().collect();
        owners.sort_by_key(|(_, bytes)| std::cmp::Reverse(**bytes));
        for (owner, bytes) in owners {
            text.push_str(&format!("{:>9.1} MiB  {owner}\n", mib(*bytes as f64)));
        }
        text.push_str(&format!(
            "a forward pass of the training begins with {:.0} MiB and ends with {:.0} MiB\n",
            mib(self.before_forward),
            mib(self.after_forward)
        ));
        // Entries below a tenth of a MiB are left out.
        for Activation { kernel, count, bytes } in self.activations.iter().filter(|one| mib(one.bytes) >= 0.1) {
            text.push_str(&format!("{:>9.1} MiB  {count:.0} x {kernel}\n", mib(*bytes)));
        }
        text
    }
}

/// The number of an iteration.
fn iteration(range: &Range) -> Option<i64> {
    range.fields.iter().find_map(|(name, value)| match (*name, value) {
        ("iteration", Value::Number(number)) => Some(*number),
        _ => None,
    })
}

/// The forward passes of the training: those that a backward pass follows.
fn of_training(timeline: &Timeline) -> Vec<&Range> {
    let validations: Vec<&Range> = timeline.named("validation").collect();
    let validates = |range: &Range| {
        validations.iter().any(|v| v.thread == range.thread && v.start <= range.start && range.end() <= v.end())
    };
    timeline.named("forward").filter(|range| !validates(range)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(name: &'static str, start: u64, nanos: u64, memory: [u64; 2]) -> Range {
        let fields = match name {
            "kernel" => vec![("shape", Value::Text("1x8".into()))],
            "validation" => vec![("iteration", Value::Number(7))],
            _ => Vec::new(),
        };
        let detail = (name == "kernel").then(|| "conv".into());
        Range { name, detail, fields, thread: 0, start, nanos, memory }
    }

    #[test]
    fn a_forward_pass_leaves_what_its_kernels_leave() {
        let ranges = vec![
            range("iteration", 0, 100, [100, 110]),
            range("forward", 0, 40, [100, 400]),
            range("kernel", 1, 10, [100, 300]),
            range("kernel", 12, 10, [300, 390]),
            range("backward", 41, 40, [400, 110]),
            range("kernel", 42, 10, [400, 900]),
            range("validation", 200, 90, [110, 110]),
            range("forward", 210, 50, [110, 5000]),
        ];
        let timeline = Timeline { ranges, threads: vec!["main".into()], nanos: 300, lost: 0 };
        let by_owner = MemoryByOwner::of(&timeline, &[]);
        let memory = Memory::of(&timeline, &by_owner).expect("it was measured");
        assert_eq!((memory.peak, memory.seconds), (5000, 260e-9));
        assert_eq!(memory.at, ["validation", "forward"]);
        assert_eq!((memory.before_forward, memory.after_forward), (100.0, 400.0));
        assert_eq!(memory.activations.len(), 1, "neither the backward pass's nor the validation's");
        let Activation { kernel, count, bytes } = &memory.activations[0];
        assert_eq!((kernel.as_str(), *count, *bytes), ("kernel conv 1x8", 2.0, 290.0));
        assert_eq!((memory.iteration, memory.owners["validation"]), (Some(7), 4900));
        let without = Timeline { ranges: vec![range("forward", 0, 1, [0, 0])], ..timeline };
        assert_eq!(Memory::of(&without, &by_owner), None);
    }
}
