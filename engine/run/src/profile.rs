//! A short run that is looked at closely: [`profile`].

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

/// What a profile looks at.
#[derive(Clone, Debug, Default)]
pub struct Profiling {
    /// Which steps, where they are chosen; `None`: an epoch to warm up, and one with a validation.
    pub schedule: Option<(Unit, Schedule)>,
    /// What the machine does at most, to hold kernels against.
    pub roof: Option<Roof>,
    /// Whether layers are ranges.
    pub layers: bool,
    /// How the filling of caches is shown.
    pub progress: Progress,
}

/// What came of it.
#[derive(Debug)]
pub struct Profiled {
    /// The recording and its tables.
    pub profile: Profile,
    /// Where an epoch's time goes; `None` where no whole epoch was recorded.
    pub facts: Option<Facts>,
    /// What would make it faster.
    pub findings: Vec<Finding>,
    /// Seconds of the whole run, with its preparations.
    pub seconds: f64,
}

impl Profiling {
    /// What is recorded: the unit, the schedule, and whether that is whole epochs.
    fn steps(&self) -> (Unit, Schedule) {
        self.schedule.unwrap_or((Unit::Epochs, Schedule { wait: 0, warmup: 1, active: 1, repeat: 1 }))
    }
}

/// Trains by a recipe for as long as the profile asks, as the run `run`
/// within `out`, which receives `trace.json.gz`, `summary.json` and `summary.txt`. `running` is given the flag that interrupts it;
/// `None` where that was set.
///
/// # Errors
/// As a [`Session`] does, and where this process is being profiled already.
pub fn profile(
    document: &Document,
    data: &Path,
    plugins: &[PathBuf],
    out: &Path,
    how: &Profiling,
    running: &dyn Fn(Arc<AtomicBool>),
) -> Outcome<Option<Profiled>> {
    let (unit, schedule) = how.steps();
    let before = Plan::new(document.clone())?.recipe;
    let tried = document.clone();
    let mut document = document.clone();
    let steps = schedule.steps().ok_or_else(|| RecipeError::new("a profile ends: give a repeat of 1 or more"))?;
    // An epoch has an iteration at least; the profiler ends a run whose steps are iterations.
    let epochs = steps;
    document.set(&format!("training.epochs={epochs}"))?;
    if how.schedule.is_none() && !before.learns().generates() {
        // One validation, in the epoch that is recorded.
        document.set(&format!("training.val_interval={epochs}"))?;
    }
    let mut plan = Plan::new(document)?;
    measure_memory(memory::in_use, owners_of(&plan));
    plan.progress = how.progress;
    // There is one recording at a time.
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
    running(session.interrupt_flag());
    let finished = session.run()?;
    if let RunEnd::Interrupted(_) = finished.end {
        return Ok(None);
    }
    if let Some(failure) = finished.failures.iter().find(|failure| failure.name == "profiler") {
        return Err(RecipeError::new(failure.to_string()));
    }
    let mut profiles = std::mem::take(&mut *profiles.lock().unwrap_or_else(PoisonError::into_inner));
    let Some(profile) = profiles.pop() else {
        let what = "the run was over before a step was recorded; give a shorter schedule, or more cases";
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
