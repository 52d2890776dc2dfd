//! Learning-rate schedules in closed form: [`ScheduleConfig`]. No state, so a resumed run cannot disagree with itself.

use serde::{Deserialize, Serialize};

use crate::registry::BuildError;

/// How the learning rate follows from the step (an epoch or an iteration, from 0), with the names and parameters of
/// torch and MONAI.
///
/// ```
/// use hearth_handlers::ScheduleConfig;
/// let schedule: ScheduleConfig = toml::from_str("name = \"StepLR\"\nstep_size = 10\ngamma = 0.5")?;
/// assert_eq!(schedule.at(0.1, 9), 0.1);
/// assert_eq!(schedule.at(0.1, 10), 0.05);
/// # Ok::<(), toml::de::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", deny_unknown_fields)]
#[non_exhaustive]
pub enum ScheduleConfig {
    /// The same rate throughout.
    #[default]
    #[serde(rename = "Constant", alias = "constant")]
    Constant,
    /// `base * gamma ^ (step div step_size)`.
    #[serde(rename = "StepLR", alias = "step")]
    Step {
        /// Steps between two falls.
        step_size: u64,
        /// What the rate is multiplied with.
        #[serde(default = "tenth")]
        gamma: f64,
    },
    /// `base * gamma ^ (milestones reached)`.
    #[serde(rename = "MultiStepLR", alias = "multistep")]
    MultiStep {
        /// The steps at which the rate falls.
        milestones: Vec<u64>,
        /// What the rate is multiplied with.
        #[serde(default = "tenth")]
        gamma: f64,
    },
    /// `base * gamma ^ step`.
    #[serde(rename = "ExponentialLR", alias = "exponential")]
    Exponential {
        /// What the rate is multiplied with at each step.
        gamma: f64,
    },
    /// `eta_min + (base - eta_min) / 2 * (1 + cos(pi * step / T_max))`: rises again after `T_max`.
    #[serde(rename = "CosineAnnealingLR", alias = "cosine")]
    Cosine {
        /// Steps down to the lowest rate.
        #[serde(rename = "T_max")]
        t_max: u64,
        /// The lowest rate.
        #[serde(default)]
        eta_min: f64,
    },
    /// Cosine annealing that starts again after `T_0`, then `T_0 * T_mult`, ... steps (Loshchilov and Hutter 2017, SGDR).
    #[serde(rename = "CosineAnnealingWarmRestarts", alias = "cosine_restarts")]
    CosineRestarts {
        /// Steps to the first restart.
        #[serde(rename = "T_0")]
        t_0: u64,
        /// Each round is so many times as long as the one before.
        #[serde(rename = "T_mult", default = "one")]
        t_mult: u64,
        /// The lowest rate.
        #[serde(default)]
        eta_min: f64,
    },
    /// Up in a line to `base` over `warmup_epochs`, then down as a cosine to `eta_min` at `max_epochs`.
    #[serde(rename = "LinearWarmupCosineAnnealingLR", alias = "linear_warmup_cosine")]
    LinearWarmupCosine {
        /// Steps of the way up.
        warmup_epochs: u64,
        /// Steps in all.
        max_epochs: u64,
        /// The rate of step 0.
        #[serde(default)]
        warmup_start_lr: f64,
        /// The lowest rate.
        #[serde(default)]
        eta_min: f64,
    },
    /// MONAI's `WarmupCosineSchedule`.
    #[serde(rename = "WarmupCosineSchedule", alias = "warmup_cosine")]
    WarmupCosine {
        /// Steps of the way up.
        warmup_steps: u64,
        /// Steps in all.
        t_total: u64,
        /// Waves of the cosine on the way down.
        #[serde(default = "half")]
        cycles: f64,
        /// The rate never falls below this after the way up.
        #[serde(default)]
        end_lr: f64,
        /// The rate of step 0, as a part of `base`.
        #[serde(default)]
        warmup_multiplier: f64,
    },
    /// `base * (1 - step / total_iters) ^ power`, 0 afterwards.
    #[serde(rename = "PolynomialLR", alias = "polynomial")]
    Polynomial {
        /// Steps down to 0.
        #[serde(default = "five")]
        total_iters: u64,
        /// The exponent.
        #[serde(default = "unit")]
        power: f64,
    },
    /// From `base * start_factor` in a line to `base * end_factor`.
    #[serde(rename = "LinearLR", alias = "linear")]
    Linear {
        /// The factor of step 0.
        #[serde(default = "third")]
        start_factor: f64,
        /// The factor from step `total_iters` on.
        #[serde(default = "unit")]
        end_factor: f64,
        /// Steps from one to the other.
        #[serde(default = "five")]
        total_iters: u64,
    },
    /// Up from `max_lr / div_factor` to `max_lr`, then down far below where it began (Smith and Topin, 2017). The optimizer's own rate
    /// does not matter, and its momentum stays.
    #[serde(rename = "OneCycleLR", alias = "one_cycle")]
    OneCycle {
        /// The highest rate.
        max_lr: f64,
        /// Steps in all.
        total_steps: u64,
        /// The part of them on the way up.
        #[serde(default = "three_tenths")]
        pct_start: f64,
        /// The way from rate to rate.
        #[serde(default)]
        anneal_strategy: Anneal,
        /// `max_lr` is so many times the first rate.
        #[serde(default = "twenty_five")]
        div_factor: f64,
        /// The first rate is so many times the last.
        #[serde(default = "ten_thousand")]
        final_div_factor: f64,
        /// Goes down to the first rate as fast as it went up, and from there to the last.
        #[serde(default)]
        three_phase: bool,
    },
    /// MONAI's `LinearLR` of its learning-rate finder: in a line from `base` to `end_lr` at step `num_iter - 1`.
    #[serde(rename = "FinderLinear")]
    FinderLinear {
        /// The last rate.
        end_lr: f64,
        /// Steps in all.
        num_iter: u64,
    },
    /// MONAI's `ExponentialLR` of its learning-rate finder: `base * (end_lr / base) ^ (step / (num_iter - 1))`.
    #[serde(rename = "FinderExponential")]
    FinderExponential {
        /// The last rate.
        end_lr: f64,
        /// Steps in all.
        num_iter: u64,
    },
}

/// The way from one rate to another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Anneal {
    /// Half a cosine wave.
    #[default]
    Cos,
    /// A line.
    Linear,
}

fn tenth() -> f64 {
    0.1
}
fn half() -> f64 {
    0.5
}
fn three_tenths() -> f64 {
    0.3
}
fn twenty_five() -> f64 {
    25.0
}
fn ten_thousand() -> f64 {
    1e4
}
fn unit() -> f64 {
    1.0
}
fn third() -> f64 {
    1.0 / 3.0
}
fn one() -> u64 {
    1
}
fn five() -> u64 {
    5
}

/// Half a cosine wave from `high` at `part` 0 to `low` at `part` 1.
fn half_wave(high: f64, low: f64, part: f64) -> f64 {
    low + (high - low) / 2.0 * (1.0 + (std::f64::consts::PI * part).cos())
}

impl ScheduleConfig {
    /// The learning rate of a step, counted from 0, for an optimizer whose own rate is `base_lr`.
    pub fn at(&self, base_lr: f64, step: u64) -> f64 {
        let t = step as f64;
        match *self {
            Self::Constant => base_lr,
            Self::Step { step_size, gamma } => base_lr * gamma.powf((step / step_size.max(1)) as f64),
            Self::MultiStep { ref milestones, gamma } => {
                let reached = milestones.iter().filter(|milestone| **milestone <= step).count();
                base_lr * gamma.powf(reached as f64)
            }
            Self::Exponential { gamma } => base_lr * gamma.powf(t),
            Self::Cosine { t_max, eta_min } => half_wave(base_lr, eta_min, t / t_max.max(1) as f64),
            Self::CosineRestarts { t_0, t_mult, eta_min } => {
                let (mut start, mut length) = (0, t_0.max(1));
                if t_mult <= 1 {
                    start = step - step % length;
                }
                while step - start >= length {
                    start += length;
                    length = length.saturating_mul(t_mult);
                }
                half_wave(base_lr, eta_min, (step - start) as f64 / length as f64)
            }
            Self::LinearWarmupCosine { warmup_epochs, max_epochs, warmup_start_lr, eta_min } => {
                if step < warmup_epochs {
                    let part = if step == 0 { 0.0 } else { t / (warmup_epochs - 1) as f64 };
                    return warmup_start_lr + part * (base_lr - warmup_start_lr);
                }
                let down = max_epochs.saturating_sub(warmup_epochs).max(1);
                half_wave(base_lr, eta_min, (step - warmup_epochs) as f64 / down as f64)
            }
            Self::WarmupCosine { warmup_steps, t_total, cycles, end_lr, warmup_multiplier } => {
                if step < warmup_steps {
                    let part = t / warmup_steps.max(1) as f64;
                    return base_lr * (warmup_multiplier + (1.0 - warmup_multiplier) * part);
                }
                let part = (step - warmup_steps) as f64 / t_total.saturating_sub(warmup_steps).max(1) as f64;
                let wave = 0.5 * (1.0 + (std::f64::consts::TAU * cycles * part).cos());
                (base_lr * wave.max(0.0)).max(end_lr)
            }
            Self::Polynomial { total_iters, power } => {
                base_lr * (1.0 - step.min(total_iters) as f64 / total_iters.max(1) as f64).powf(power)
            }
            Self::Linear { start_factor, end_factor, total_iters } => {
                let part = if total_iters == 0 { 0.0 } else { step.min(total_iters) as f64 / total_iters as f64 };
                base_lr * (start_factor + (end_factor - start_factor) * part)
            }
            Self::OneCycle {
                max_lr,
                total_steps,
                pct_start,
                anneal_strategy,
                div_factor,
                final_div_factor,
                three_phase,
            } => {
                let first = max_lr / div_factor;
                let lowest = first / final_div_factor;
                let (peak, end) = (pct_start * total_steps as f64 - 1.0, last(total_steps));
                let points: &[(f64, f64)] = if three_phase {
                    &[(0.0, first), (peak, max_lr), (2.0 * peak, first), (end, lowest)]
                } else {
                    &[(0.0, first), (peak, max_lr), (end, lowest)]
                };
                let reached = points[1..].iter().position(|(place, _)| t <= *place).unwrap_or(points.len() - 2);
                let ((from, high), (to, low)) = (points[reached], points[reached + 1]);
                let part = ((t - from) / (to - from)).min(1.0);
                match anneal_strategy {
                    Anneal::Cos => half_wave(high, low, part),
                    Anneal::Linear => high + (low - high) * part,
                }
            }
            Self::FinderLinear { end_lr, num_iter } => base_lr + t / last(num_iter) * (end_lr - base_lr),
            Self::FinderExponential { end_lr, num_iter } => base_lr * (end_lr / base_lr).powf(t / last(num_iter)),
        }
    }

    /// Says what is wrong with the parameters before a run starts.
    ///
    /// # Errors
    /// For a length of 0, a rate or factor that is negative or not a number, a way up as long as the whole.
    pub fn check(&self) -> Result<(), BuildError> {
        let refuse = |what: String| Err(BuildError::options("schedule", what));
        let zero = |name: &str| refuse(format!("`{name}` is 0; give 1 or more"));
        let numbers: Vec<(&str, f64)> = match *self {
            Self::Constant => vec![],
            Self::Step { step_size: 0, .. } => return zero("step_size"),
            Self::Cosine { t_max: 0, .. } => return zero("T_max"),
            Self::CosineRestarts { t_0: 0, .. } => return zero("T_0"),
            Self::CosineRestarts { t_mult: 0, .. } => return zero("T_mult"),
            Self::Polynomial { total_iters: 0, .. } => return zero("total_iters"),
            Self::OneCycle { total_steps, pct_start, div_factor, final_div_factor, .. }
                if total_steps < 2
                    || !(0.0..=1.0).contains(&pct_start)
                    || !(div_factor > 0.0 && final_div_factor > 0.0) =>
            {
                return refuse(format!(
                    "`total_steps` is {total_steps}, `pct_start` {pct_start}, `div_factor` {div_factor}, \
                     `final_div_factor` {final_div_factor}; give 2 or more steps, a part from 0 to 1, factors above 0"
                ));
            }
            Self::OneCycle { max_lr, .. } => vec![("max_lr", max_lr)],
            Self::FinderLinear { num_iter: 0 | 1, .. } | Self::FinderExponential { num_iter: 0 | 1, .. } => {
                return refuse("`num_iter` must be 2 or more".into());
            }
            Self::LinearWarmupCosine { warmup_epochs, max_epochs, .. } if warmup_epochs >= max_epochs => {
                return refuse(format!(
                    "`warmup_epochs` is {warmup_epochs} of {max_epochs}; nothing is left for the cosine"
                ));
            }
            Self::WarmupCosine { warmup_steps, t_total, .. } if warmup_steps >= t_total => {
                return refuse(format!(
                    "`warmup_steps` is {warmup_steps} of {t_total}; nothing is left for the cosine"
                ));
            }
            Self::MultiStep { ref milestones, .. } if !milestones.is_sorted() => {
                return refuse(format!("`milestones` must rise, not {milestones:?}"));
            }
            Self::Step { gamma, .. } | Self::MultiStep { gamma, .. } | Self::Exponential { gamma } => {
                vec![("gamma", gamma)]
            }
            Self::Cosine { eta_min, .. } | Self::CosineRestarts { eta_min, .. } => vec![("eta_min", eta_min)],
            Self::LinearWarmupCosine { warmup_start_lr, eta_min, .. } => {
                vec![("warmup_start_lr", warmup_start_lr), ("eta_min", eta_min)]
            }
            Self::WarmupCosine { cycles, end_lr, warmup_multiplier, .. } => {
                vec![("cycles", cycles), ("end_lr", end_lr), ("warmup_multiplier", warmup_multiplier)]
            }
            Self::Polynomial { power, .. } => vec![("power", power)],
            Self::Linear { start_factor, end_factor, .. } => {
                vec![("start_factor", start_factor), ("end_factor", end_factor)]
            }
            Self::FinderLinear { end_lr, .. } | Self::FinderExponential { end_lr, .. } => vec![("end_lr", end_lr)],
        };
        match numbers.into_iter().find(|(_, value)| !value.is_finite() || *value < 0.0) {
            Some((name, value)) => refuse(format!("`{name}` is {value}; give 0 or more")),
            None => Ok(()),
        }
    }
}

/// The last step of so many, at least 1.
fn last(num_iter: u64) -> f64 {
    num_iter.saturating_sub(1).max(1) as f64
}
