use derive_setters::Setters;
use hearth_registry::{Fault, entry};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Schedule, at_least_one, half_wave, numbers};

/// `eta_min + (base - eta_min) / 2 * (1 + cos(pi * step / T_max))`: rises again after `T_max`.
///
/// ```
/// # use hearth_handlers::{CosineAnnealingLr, Schedule};
/// let schedule = CosineAnnealingLr { t_max: 10, eta_min: 0.0 };
/// assert_eq!(schedule.at(1.0, 0), 1.0);
/// assert!((schedule.at(1.0, 5) - 0.5).abs() < 1e-12 && schedule.at(1.0, 10) < 1e-12);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(deny_unknown_fields)]
pub struct CosineAnnealingLr {
    /// Number of steps down to the lowest rate.
    #[serde(rename = "T_max")]
    pub t_max: u64,
    /// The lowest rate.
    #[serde(default)]
    pub eta_min: f64,
}

impl Schedule for CosineAnnealingLr {
    fn at(&self, base_lr: f64, step: u64) -> f64 {
        half_wave(base_lr, self.eta_min, step as f64 / self.t_max.max(1) as f64)
    }

    fn check(&self) -> Result<(), Fault> {
        at_least_one("T_max", self.t_max)?;
        numbers(&[("eta_min", self.eta_min)])
    }
}

entry!(dyn Schedule => CosineAnnealingLr, name: "CosineAnnealingLR", aliases: &["cosine"], paper: "Loshchilov and Hutter 2017, arXiv:1608.03983", example: "T_max = 300");
