use derive_setters::Setters;
use hearth_registry::{Fault, entry};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Schedule, above_zero, half_wave, last};

/// Up from `max_lr / div_factor` to `max_lr`, then down far below the first rate. The optimizer's
/// own rate is ignored, and its momentum is constant.
///
/// ```
/// # use hearth_handlers::{OneCycleLr, Schedule};
/// let text = "max_lr = 0.5\ntotal_steps = 10";
/// let schedule: OneCycleLr = toml::from_str(text).expect("parameters");
/// // Up for 3 of the 10 steps.
/// assert_eq!(schedule.at(0.1, 2), 0.5);
/// assert!(schedule.at(0.1, 0) < 0.5 && schedule.at(0.1, 9) < schedule.at(0.1, 0));
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(deny_unknown_fields)]
pub struct OneCycleLr {
    /// The highest rate.
    pub max_lr: f64,
    /// The number of steps.
    pub total_steps: u64,
    /// The fraction of steps in which the rate rises.
    #[serde(default = "pct_start")]
    pub pct_start: f64,
    /// The shape of the change between two rates.
    #[serde(default)]
    pub anneal_strategy: Anneal,
    /// The ratio of `max_lr` to the first rate.
    #[serde(default = "div_factor")]
    pub div_factor: f64,
    /// The ratio of the first rate to the last.
    #[serde(default = "final_div_factor")]
    pub final_div_factor: f64,
    /// Whether to fall to the first rate as fast as it rose, and then to the last.
    #[serde(default)]
    pub three_phase: bool,
}

fn pct_start() -> f64 {
    0.3
}

fn div_factor() -> f64 {
    25.0
}

fn final_div_factor() -> f64 {
    1e4
}

/// The shape of the change between two rates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Anneal {
    /// Half a cosine wave.
    #[default]
    Cos,
    /// A line.
    Linear,
}

impl Schedule for OneCycleLr {
    fn at(&self, base_lr: f64, step: u64) -> f64 {
        let first = self.max_lr / self.div_factor;
        let lowest = first / self.final_div_factor;
        let (peak, end) = (self.pct_start * self.total_steps as f64 - 1.0, last(self.total_steps));
        let points: &[(f64, f64)] = if self.three_phase {
            &[(0.0, first), (peak, self.max_lr), (2.0 * peak, first), (end, lowest)]
        } else {
            &[(0.0, first), (peak, self.max_lr), (end, lowest)]
        };
        let t = step as f64;
        let reached = points[1..].iter().position(|(place, _)| t <= *place).unwrap_or(points.len() - 2);
        let ((from, high), (to, low)) = (points[reached], points[reached + 1]);
        let part = ((t - from) / (to - from)).min(1.0);
        // The base rate is ignored.
        let _ = base_lr;
        match self.anneal_strategy {
            Anneal::Cos => half_wave(high, low, part),
            Anneal::Linear => high + (low - high) * part,
        }
    }

    fn check(&self) -> Result<(), Fault> {
        if self.total_steps < 2 {
            return Err(Fault::at("total_steps", format!("`total_steps` is {}; give 2 or more", self.total_steps)));
        }
        if !(0.0..=1.0).contains(&self.pct_start) {
            return Err(Fault::at("pct_start", format!("`pct_start` is {}; give a fraction, 0 to 1", self.pct_start)));
        }
        above_zero("div_factor", self.div_factor)?;
        above_zero("final_div_factor", self.final_div_factor)?;
        above_zero("max_lr", self.max_lr)
    }
}

entry!(dyn Schedule => OneCycleLr, name: "OneCycleLR", aliases: &["one_cycle"], paper: "Smith and Topin 2017, arXiv:1708.07120", example: "max_lr = 0.5\ntotal_steps = 1000");
