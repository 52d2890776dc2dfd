use derive_setters::Setters;
use hearth_registry::{Fault, entry};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Schedule, numbers};

/// `base * gamma ^ n`, where `n` is the number of milestones reached.
///
/// ```
/// # use hearth_handlers::{MultiStepLr, Schedule};
/// let schedule = MultiStepLr { milestones: vec![30, 80], gamma: 0.5 };
/// assert_eq!([29, 30, 80].map(|step| schedule.at(1.0, step)), [1.0, 0.5, 0.25]);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(deny_unknown_fields)]
pub struct MultiStepLr {
    /// The steps at which the rate is reduced.
    #[setters(into)]
    pub milestones: Vec<u64>,
    /// The factor of the rate.
    #[serde(default = "gamma")]
    pub gamma: f64,
}

fn gamma() -> f64 {
    0.1
}

impl Schedule for MultiStepLr {
    fn at(&self, base_lr: f64, step: u64) -> f64 {
        let reached = self.milestones.iter().filter(|milestone| **milestone <= step).count();
        base_lr * self.gamma.powf(reached as f64)
    }

    fn check(&self) -> Result<(), Fault> {
        if !self.milestones.is_sorted() {
            return Err(Fault::at("milestones", format!("`milestones` must rise, not {:?}", self.milestones)));
        }
        numbers(&[("gamma", self.gamma)])
    }
}

entry!(dyn Schedule => MultiStepLr, name: "MultiStepLR", aliases: &["multistep"], example: "milestones = [30, 80]");
