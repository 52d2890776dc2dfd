use derive_setters::Setters;
use hearth_registry::{Fault, entry};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Schedule, at_least_one, numbers};

/// `base * gamma ^ (step div step_size)`.
///
/// ```
/// # use hearth_handlers::{StepLr, Schedule};
/// let schedule = StepLr { step_size: 10, gamma: 0.5 };
/// assert_eq!([9, 10, 20].map(|step| schedule.at(1.0, step)), [1.0, 0.5, 0.25]);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(deny_unknown_fields)]
pub struct StepLr {
    /// Number of steps between two reductions.
    pub step_size: u64,
    /// The factor of the rate.
    #[serde(default = "gamma")]
    pub gamma: f64,
}

fn gamma() -> f64 {
    0.1
}

impl Schedule for StepLr {
    fn at(&self, base_lr: f64, step: u64) -> f64 {
        base_lr * self.gamma.powf((step / self.step_size.max(1)) as f64)
    }

    fn check(&self) -> Result<(), Fault> {
        at_least_one("step_size", self.step_size)?;
        numbers(&[("gamma", self.gamma)])
    }
}

entry!(dyn Schedule => StepLr, name: "StepLR", aliases: &["step"], example: "step_size = 10\ngamma = 0.5");
