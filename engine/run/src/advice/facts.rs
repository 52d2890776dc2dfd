//! Timings of an epoch from a profile: [`Facts`].

use std::collections::BTreeMap;

use hearth_profile::{Range, Timeline};
use serde::Serialize;

use crate::plan::Plan;

/// The time of one transform in an epoch.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StepTime {
    /// The name of the transform.
    pub name: String,
    /// Whether it precedes the first random step, so that its result can be cached.
    pub fixed: bool,
    /// The seconds that threads spent in it.
    pub seconds: f64,
    /// The number of calls.
    pub calls: f64,
}

/// The transforms that prepare the training cases.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chain {
    /// The names of the transforms, and whether each precedes the first random one.
    pub steps: Vec<(String, bool)>,
    /// Whether the network computes on the CPU.
    pub on_processor: bool,
}

impl Chain {
    /// The chain of a plan.
    pub fn of(plan: &Plan) -> Self {
        let steps = plan.training.steps();
        let random = steps.iter().position(|step| step.is_random()).unwrap_or(steps.len());
        let steps = steps.iter().enumerate().map(|(place, step)| (step.name().to_owned(), place < random));
        Self { steps: steps.collect(), on_processor: plan.on_processor }
    }
}

/// The timings of a training epoch from a profile, in seconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Facts {
    /// The time of all iterations.
    pub training: f64,
    /// The part of it that waits for a batch.
    pub wait: f64,
    /// The time of one validation.
    pub validation: f64,
    /// The part of it in the network.
    pub windows: f64,
    /// The epochs between validations in the recipe.
    pub val_interval: u64,
    /// The transforms of the training chain.
    pub steps: Vec<StepTime>,
    /// The handlers, without the validations that they run.
    pub handlers: Vec<(String, f64)>,
    /// The time of copying the content of checkpoints, which is a part of the handlers' time.
    pub checkpoints: f64,
    /// The number of threads that can compute at the same time.
    pub cores: usize,
    /// Whether the network computes on the CPU as well.
    pub on_processor: bool,
}

impl Facts {
    /// Extracts the facts from a recording of whole epochs.
    pub fn of(timeline: &Timeline, epochs: u64, chain: &Chain, val_interval: u64, cores: usize) -> Self {
        let own = timeline.own_nanos();
        let epochs = epochs.max(1) as f64;
        let each = |nanos: u64| nanos as f64 * 1e-9 / epochs;
        let validations: Vec<&Range> = timeline.named("validation").collect();
        let validates = |range: &Range| {
            validations.iter().any(|v| v.thread == range.thread && v.start <= range.start && range.end() <= v.end())
        };
        let main = timeline.named("iteration").find(|range| !validates(range)).map(|range| range.thread);
        let sum = |name: &str| {
            let of = timeline.named(name).filter(|range| Some(range.thread) == main && !validates(range));
            each(of.map(|range| range.nanos).sum())
        };
        let count = validations.len().max(1) as f64;
        let validation = validations.iter().map(|range| range.nanos).sum::<u64>() as f64 * 1e-9 / count;
        let windows = timeline.named("network").filter(|range| validates(range)).map(|range| range.nanos).sum::<u64>();
        let mut times: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
        let mut handlers: BTreeMap<&str, u64> = BTreeMap::new();
        for (range, own) in timeline.ranges.iter().zip(&own) {
            let name = range.detail.as_deref().unwrap_or_default();
            match range.name {
                "transform" if !validates(range) => {
                    let (nanos, calls) = times.entry(name).or_default();
                    *nanos += own;
                    *calls += 1;
                }
                "handler" | "copy checkpoint" if Some(range.thread) == main && !validates(range) => {
                    let name = if range.name == "handler" { name } else { "checkpoint" };
                    *handlers.entry(name).or_default() += own;
                }
                _ => {}
            }
        }
        let time = |(name, fixed): &(String, bool)| {
            // If a transform occurs twice, the first one gets the time.
            let (nanos, calls) = times.remove(name.as_str()).unwrap_or_default();
            StepTime { name: name.clone(), fixed: *fixed, seconds: each(nanos), calls: calls as f64 / epochs }
        };
        Self {
            training: sum("iteration"),
            wait: sum("wait"),
            validation,
            windows: windows as f64 * 1e-9 / count,
            val_interval,
            steps: chain.steps.iter().map(time).collect(),
            handlers: handlers.into_iter().map(|(name, nanos)| (name.to_owned(), each(nanos))).collect(),
            checkpoints: sum("copy checkpoint"),
            cores,
            on_processor: chain.on_processor,
        }
    }

    /// The cost of an epoch with its share of a validation.
    pub fn cost(&self) -> f64 {
        let handlers: f64 = self.handlers.iter().map(|(_, seconds)| seconds).sum();
        self.training + handlers + self.validation / self.val_interval.max(1) as f64
    }

    /// The seconds that threads spend in steps whose results could be cached.
    pub fn fixed(&self) -> f64 {
        self.steps.iter().filter(|step| step.fixed).map(|step| step.seconds).sum()
    }
}
