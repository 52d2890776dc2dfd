use derive_setters::Setters;
use hearth_registry::{Fault, entry};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Schedule, at_least_one, half_wave, numbers};

/// Cosine annealing that restarts after `T_0`, then `T_0 * T_mult`, ... steps.
///
/// ```
/// # use hearth_handlers::{CosineAnnealingWarmRestarts, Schedule};
/// // The second round is 20 steps long.
/// let schedule = CosineAnnealingWarmRestarts { t_0: 10, t_mult: 2, eta_min: 0.0 };
/// assert_eq!(schedule.at(1.0, 10), 1.0);
/// assert!((schedule.at(1.0, 20) - 0.5).abs() < 1e-12);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(deny_unknown_fields)]
pub struct CosineAnnealingWarmRestarts {
    /// Number of steps to the first restart.
    #[serde(rename = "T_0")]
    pub t_0: u64,
    /// The ratio of each round's length to that of the previous one.
    #[serde(rename = "T_mult", default = "t_mult")]
    pub t_mult: u64,
    /// The lowest rate.
    #[serde(default)]
    pub eta_min: f64,
}

fn t_mult() -> u64 {
    1
}

impl Schedule for CosineAnnealingWarmRestarts {
    fn at(&self, base_lr: f64, step: u64) -> f64 {
        let (mut start, mut length) = (0, self.t_0.max(1));
        if self.t_mult <= 1 {
            start = step - step % length;
        }
        while step - start >= length {
            start += length;
            length = length.saturating_mul(self.t_mult);
        }
        half_wave(base_lr, self.eta_min, (step - start) as f64 / length as f64)
    }

    fn check(&self) -> Result<(), Fault> {
        at_least_one("T_0", self.t_0)?;
        at_least_one("T_mult", self.t_mult)?;
        numbers(&[("eta_min", self.eta_min)])
    }
}

entry!(dyn Schedule => CosineAnnealingWarmRestarts, aliases: &["cosine_restarts"], paper: "Loshchilov and Hutter 2017, arXiv:1608.03983", example: "T_0 = 10\nT_mult = 2");
