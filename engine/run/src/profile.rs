//! Profiling a short run: [`profile`].

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, PoisonError};

use hearth_data::Progress;
use hearth_engine::RunEnd;
use hearth_handlers::{Profiler, ProfilerOptions, Unit};
use hearth_kernels::memory;
use hearth_nn::layers::layer_ranges;
use hearth_profile::{Profile, Roof, Schedule, measure_memory};

use crate::advice::facts::{Chain, Facts};
use crate::advice::trials;
use crate::advice::{Finding, advise};
use crate::cases::Cases;
use crate::handlers::owners_of;
use crate::plan::Plan;
use crate::session::Session;
use hearth_recipe::recipe::Document;
use hearth_recipe::{Outcome, RecipeError};

/// The options of a profile.
#[derive(Clone, Debug, Default)]
pub struct Profiling {
    /// The recorded steps; `None`: an epoch of warm-up, and one with a validation.
    pub schedule: Option<(Unit, Schedule)>,
    /// The peak performance of the machine, with which kernels are compared.
    pub roof: Option<Roof>,
    /// Whether layers are recorded as ranges.
    pub layers: bool,
    /// How the progress of filling caches is shown.
    pub progress: Progress,
}

/// The result of profiling a run.
#[derive(Debug)]
pub struct Profiled {
    /// The recording and its tables.
    pub profile: Profile,
    /// The timings of an epoch; `None` if no whole epoch was recorded.
    pub facts: Option<Facts>,
    /// Suggestions for a faster run.
    pub findings: Vec<Finding>,
    /// The seconds of the whole run, including preparations.
    pub seconds: f64,
}

impl Profiling {
    /// The unit and the schedule of the recorded steps.
    fn steps(&self) -> (Unit, Schedule) {
        self.schedule.unwrap_or((Unit::Epochs, Schedule { wait: 0, warmup: 1, active: 1, repeat: 1 }))
    }
}

/// Trains a recipe for the duration of the profile, as the run `run` in the folder `out`, which
/// receives `trace.json.gz`, `summary.json` and `summary.txt`. `running` gets the flag that
/// interrupts the run, and `None` when the run has ended and levers are tried; the result is `None` if
/// that flag was set.
///
/// # Errors
/// Errors of a [`Session`], or a process that is already being profiled.
pub fn profile(
    document: &Document,
    data: &Path,
    plugins: &[PathBuf],
    out: &Path,
    how: &Profiling,
    running: &dyn Fn(Option<Arc<AtomicBool>>),
) -> Outcome<Option<Profiled>> {
    let (unit, schedule) = how.steps();
    let before = Plan::new(document.clone())?.recipe;
    let tried = document.clone();
    let mut document = document.clone();
    let steps = schedule.steps().ok_or_else(|| RecipeError::new("a profile must end: give a repeat of 1 or more"))?;
    // An epoch has at least one iteration; the profiler ends a run whose steps are iterations.
    let epochs = steps;
    document.set(&format!("training.epochs={epochs}"))?;
    if how.schedule.is_none() && !before.learns().generates() {
        // One validation, in the recorded epoch.
        document.set(&format!("training.val_interval={epochs}"))?;
    }
    let mut plan = Plan::new(document)?;
    measure_memory(memory::in_use, owners_of(&plan));
    plan.progress = how.progress;
    // Only one recording can run at a time.
    plan.recipe.profile = None;
    if how.layers {
        layer_ranges(true);
    }
    let chain = Chain::of(&plan);
    let mut session = Session::new(plan, data, plugins)?;
    session.start(&out.join("run"))?;
    let options = ProfilerOptions::default()
        .folder(out)
        .unit(unit)
        .wait(schedule.wait)
        .warmup(schedule.warmup)
        .active(schedule.active)
        .repeat(schedule.repeat);
    let mut profiler = Profiler::new(options)?;
    if let Some(roof) = how.roof {
        profiler = profiler.with_roof(roof);
    }
    if unit == Unit::Iterations {
        profiler = profiler.ends_run();
    }
    let profiles = profiler.profiles();
    session.trainer_mut().engine_mut().add(profiler)?;
    running(Some(session.interrupt_flag()));
    let finished = session.run();
    running(None);
    let finished = finished?;
    if let RunEnd::Interrupted(_) = finished.end {
        return Ok(None);
    }
    if let Some(failure) = finished.failures.iter().find(|failure| failure.name == "profiler") {
        return Err(RecipeError::new(failure.to_string()));
    }
    let mut profiles = std::mem::take(&mut *profiles.lock().unwrap_or_else(PoisonError::into_inner));
    let Some(profile) = profiles.pop() else {
        let what = "the run ended before a step was recorded; give a shorter schedule, or more cases";
        return Err(RecipeError::new(what));
    };
    let whole = unit == Unit::Epochs && profile.timeline.named("iteration").next().is_some();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let facts =
        whole.then(|| Facts::of(&profile.timeline, schedule.active, &chain, before.training.val_interval, cores));
    let findings = match &facts {
        Some(facts) => {
            let further = trials::tried(&tried, &Cases::open(data, &before)?, facts)?;
            advise(&before, facts, further)
        }
        None => Vec::new(),
    };
    Ok(Some(Profiled { profile, facts, findings, seconds: finished.seconds }))
}
