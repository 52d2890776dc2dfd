//! What the thread of the steps does outside of kernels: [`Occupancy`], as DLProf reports it.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::timeline::{Range, Timeline};

/// A cause and its seconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cause {
    /// The activity of the thread.
    pub name: &'static str,
    /// Seconds in which the thread does that and runs no kernel.
    pub seconds: f64,
    /// The fraction of the recorded time.
    pub share: f64,
}

/// The kernels of one kind of work.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Group {
    /// `convolution`, `normalization`, ...
    pub name: &'static str,
    /// The number of kernels that ran.
    pub count: usize,
    /// Their total time in seconds.
    pub seconds: f64,
    /// The fraction of the time of all kernels.
    pub share: f64,
}

/// How much of the recording the thread of the steps spends in CPU kernels, and what it does in the
/// rest.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Occupancy {
    /// Seconds of each iteration, in their order.
    pub iterations: Vec<f64>,
    /// Seconds in kernels.
    pub busy: f64,
    /// Seconds outside of kernels.
    pub idle: f64,
    /// The causes of the time outside of kernels, the longest first.
    pub causes: Vec<Cause>,
    /// All threads' kernels by kind, the longest first.
    pub groups: Vec<Group>,
}

impl Occupancy {
    /// Computes the occupancy of a timeline; `None` without kernels: GPU kernels are no ranges.
    pub fn of(timeline: &Timeline) -> Option<Self> {
        let main = timeline.named("iteration").next()?.thread;
        let own = timeline.own_nanos();
        let (mut busy, mut named) = (0, 0);
        let mut causes: BTreeMap<&'static str, u64> = BTreeMap::new();
        let mut groups: BTreeMap<&'static str, (usize, u64)> = BTreeMap::new();
        for (range, own) in timeline.ranges.iter().zip(&own) {
            if range.name == "kernel" {
                let group = groups.entry(group(range)).or_default();
                *group = (group.0 + 1, group.1 + own);
            }
            if range.thread == main {
                named += own;
                match cause(range.name) {
                    None => busy += own,
                    Some(cause) => *causes.entry(cause).or_default() += own,
                }
            }
        }
        let kernels: u64 = groups.values().map(|(_, nanos)| nanos).sum();
        if kernels == 0 {
            return None;
        }
        let all = timeline.nanos.max(named);
        *causes.entry("between ranges").or_default() += all - named;
        let seconds = |nanos: u64| nanos as f64 * 1e-9;
        let share = |nanos: u64, of: u64| nanos as f64 / of.max(1) as f64;
        let cause =
            |(name, nanos): (&'static str, u64)| Cause { name, seconds: seconds(nanos), share: share(nanos, all) };
        let mut causes: Vec<Cause> = causes.into_iter().filter(|(_, nanos)| *nanos > 0).map(cause).collect();
        causes.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
        let group = |(name, (count, nanos)): (&'static str, (usize, u64))| Group {
            name,
            count,
            seconds: seconds(nanos),
            share: share(nanos, kernels),
        };
        let mut groups: Vec<Group> = groups.into_iter().map(group).collect();
        groups.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
        let iterations =
            timeline.named("iteration").filter(|range| range.thread == main).map(|range| seconds(range.nanos));
        Some(Self { iterations: iterations.collect(), busy: seconds(busy), idle: seconds(all - busy), causes, groups })
    }

    /// Formats a table for the user.
    pub fn table(&self) -> String {
        let all = (self.busy + self.idle).max(1e-12);
        let mut text = format!(
            "the thread of the steps: {:.3} s in kernels ({:.0} %), {:.3} s outside of them\n",
            self.busy,
            self.busy / all * 100.0,
            self.idle
        );
        for Cause { name, seconds, share } in &self.causes {
            text.push_str(&format!("  {name:<32} {seconds:>9.3} s {:>5.1} %\n", share * 100.0));
        }
        text.push_str("kernels by kind\n");
        for Group { name, count, seconds, share } in &self.groups {
            text.push_str(&format!("  {name:<20} {count:>9} x {seconds:>9.3} s {:>5.1} %\n", share * 100.0));
        }
        text
    }
}

/// Why a thread in this range runs no kernel; `None` for a kernel.
fn cause(name: &str) -> Option<&'static str> {
    Some(match name {
        "kernel" => return None,
        "wait" => "waiting for a batch",
        "fetch" | "copy" => "handing a batch over",
        "batch" | "transform" | "collate" => "preparing batches itself",
        "reduce" => "waiting for other ranks",
        "handler" | "copy checkpoint" | "checkpoint" => "handlers and checkpoints",
        "post" | "metric" | "validation" => "metrics of a validation",
        "forward" | "network" | "loss" | "backward" | "optimizer" => "a step's work outside of kernels",
        _ => "the engine, and anything else",
    })
}

/// The kind of work of a kernel, by its name.
fn group(range: &Range) -> &'static str {
    let name = range.detail.as_deref().unwrap_or_default();
    let kinds = [
        ("conv", "convolution"),
        ("norm", "normalization"),
        ("rectif", "activation"),
        ("gelu", "activation"),
        ("sums", "loss"),
        ("attention", "attention"),
        ("linear", "matrix product"),
        ("pool", "pooling"),
        ("interpolat", "resampling"),
        ("resampl", "resampling"),
        ("filter", "filters"),
        ("dropout", "dropout"),
    ];
    let of = kinds.iter().find(|(part, _)| name.contains(part)).map(|(_, kind)| *kind);
    // Optimizer kernels are recognized by their names.
    let optimizers = ["novograd", "adam", "sgd", "momentum", "square sum", "update"];
    of.or_else(|| optimizers.iter().any(|part| name.contains(part)).then_some("optimizer")).unwrap_or("other")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(name: &'static str, detail: &str, thread: usize, start: u64, nanos: u64) -> Range {
        let detail = (!detail.is_empty()).then(|| detail.into());
        Range { name, detail, fields: Vec::new(), thread, start, nanos, memory: [0; 2] }
    }

    #[test]
    fn time_without_kernels_has_a_cause() {
        let ranges = vec![
            range("iteration", "", 0, 0, 100),
            range("wait", "", 0, 0, 30),
            range("forward", "", 0, 30, 50),
            range("kernel", "conv", 0, 35, 40),
            range("handler", "stats", 0, 80, 10),
            range("transform", "RandFlip", 1, 0, 90),
            range("kernel", "normalize", 1, 10, 20),
        ];
        let timeline = Timeline { ranges, nanos: 120, ..Timeline::default() };
        let found = Occupancy::of(&timeline).expect("there are kernels");
        let nanos = |seconds: f64| (seconds * 1e9).round() as u64;
        assert_eq!((nanos(found.busy), nanos(found.idle)), (40, 80));
        let causes: BTreeMap<_, _> = found.causes.iter().map(|cause| (cause.name, nanos(cause.seconds))).collect();
        assert_eq!(causes["waiting for a batch"], 30);
        assert_eq!(causes["a step's work outside of kernels"], 10);
        assert_eq!(causes["handlers and checkpoints"], 10);
        assert_eq!(causes["the engine, and anything else"], 10, "the rest of the iteration");
        assert_eq!(causes["between ranges"], 20);
        assert_eq!(causes.values().sum::<u64>(), 80, "and nothing else: other threads are not counted");
        let groups: Vec<_> = found.groups.iter().map(|group| (group.name, nanos(group.seconds))).collect();
        assert_eq!(groups, [("convolution", 40), ("normalization", 20)]);
        assert!(found.table().contains("(33 %)"), "{}", found.table());
        let without = Timeline { ranges: vec![range("iteration", "", 0, 0, 9)], nanos: 9, ..Timeline::default() };
        assert_eq!(Occupancy::of(&without), None, "GPU kernels are no ranges");
    }
}
