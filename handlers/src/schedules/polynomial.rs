use derive_setters::Setters;
use hearth_registry::{Fault, entry};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Schedule, at_least_one, numbers};

/// `base * (1 - step / total_iters) ^ power`, 0 afterwards.
///
/// ```
/// # use hearth_handlers::{PolynomialLr, Schedule};
/// let schedule = PolynomialLr { total_iters: 10, power: 2.0 };
/// assert_eq!([0, 5, 10].map(|step| schedule.at(1.0, step)), [1.0, 0.25, 0.0]);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(deny_unknown_fields)]
pub struct PolynomialLr {
    /// Number of steps down to 0.
    #[serde(default = "total_iters")]
    pub total_iters: u64,
    /// The exponent.
    #[serde(default = "power")]
    pub power: f64,
}

fn total_iters() -> u64 {
    5
}

fn power() -> f64 {
    1.0
}

impl Schedule for PolynomialLr {
    fn at(&self, base_lr: f64, step: u64) -> f64 {
        let part = step.min(self.total_iters) as f64 / self.total_iters.max(1) as f64;
        base_lr * (1.0 - part).powf(self.power)
    }

    fn check(&self) -> Result<(), Fault> {
        at_least_one("total_iters", self.total_iters)?;
        numbers(&[("power", self.power)])
    }
}

entry!(dyn Schedule => PolynomialLr, name: "PolynomialLR", aliases: &["polynomial"], example: "total_iters = 1000\npower = 0.9");
