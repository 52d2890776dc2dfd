//! The handlers of a run: those that every run has, and those that its recipe lists.

pub mod attachments;
pub mod case_losses;
pub mod folder_watch;
pub mod peak_flops;
pub mod plugins;

use std::fmt;
use std::path::Path;

use hearth_engine::{Engine, Handler, HandlerTimes};
use hearth_handlers::{
    HandlerSpec, LookAt, LrSchedule, LrScheduleOptions, Profiler, StopOnNonFinite, StopOnNonFiniteOptions,
};
use hearth_kernels::memory;
use hearth_nn::layers::layer_ranges;
use hearth_profile::{NoMarkers, measure_memory, show_ranges};
use hearth_registry::{Node, Registry};

use crate::penalty::Empty;
use crate::plan::Plan;
use hearth_recipe::recipe::Listens;
use hearth_recipe::{At, Outcome};
use peak_flops::measure_roof;
use plugins::Attached;

/// The interval in iterations of checking the loss on a GPU, because reading it waits for the GPU.
const LOOK_EVERY: u64 = 16;

/// The handler that shows the progress of a run.
const PROGRESS: &str = "Progress";

/// Handlers called before the plugins: those that may end the run, and the one that sets the
/// learning rate.
pub fn before(plan: &Plan) -> Outcome<Vec<Box<dyn Handler>>> {
    let every = if plan.on_processor { 1 } else { LOOK_EVERY };
    let mut handlers: Vec<Box<dyn Handler>> = Vec::new();
    // Two competing networks have no events within an iteration.
    let at = if plan.recipe.learns().generates() { LookAt::IterationCompleted } else { LookAt::default() };
    handlers.push(Box::new(StopOnNonFinite::new(StopOnNonFiniteOptions { every, at, ..Default::default() })?));
    let schedule = plan.recipe.schedule.clone();
    if schedule.name() != "Constant" {
        let handler = LrSchedule::new(LrScheduleOptions { schedule, ..Default::default() });
        handlers.push(Box::new(handler.map_err(|fault| plan.document.located("schedule", fault))?));
    }
    Ok(handlers)
}

/// The owners of the host's memory; a GPU holds weights and optimizer itself.
pub(crate) fn owners_of(plan: &Plan) -> fn() -> Vec<(&'static str, usize)> {
    if plan.on_processor {
        memory::owners
    } else {
        || memory::owners().into_iter().filter(|(name, _)| *name == "caches").collect()
    }
}

/// Handlers called after the plugins, and so after the validation: those of the recipe, and those
/// that write the run's files.
pub fn after(plan: &Plan, run: &Path) -> Outcome<Vec<Box<dyn Handler>>> {
    let mut handlers = listed(plan, run, Listens::Train)?;
    for name in ["MetricLog", "TensorBoardStats", PROGRESS] {
        if plan.silent && name == PROGRESS {
            continue;
        }
        let is_listed = |entry: &Node| entry.text("name") == Some(name) && Listens::of(entry) == Ok(Listens::Train);
        if !plan.recipe.handlers.iter().any(is_listed) {
            handlers.push(Registry::<HandlerSpec>::new().build(&Node::named(name))?.make(run)?);
        }
    }
    // A profiler listed in the recipe records memory as well.
    measure_memory(memory::in_use, owners_of(plan));
    if let Some(profile) = &plan.recipe.profile {
        if profile.layers {
            layer_ranges(true);
        }
        if let Some(to) = profile.ranges {
            let refused = |why: NoMarkers| plan.document.fault("profile.ranges", why.to_string());
            show_ranges(to.name()).map_err(refused)?;
        }
        let mut profiler = Profiler::new(profile.options(run))?;
        if plan.on_processor && plan.ranks_here == 1 {
            profiler = profiler.with_roof(measure_roof());
        }
        // Added last, so that an epoch includes its validation.
        handlers.push(Box::new(profiler));
    }
    Ok(handlers)
}

/// The handlers for one engine that the recipe lists, in its order.
pub fn listed(plan: &Plan, run: &Path, engine: Listens) -> Outcome<Vec<Box<dyn Handler>>> {
    let registry = Registry::<HandlerSpec>::new();
    let mut handlers = Vec::new();
    for (index, entry) in plan.recipe.handlers.iter().enumerate() {
        if plan.silent && entry.text("name") == Some(PROGRESS) {
            continue;
        }
        let build = || match Listens::of(entry)? {
            listens if listens == engine => {
                registry.build(&Listens::taken_from(entry)).and_then(|spec| spec.make(run)).map(Some)
            }
            _ => Ok(None),
        };
        let place = format!("handlers.{index}");
        let built = build().map_err(|fault| plan.document.located(&place, fault))?;
        if let Some(handler) = &built {
            Engine::new("check")
                .check(&**handler)
                .map_err(|error| plan.document.error_at(&place, error.to_string()))?;
        }
        handlers.extend(built);
    }
    Ok(handlers)
}

/// Builds every handler, plugin's handler and metric once, so that errors are reported before the work
/// begins.
pub fn check(plan: &Plan, plugins: &[Attached]) -> Outcome {
    before(plan)?;
    let (schedule, base) = (&plan.recipe.schedule, plan.recipe.optimizer.lr());
    let rates = schedule.check_rates(base, 0, plan.recipe.training.epochs);
    rates.map_err(|fault| plan.document.located("schedule", fault))?;
    for (name, config) in plan.recipe.metric.list() {
        plan.measuring(&name, &config, Empty::default())?;
    }
    plan.train_metrics()?;
    for engine in [Listens::Train, Listens::Validation] {
        plugins::check(plan, plugins, engine)?;
        listed(plan, Path::new(""), engine)?;
    }
    Ok(())
}

/// Adds the plugins and handlers with `engine = "validation"` to an evaluator. They write into
/// `folder`.
pub fn attach(plan: &Plan, plugins: &[Attached], folder: &Path, evaluator: &mut Engine) -> Outcome {
    let plugins = plugins::handlers(plan, plugins, folder, Listens::Validation)?;
    for handler in plugins.into_iter().chain(listed(plan, folder, Listens::Validation)?) {
        evaluator.add_boxed(handler)?;
    }
    Ok(())
}

/// A handler that failed without ending the run.
#[derive(Clone, Debug)]
pub struct HandlerFailure {
    /// The engine whose events it received: `trainer`, `validation`.
    pub engine: String,
    /// The name of the handler.
    pub name: String,
    /// The number of failures.
    pub errors: u64,
    /// Whether it was disabled.
    pub disabled: bool,
    /// The first failure: event, counters, message.
    pub first: String,
}

impl fmt::Display for HandlerFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { engine, name, errors, disabled, first } = self;
        let times = if *errors == 1 { "once".to_owned() } else { format!("{errors} times") };
        let fate = if *disabled { "was not called again" } else { "the run continued" };
        write!(f, "the handler {name} of the {engine} failed {times} and {fate}; first in {first}")
    }
}

/// The handlers of an engine that have failed so far.
pub fn failures(engine: &Engine) -> Vec<HandlerFailure> {
    let failed = engine.handler_times().into_iter().filter(|handler| handler.errors > 0);
    let failure = |handler: HandlerTimes| HandlerFailure {
        engine: engine.state().engine.clone(),
        name: handler.name,
        errors: handler.errors,
        disabled: handler.disabled,
        first: handler.first_error.unwrap_or_default(),
    };
    failed.map(failure).collect()
}
