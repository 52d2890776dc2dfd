//! Learning-rate schedules in closed form: [`ScheduleConfig`], one file each. They have no state,
//! so a resumed run always gets the same rates. Names, parameters and values are those of torch and
//! MONAI.

mod constant;
mod cosine_annealing;
mod cosine_annealing_warm_restarts;
mod exponential;
mod finder_exponential;
mod finder_linear;
mod linear;
mod linear_warmup_cosine_annealing;
mod multi_step;
mod of_plugin;
mod one_cycle;
mod polynomial;
mod step;
mod warmup_cosine;

pub use constant::Constant;
pub use cosine_annealing::CosineAnnealingLr;
pub use cosine_annealing_warm_restarts::CosineAnnealingWarmRestarts;
pub use exponential::ExponentialLr;
pub use finder_exponential::FinderExponential;
pub use finder_linear::FinderLinear;
pub use linear::LinearLr;
pub use linear_warmup_cosine_annealing::LinearWarmupCosineAnnealingLr;
pub use multi_step::MultiStepLr;
pub use one_cycle::{Anneal, OneCycleLr};
pub use polynomial::PolynomialLr;
pub use step::StepLr;
pub use warmup_cosine::WarmupCosineSchedule;

use std::sync::Arc;

use hearth_registry::{Fault, FromPlugin, Kind, Named};

/// A schedule by name, as in a recipe.
///
/// ```
/// use hearth_handlers::{Schedule, ScheduleConfig};
/// let schedule: ScheduleConfig = toml::from_str("name = \"StepLR\"\nstep_size = 10\ngamma = 0.5")?;
/// assert_eq!(schedule.at(0.1, 9), 0.1);
/// assert_eq!(schedule.at(0.1, 10), 0.05);
/// # Ok::<(), toml::de::Error>(())
/// ```
pub type ScheduleConfig = Named<dyn Schedule>;

/// The learning rate as a function of the step: an epoch or an iteration, from 0.
///
/// ```
/// use hearth_handlers::Schedule;
/// use hearth_registry::Fault;
///
/// /// Halves the rate each time this number of steps is done.
/// #[derive(Debug)]
/// struct Halves(u64);
///
/// impl Schedule for Halves {
///     fn at(&self, base_lr: f64, step: u64) -> f64 {
///         base_lr * 0.5_f64.powf((step / self.0) as f64)
///     }
///     fn check(&self) -> Result<(), Fault> {
///         if self.0 == 0 { Err(Fault::new("0 steps; give 1 or more")) } else { Ok(()) }
///     }
/// }
///
/// assert_eq!((Halves(10).at(0.1, 9), Halves(10).at(0.1, 10)), (0.1, 0.05));
/// ```
pub trait Schedule: std::fmt::Debug + Send + Sync {
    /// The learning rate of a step, counted from 0, for an optimizer with the rate `base_lr`.
    fn at(&self, base_lr: f64, step: u64) -> f64;

    /// The learning rate of a step of a run with this number of steps, if it is known.
    ///
    /// # Errors
    /// If a plugin fails, or its rate is negative or not finite.
    fn rate(&self, base_lr: f64, step: u64, steps: Option<u64>) -> Result<f64, Fault> {
        let _ = steps;
        Ok(self.at(base_lr, step))
    }

    /// Loads what the schedule needs before its first step: the library of a plugin.
    ///
    /// # Errors
    /// A plugin that is missing or refuses the options.
    fn load(&self) -> Result<(), Fault> {
        Ok(())
    }

    /// Checks the parameters.
    ///
    /// # Errors
    /// If a length is 0, a rate or factor is negative or NaN, or a warm-up is as long as the whole
    /// schedule.
    fn check(&self) -> Result<(), Fault>;
}

impl Kind for dyn Schedule {
    const WORD: &'static str = "schedule";

    const FROM_PLUGIN: Option<FromPlugin<Self>> = Some(of_plugin::build);

    fn check(&self) -> Result<(), Fault> {
        Schedule::check(self)
    }
}

impl dyn Schedule {
    /// Asks for the rates of a run from a step on, at most a thousand of them, so that one that cannot be
    /// used ends the run before it trains.
    ///
    /// # Errors
    /// As [`Schedule::rate`]; a rate that is negative or not finite.
    pub fn check_rates(&self, base_lr: f64, from: u64, steps: u64) -> Result<(), Fault> {
        let stride = (steps.saturating_sub(from) / MOST_ASKED).max(1);
        let asked = (from..steps).step_by(usize::try_from(stride).unwrap_or(usize::MAX));
        let last = steps.checked_sub(1).filter(|last| *last >= from);
        asked.chain(last).try_for_each(|step| {
            let rate = self.rate(base_lr, step, Some(steps))?;
            if rate.is_finite() && rate >= 0.0 {
                return Ok(());
            }
            Err(Fault::new(format!("the learning rate of step {step} is {rate}; expected 0 or more")))
        })
    }
}

/// The number of steps whose rates are checked at the start of a run.
const MOST_ASKED: u64 = 1000;

/// A constant rate: the default of a run.
pub fn constant() -> ScheduleConfig {
    Named::unchecked("Constant", &Constant {}, Arc::new(Constant {}))
}

/// Half a cosine wave from `high` at `part` 0 to `low` at `part` 1.
fn half_wave(high: f64, low: f64, part: f64) -> f64 {
    low + (high - low) / 2.0 * (1.0 + (std::f64::consts::PI * part).cos())
}

/// The index of the last step, at least 1.
fn last(steps: u64) -> f64 {
    steps.saturating_sub(1).max(1) as f64
}

fn at_least_one(key: &str, value: u64) -> Result<(), Fault> {
    if value >= 1 { Ok(()) } else { Err(Fault::at(key, format!("`{key}` is 0; give 1 or more"))) }
}

fn at_least_two(key: &str, value: u64) -> Result<(), Fault> {
    if value >= 2 { Ok(()) } else { Err(Fault::at(key, format!("`{key}` is {value}; give 2 or more"))) }
}

fn way_down(key: &str, up: u64, whole: u64) -> Result<(), Fault> {
    if up < whole {
        return Ok(());
    }
    Err(Fault::at(key, format!("`{key}` is {up} of {whole}; nothing is left for the cosine")))
}

/// Checks that a rate or a factor is finite and above 0.
pub(crate) fn above_zero(key: &str, value: f64) -> Result<(), Fault> {
    let sound = value.is_finite() && value > 0.0;
    if sound { Ok(()) } else { Err(Fault::at(key, format!("`{key}` is {value}; give a number above 0"))) }
}

/// Checks that rates and factors are finite and not negative.
fn numbers(values: &[(&str, f64)]) -> Result<(), Fault> {
    match values.iter().find(|(_, value)| !value.is_finite() || *value < 0.0) {
        Some((key, value)) => Err(Fault::at(*key, format!("`{key}` is {value}; give 0 or more"))),
        None => Ok(()),
    }
}
