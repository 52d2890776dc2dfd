//! Sets the learning rate by a schedule: [`LrSchedule`].

use derive_setters::Setters;
use hearth_engine::{Context, Event, Handler, HandlerError, When};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schedules::{Schedule, ScheduleConfig, above_zero, constant};
use hearth_registry::Fault;

/// The unit of a schedule's steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StepBy {
    /// An epoch.
    #[default]
    Epoch,
    /// An iteration.
    Iteration,
}

/// Options of [`LrSchedule`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(default, deny_unknown_fields)]
#[setters(strip_option)]
pub struct LrScheduleOptions {
    /// The schedule: the rate as a function of the step.
    pub schedule: ScheduleConfig,
    /// The unit of a step.
    pub step_by: StepBy,
    /// The rate the schedule starts from; by default the optimizer's.
    pub base_lr: Option<f64>,
}

impl Default for LrScheduleOptions {
    fn default() -> Self {
        Self { schedule: constant(), step_by: StepBy::default(), base_lr: None }
    }
}

/// Sets the learning rate at the start of each epoch or iteration, as a function of the number of
/// preceding ones.
///
/// The first epoch trains with step 0 of the schedule, which may be a rate of 0. Checkpoints store
/// the base rate, because the optimizer of a resumed run already has a rate of the schedule.
///
/// ```
/// # use hearth_handlers::{LrSchedule, LrScheduleOptions};
/// # use hearth_plugin::testkit::Rehearsal;
/// let schedule = toml::from_str("name = \"StepLR\"\nstep_size = 1\ngamma = 0.5")?;
/// let options = LrScheduleOptions::default().schedule(schedule);
/// let mut run = Rehearsal::new(LrSchedule::new(options)?);
/// run.host.learning_rate = Some(0.1);
/// run.epochs(3, 1)?;
/// assert_eq!(run.host.learning_rate, Some(0.025));
/// # Ok::<(), hearth_engine::HandlerError>(())
/// ```
#[derive(Clone, Debug)]
pub struct LrSchedule {
    options: LrScheduleOptions,
    base: Option<f64>,
    done: Option<u64>,
}

impl LrSchedule {
    /// A schedule with these options.
    ///
    /// # Errors
    /// As [`Schedule::check`]; if the base rate is not above 0; if a plugin's schedule cannot be loaded.
    pub fn new(options: LrScheduleOptions) -> Result<Self, Fault> {
        let schedule = &*options.schedule;
        Schedule::check(schedule).and_then(|()| schedule.load()).map_err(|fault| fault.under("schedule"))?;
        options.base_lr.map_or(Ok(()), |base| above_zero("base_lr", base))?;
        Ok(Self { base: options.base_lr, done: None, options })
    }
}

impl Handler for LrSchedule {
    fn name(&self) -> &str {
        "lr_schedule"
    }

    fn subscriptions(&self) -> Vec<When> {
        // Also at iterations if steps are epochs: an epoch that is resumed in its middle has no
        // `EpochStarted`.
        vec![Event::EpochStarted | Event::IterationStarted]
    }

    fn handle(&mut self, event: Event, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        let step = match (self.options.step_by, event) {
            (StepBy::Epoch, _) => cx.state.epoch.saturating_sub(1),
            (StepBy::Iteration, Event::IterationStarted) => cx.state.iteration.saturating_sub(1),
            (StepBy::Iteration, _) => return Ok(()),
        };
        if self.done == Some(step) {
            return Ok(());
        }
        let base = match self.base.or_else(|| cx.host.learning_rate()) {
            Some(base) => *self.base.insert(base),
            None => return Err(HandlerError::new("there is no optimizer to schedule; add it to a trainer")),
        };
        let steps = match self.options.step_by {
            StepBy::Epoch => Some(cx.state.max_epochs),
            StepBy::Iteration => cx.state.epoch_length.map(|length| length.saturating_mul(cx.state.max_epochs)),
        };
        let steps = steps.filter(|steps| *steps > 0);
        let failed = |fault: Fault| HandlerError::new(fault.to_string());
        let schedule = &*self.options.schedule;
        if let (None, Some(steps)) = (self.done, steps) {
            schedule.check_rates(base, step, steps).map_err(failed)?;
        }
        cx.host.set_learning_rate(schedule.rate(base, step, steps).map_err(failed)?)?;
        self.done = Some(step);
        Ok(())
    }

    fn save_state(&self) -> Option<Vec<u8>> {
        Some(self.base?.to_le_bytes().to_vec())
    }

    fn load_state(&mut self, state: &[u8]) -> Result<(), HandlerError> {
        let bytes = state.try_into().map_err(|_| HandlerError::new(format!("{} bytes, not 8", state.len())))?;
        self.base = self.options.base_lr.or(Some(f64::from_le_bytes(bytes)));
        self.done = None;
        Ok(())
    }
}

handler_entry!(LrScheduleOptions => "LrSchedule", paper: "", about: "Sets the learning rate at the start of each epoch or iteration by a schedule.", example: "schedule = { name = \"StepLR\", step_size = 10 }", |options, _| LrSchedule::new(options));
