use derive_setters::Setters;
use hearth_registry::{Fault, entry};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Schedule, at_least_two, last, numbers};

/// MONAI's `LinearLR` of its learning-rate finder: linearly from `base` to `end_lr` at step
/// `num_iter - 1`.
///
/// ```
/// # use hearth_handlers::{FinderLinear, Schedule};
/// let schedule = FinderLinear { end_lr: 1.0, num_iter: 3 };
/// assert_eq!([0, 1, 2].map(|step| schedule.at(0.0, step)), [0.0, 0.5, 1.0]);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(deny_unknown_fields)]
pub struct FinderLinear {
    /// The last rate.
    pub end_lr: f64,
    /// The number of steps.
    pub num_iter: u64,
}

impl Schedule for FinderLinear {
    fn at(&self, base_lr: f64, step: u64) -> f64 {
        base_lr + step as f64 / last(self.num_iter) * (self.end_lr - base_lr)
    }

    fn check(&self) -> Result<(), Fault> {
        at_least_two("num_iter", self.num_iter)?;
        numbers(&[("end_lr", self.end_lr)])
    }
}

entry!(dyn Schedule => FinderLinear, example: "end_lr = 1.0\nnum_iter = 100");
