use derive_setters::Setters;
use hearth_registry::{Fault, entry};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Schedule, numbers};

/// `base * gamma ^ step`.
///
/// ```
/// # use hearth_handlers::{ExponentialLr, Schedule};
/// assert_eq!(ExponentialLr { gamma: 0.5 }.at(1.0, 2), 0.25);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(deny_unknown_fields)]
pub struct ExponentialLr {
    /// The factor of the rate at each step.
    pub gamma: f64,
}

impl Schedule for ExponentialLr {
    fn at(&self, base_lr: f64, step: u64) -> f64 {
        base_lr * self.gamma.powf(step as f64)
    }

    fn check(&self) -> Result<(), Fault> {
        numbers(&[("gamma", self.gamma)])
    }
}

entry!(dyn Schedule => ExponentialLr, name: "ExponentialLR", aliases: &["exponential"], example: "gamma = 0.99");
