use derive_setters::Setters;
use hearth_registry::{Fault, entry};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Schedule, numbers, way_down};

/// MONAI's `WarmupCosineSchedule`: a linear warm-up, then a cosine wave down.
///
/// ```
/// # use hearth_handlers::{Schedule, WarmupCosineSchedule};
/// let text = "warmup_steps = 10\nt_total = 30";
/// let schedule: WarmupCosineSchedule = toml::from_str(text).expect("parameters");
/// assert_eq!([0, 5, 10].map(|step| schedule.at(1.0, step)), [0.0, 0.5, 1.0]);
/// assert!((schedule.at(1.0, 20) - 0.5).abs() < 1e-12);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(deny_unknown_fields)]
pub struct WarmupCosineSchedule {
    /// Number of steps of the warm-up.
    pub warmup_steps: u64,
    /// The number of steps.
    pub t_total: u64,
    /// Number of periods of the cosine after the warm-up.
    #[serde(default = "cycles")]
    pub cycles: f64,
    /// The lowest rate after the warm-up.
    #[serde(default)]
    pub end_lr: f64,
    /// The rate of step 0, as a fraction of `base`.
    #[serde(default)]
    pub warmup_multiplier: f64,
}

fn cycles() -> f64 {
    0.5
}

impl Schedule for WarmupCosineSchedule {
    fn at(&self, base_lr: f64, step: u64) -> f64 {
        if step < self.warmup_steps {
            let part = step as f64 / self.warmup_steps.max(1) as f64;
            return base_lr * (self.warmup_multiplier + (1.0 - self.warmup_multiplier) * part);
        }
        let down = self.t_total.saturating_sub(self.warmup_steps).max(1);
        let part = (step - self.warmup_steps) as f64 / down as f64;
        let wave = 0.5 * (1.0 + (std::f64::consts::TAU * self.cycles * part).cos());
        (base_lr * wave.max(0.0)).max(self.end_lr)
    }

    fn check(&self) -> Result<(), Fault> {
        way_down("warmup_steps", self.warmup_steps, self.t_total)?;
        let multiplier = self.warmup_multiplier;
        if !(0.0..=1.0).contains(&multiplier) {
            let what = format!("`warmup_multiplier` is {multiplier}; give a fraction of the rate, 0 to 1");
            return Err(Fault::at("warmup_multiplier", what));
        }
        numbers(&[("cycles", self.cycles), ("end_lr", self.end_lr)])
    }
}

entry!(dyn Schedule => WarmupCosineSchedule, aliases: &["warmup_cosine"], example: "warmup_steps = 10\nt_total = 300");
