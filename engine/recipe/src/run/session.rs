//! A training run: builds everything a recipe asks for, and runs it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use hearth_data::{DataLoader, LoaderOptions};
use hearth_engine::{Engine, RunEnd};
use hearth_kernels::{Tuning, TuningClock};
use hearth_nn::inferers::Inferer;
use hearth_nn::networks::AnyNetwork;
use hearth_train::{
    EvaluatorOptions, RunFolder, RunLock, SupervisedEvaluator, SupervisedTrainer, TrainerOptions, checkpoint, device,
};

use super::dataset::{Use, dataset};
use super::handlers::HandlerFailure;
use super::plugins::Attached;
use super::record::Record;
use super::{Cases, Plan, Start, folders, handlers, plugins, summary};
use crate::error::{At, Context, Outcome, RecipeError};
use crate::notice::{notice, warning};
use crate::recipe::Listens;

/// The evaluator's name, and its handlers' folder within the run's.
const VALIDATION: &str = "validation";

/// A trainer with its data, before and while it runs.
pub struct Session {
    plan: Plan,
    plugins: Vec<Attached>,
    trainer: SupervisedTrainer<AnyNetwork>,
    folder: Option<RunFolder>,
    /// Held while the run writes.
    lock: Option<RunLock>,
    data: PathBuf,
    started: Instant,
    tuning: TuningClock,
}

impl Session {
    /// Loads plugins, fills caches, builds network and trainer. Nothing is written yet.
    pub fn new(plan: Plan, data: &Path, given: &[PathBuf]) -> Outcome<Self> {
        Self::prepare(plan, data, given, Start::Init)
    }

    /// The same for a resumed run: if it has a checkpoint already, weights come from there.
    pub fn of_run(plan: Plan, data: &Path, given: &[PathBuf], folder: &RunFolder) -> Outcome<Self> {
        let begun = !checkpoint::list(&folder.checkpoints())?.is_empty();
        Self::prepare(plan, data, given, if begun { Start::Checkpoint } else { Start::Init })
    }

    fn prepare(plan: Plan, data: &Path, given: &[PathBuf], from: Start) -> Outcome<Self> {
        let (started, tuning) = (Instant::now(), TuningClock::start());
        // Errors in the recipe are reported before the work begins.
        let plugins = plugins::load(&plan, given)?;
        handlers::check(&plan, &plugins)?;
        warn(&plan, &plugins);
        let trainer = trainer(&plan, data, from)?;
        Ok(Self { plan, plugins, trainer, folder: None, lock: None, data: data.to_owned(), started, tuning })
    }

    /// Creates the run's folder.
    pub fn start(&mut self, out: &Path) -> Outcome {
        let record = Record::new(&self.plan, &self.data)?;
        let folder = RunFolder::create(out, &self.plan.recipe.to_toml()?)?;
        self.lock = Some(RunLock::new(folder.root())?);
        record.write(&folder)?;
        self.add_handlers(&folder)?;
        self.folder = Some(folder);
        Ok(())
    }

    /// Resumes a run from its newest intact checkpoint, or from the start if it has none yet.
    pub fn resume(&mut self, folder: RunFolder) -> Outcome {
        self.lock = Some(RunLock::new(folder.root())?);
        self.add_handlers(&folder)?;
        if checkpoint::list(&folder.checkpoints())?.is_empty() {
            notice!("{} holds no checkpoint yet: starting from the beginning", folder.root().display());
        } else {
            let went = self.trainer.resume(&folder.checkpoints());
            let doing = || format!("cannot resume {}", folder.root().display());
            let (epoch, iteration) = went.map_err(|error| RecipeError::new(error.to_string()).context(doing()))?;
            notice!("resuming from epoch {epoch}, iteration {iteration}");
        }
        // A raised number of epochs is part of the run from now on.
        let (path, recipe) = (folder.recipe(), self.plan.recipe.to_toml()?);
        if std::fs::read_to_string(&path).is_ok_and(|before| before != recipe) {
            folders::replace(&path, &recipe)?;
        }
        self.folder = Some(folder);
        Ok(())
    }

    fn add_handlers(&mut self, folder: &RunFolder) -> Outcome {
        let root = folder.root();
        let before = handlers::before(&self.plan)?;
        let plugins = plugins::handlers(&self.plan, &self.plugins, root, Listens::Train)?;
        let after = handlers::after(&self.plan, root)?;
        for handler in before.into_iter().chain(plugins).chain(after) {
            self.trainer.engine_mut().add_boxed(handler)?;
        }
        if let Some(evaluator) = self.trainer.evaluator_mut(VALIDATION) {
            handlers::attach(&self.plan, &self.plugins, &root.join(VALIDATION), evaluator.engine_mut())?;
        }
        Ok(())
    }

    /// The trainer, to add handlers to.
    pub fn trainer_mut(&mut self) -> &mut SupervisedTrainer<AnyNetwork> {
        &mut self.trainer
    }

    /// When set, the run stops after the current step and keeps its results.
    pub fn interrupt_flag(&self) -> Arc<AtomicBool> {
        self.trainer.engine().interrupt_flag()
    }

    /// Trains until the end, or until it is interrupted, and writes `summary.json`.
    ///
    /// # Errors
    /// When the run fails, or its folder is gone.
    pub fn run(&mut self) -> Outcome<Finished> {
        let folder = self.folder.clone().ok_or_else(|| RecipeError::new("the run has no folder"))?;
        let end = self.trainer.run();
        let (seconds, tuning) = (self.started.elapsed().as_secs_f64(), self.tuning.spent());
        if !folder.recipe().is_file() {
            let root = folder.root().display();
            let what = "was removed or emptied while the run wrote to it: what it held before is lost";
            return Err(RecipeError::new(format!("{root} {what}")));
        }
        let engines = (self.trainer.engine(), self.validation());
        summary::write(&folder, &self.plan, engines, end.as_ref(), seconds, tuning)?;
        let end = end.while_doing(|| format!("the run in {} failed", folder.root().display()))?;
        if matches!(end, RunEnd::Interrupted(_)) {
            self.save_if_needed(&folder)?;
        }
        let engine = self.trainer.engine();
        let state = engine.state();
        let best = match (state.key_metric.clone(), state.best_metric, state.best_epoch) {
            (Some(name), Some(value), Some(epoch)) => Some((name, value, epoch)),
            _ => None,
        };
        let mut failures = handlers::failures(engine);
        failures.extend(self.validation().into_iter().flat_map(handlers::failures));
        let epoch = state.epoch;
        Ok(Finished { end, epoch, best, seconds, tuning, failures, folder, data: self.data.clone() })
    }

    /// The evaluator's engine.
    fn validation(&self) -> Option<&Engine> {
        self.trainer.evaluator(VALIDATION).map(|evaluator| evaluator.engine())
    }

    /// A run without the checkpoint plugin loses nothing when it is interrupted, either.
    fn save_if_needed(&mut self, folder: &RunFolder) -> Outcome {
        let iteration = self.trainer.engine().state().iteration;
        let newest = checkpoint::newest(&folder.checkpoints()).ok();
        if newest.is_none_or(|newest| newest.manifest.header.iteration < iteration) {
            self.trainer.save(&folder.checkpoints(), "interrupted", Some(1))?;
        }
        Ok(())
    }
}

/// How a run ended.
pub struct Finished {
    /// Completed, ended early by a handler, or interrupted.
    pub end: RunEnd,
    /// The epoch it ended in.
    pub epoch: u64,
    /// The key metric, its best value and that value's epoch, where there is one.
    pub best: Option<(String, f64, u64)>,
    /// How long it took, caches included.
    pub seconds: f64,
    /// How much of it went into choosing kernels for the device.
    pub tuning: Tuning,
    /// Handlers that failed and did not end the run.
    pub failures: Vec<HandlerFailure>,
    /// Its folder.
    pub folder: RunFolder,
    /// Its data.
    pub data: PathBuf,
}

/// Fails if a run cannot be resumed with this plan, before any of the work.
pub fn check_resume(plan: &Plan, data: &Path, folder: &RunFolder) -> Outcome {
    Record::new(plan, data)?.check(folder)?;
    if checkpoint::list(&folder.checkpoints())?.is_empty() {
        return Ok(());
    }
    let (done, asked) = (checkpoint::newest(&folder.checkpoints())?.manifest.header.epoch, plan.recipe.training.epochs);
    if asked < done {
        let root = folder.root().display();
        return Err(RecipeError::new(format!(
            "{root} is in epoch {done} already: --epochs {asked} is less; nothing was changed"
        )));
    }
    Ok(())
}

/// Warns early of what will be missing at the end.
fn warn(plan: &Plan, plugins: &[Attached]) {
    if plan.recipe.network.has_deep_supervision() && plan.recipe.loss.name() != "DeepSupervisionLoss" {
        warning!(
            "the network has heads for deep supervision, but the loss uses only its main output, so they are not \
             trained; wrap the loss: [loss] name = \"DeepSupervisionLoss\", [loss.loss] name = ..."
        );
    }
    let loaded = |plugin: &str, handler: &str| {
        plugins.iter().any(|known| known.name() == plugin)
            || plan.recipe.handlers.iter().any(|entry| entry.text("name") == Some(handler))
    };
    let training = &plan.recipe.training;
    if !loaded("checkpoint", "Checkpoints") {
        warning!("no `checkpoint` plugin is loaded, so the run will keep no checkpoint");
    }
    if !loaded("validation", "Validation") {
        warning!("no `validation` plugin is loaded, so the run will not validate");
    } else if training.epochs < training.val_interval {
        let (epochs, interval) = (training.epochs, training.val_interval);
        warning!("the run will never validate: it has {epochs} epochs and val_interval = {interval}");
    }
}

/// The trainer of a recipe with its `validation`, caches filled, without handlers.
pub fn trainer(plan: &Plan, data: &Path, from: Start) -> Outcome<SupervisedTrainer<AnyNetwork>> {
    let recipe = &plan.recipe;
    let cases = Cases::open(data, recipe)?;
    let network = plan.starting_network(from)?;
    let (train, validate) = (cases.training.len(), cases.validation.len());
    notice!("{}: {train} cases train, {validate} validate, on {}", cases.name, device::name(&plan.device));
    let seed = recipe.training.seed;
    let sampler = recipe.data.sampler.as_ref();
    let sampler = sampler.map(|sampler| sampler.sampler(&cases.training, seed)).transpose();
    let sampler = sampler.map_err(|fault| plan.document.located("data.sampler", fault))?;
    let training = dataset(plan, cases.training, plan.training.clone(), Use::Training)?;
    let validation = dataset(plan, cases.validation, plan.validation.clone(), Use::Validation)?;
    let loader = LoaderOptions {
        batch_size: recipe.training.batch_size,
        shuffle: true,
        workers: recipe.data.workers,
        seed,
        ..LoaderOptions::default()
    };
    let mut options = TrainerOptions::new(&plan.device);
    options.precision = plan.precision;
    options.max_epochs = recipe.training.epochs;
    (options.accumulate, options.clip) = (recipe.training.accumulate, recipe.training.clip);
    options.seed = seed;
    let (loss, mut loader) = (recipe.loss.build()?, DataLoader::new(training, loader)?);
    if let Some(sampler) = sampler {
        loader = loader.with_sampler(sampler);
    }
    let mut trainer = SupervisedTrainer::builder(network, loss, &recipe.optimizer, loader)
        .options(options)
        .build()
        .map_err(|error| plan.document.error_at("optimizer", error.to_string()))?;
    let single = LoaderOptions { batch_size: 1, seed, ..LoaderOptions::default() };
    let loader = DataLoader::new(validation, single)?;
    trainer.add_evaluator(VALIDATION, evaluator(plan, loader, recipe.inferer.shared())?);
    Ok(trainer)
}

/// The evaluator that the `validation` plugin runs, or `hearth evaluate` with its own inferer.
pub fn evaluator(
    plan: &Plan,
    loader: DataLoader,
    inferer: Arc<dyn Inferer>,
) -> Outcome<SupervisedEvaluator<AnyNetwork>> {
    let mut options = EvaluatorOptions::default();
    (options.device, options.precision) = (Some(plan.device.clone()), plan.precision);
    options.inferer = inferer;
    options.post_pred = plan.post_prediction()?;
    options.post_label = plan.post_label()?;
    let mut evaluator = SupervisedEvaluator::<AnyNetwork>::builder(loader).options(options);
    let (task, labels) = (plan.recipe.learns(), plan.recipe.labels.len());
    // The first metric is the key metric.
    if let Some(better) = plan.recipe.metric.better() {
        evaluator = evaluator.better(better);
    }
    for (name, config) in plan.recipe.metric.list() {
        let (pred, label) = task.metric_post(&config, labels);
        evaluator = evaluator.metric_after(name, config.build()?, pred, label);
    }
    Ok(evaluator.build()?)
}
