use derive_setters::Setters;
use hearth_registry::{Fault, entry};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Schedule, half_wave, numbers, way_down};

/// Linear warm-up to `base` over `warmup_epochs`, then a cosine down to `eta_min` at `max_epochs`.
///
/// ```
/// # use hearth_handlers::{LinearWarmupCosineAnnealingLr, Schedule};
/// let text = "warmup_epochs = 5\nmax_epochs = 15";
/// let schedule: LinearWarmupCosineAnnealingLr = toml::from_str(text).expect("parameters");
/// assert_eq!([0, 2, 4].map(|step| schedule.at(1.0, step)), [0.0, 0.5, 1.0]);
/// assert!((schedule.at(1.0, 10) - 0.5).abs() < 1e-12);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(deny_unknown_fields)]
pub struct LinearWarmupCosineAnnealingLr {
    /// Number of steps of the warm-up.
    pub warmup_epochs: u64,
    /// The number of steps.
    pub max_epochs: u64,
    /// The rate of step 0.
    #[serde(default)]
    pub warmup_start_lr: f64,
    /// The lowest rate.
    #[serde(default)]
    pub eta_min: f64,
}

impl Schedule for LinearWarmupCosineAnnealingLr {
    fn at(&self, base_lr: f64, step: u64) -> f64 {
        if step < self.warmup_epochs {
            let part = if step == 0 { 0.0 } else { step as f64 / (self.warmup_epochs - 1) as f64 };
            return self.warmup_start_lr + part * (base_lr - self.warmup_start_lr);
        }
        let down = self.max_epochs.saturating_sub(self.warmup_epochs).max(1);
        half_wave(base_lr, self.eta_min, (step - self.warmup_epochs) as f64 / down as f64)
    }

    fn check(&self) -> Result<(), Fault> {
        way_down("warmup_epochs", self.warmup_epochs, self.max_epochs)?;
        numbers(&[("warmup_start_lr", self.warmup_start_lr), ("eta_min", self.eta_min)])
    }
}

entry!(dyn Schedule => LinearWarmupCosineAnnealingLr, name: "LinearWarmupCosineAnnealingLR", aliases: &["linear_warmup_cosine"], example: "warmup_epochs = 100\nmax_epochs = 700");
