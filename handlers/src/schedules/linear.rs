use derive_setters::Setters;
use hearth_registry::{Fault, entry};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Schedule, numbers};

/// Linear from `base * start_factor` to `base * end_factor`.
///
/// ```
/// # use hearth_handlers::{LinearLr, Schedule};
/// let schedule = LinearLr { start_factor: 0.5, end_factor: 1.0, total_iters: 10 };
/// assert_eq!([0, 5, 10, 11].map(|step| schedule.at(1.0, step)), [0.5, 0.75, 1.0, 1.0]);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(deny_unknown_fields)]
pub struct LinearLr {
    /// The factor of step 0.
    #[serde(default = "start_factor")]
    pub start_factor: f64,
    /// The factor from step `total_iters` on.
    #[serde(default = "end_factor")]
    pub end_factor: f64,
    /// Number of steps from one to the other.
    #[serde(default = "total_iters")]
    pub total_iters: u64,
}

fn start_factor() -> f64 {
    1.0 / 3.0
}

fn end_factor() -> f64 {
    1.0
}

fn total_iters() -> u64 {
    5
}

impl Schedule for LinearLr {
    fn at(&self, base_lr: f64, step: u64) -> f64 {
        let part = match self.total_iters {
            0 => 0.0,
            all => step.min(all) as f64 / all as f64,
        };
        base_lr * (self.start_factor + (self.end_factor - self.start_factor) * part)
    }

    fn check(&self) -> Result<(), Fault> {
        numbers(&[("start_factor", self.start_factor), ("end_factor", self.end_factor)])
    }
}

entry!(dyn Schedule => LinearLr, name: "LinearLR", aliases: &["linear"], example: "start_factor = 0.1\ntotal_iters = 10");
