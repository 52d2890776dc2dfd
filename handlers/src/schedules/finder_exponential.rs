use derive_setters::Setters;
use hearth_registry::{Fault, entry};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Schedule, above_zero, at_least_two, last};

/// MONAI's `ExponentialLR` of its learning-rate finder:
/// `base * (end_lr / base) ^ (step / (num_iter - 1))`.
///
/// ```
/// # use hearth_handlers::{FinderExponential, Schedule};
/// let schedule = FinderExponential { end_lr: 1.0, num_iter: 3 };
/// assert!((schedule.at(0.01, 1) - 0.1).abs() < 1e-12);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(deny_unknown_fields)]
pub struct FinderExponential {
    /// The last rate.
    pub end_lr: f64,
    /// The number of steps.
    pub num_iter: u64,
}

impl Schedule for FinderExponential {
    fn at(&self, base_lr: f64, step: u64) -> f64 {
        base_lr * (self.end_lr / base_lr).powf(step as f64 / last(self.num_iter))
    }

    fn check(&self) -> Result<(), Fault> {
        at_least_two("num_iter", self.num_iter)?;
        above_zero("end_lr", self.end_lr)
    }
}

entry!(dyn Schedule => FinderExponential, example: "end_lr = 1.0\nnum_iter = 100");
