//! A training run: builds all parts of a recipe, and runs it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use burn::module::Module;
use hearth_data::{DataLoader, LoaderOptions, all_steps};
use hearth_engine::{Better, Engine, RunEnd};
use hearth_kernels::{Tuning, TuningClock, memory};
use hearth_nn::inferers::Inferer;
use hearth_nn::layers::has_batch_norm;
use hearth_nn::networks::AnyNetwork;
use hearth_train::{
    EvaluatorBuilder, EvaluatorOptions, Ranks, RunFolder, RunLock, SharedCases, SupervisedEvaluator, SupervisedTrainer,
    Train, TrainerBuilder, TrainerOptions, checkpoint, device,
};

use crate::adversarial::gan_trainer;
use crate::cases::label_check;
use crate::cases::usable::usable;
use crate::checks::{batches::check_batches, check_training, remarks::warn_of_recipe};
use crate::dataset::{Use, dataset};
use crate::handlers::case_losses::KeepCaseLosses;
use crate::handlers::folder_watch::FolderWatch;
use crate::handlers::plugins::{Attached, Recorded};
use crate::handlers::{HandlerFailure, attachments, plugins};
use crate::memory::caches::check_caches;
use crate::memory::check::crops_of_a_case;
use crate::penalty::{Empty, Penalties};
use crate::plan::Plan;
use crate::progress::PassProgress;
use crate::record::{Record, run_id};
use crate::resume::resume_error;
use crate::run_info::run_info;
use crate::start::Start;
use crate::{confusion, folders, handlers, ranks, summary};
use hearth_recipe::recipe::{DropLast, Listens, Recipe};
use hearth_recipe::{At, Context, Outcome, RecipeError, failure, notice, warning};

/// The evaluator's name, which is also its handlers' folder in the run.
const VALIDATION: &str = "validation";

/// A trainer with its data, before and during the run.
pub struct Session {
    plan: Plan,
    plugins: Vec<Attached>,
    trainer: Box<dyn Train>,
    folder: Option<RunFolder>,
    /// The lock that the first rank holds while the run writes.
    lock: Option<RunLock>,
    /// The ranks that train together, if there are several.
    ranks: Option<Ranks>,
    data: PathBuf,
    started: Instant,
    tuning: TuningClock,
    /// Whether what may have ended a resumed run would now end it at another time.
    stops_otherwise: bool,
}

/// The values of `--plugin`, and the plugins of a run that is resumed.
type Given<'a> = (&'a [PathBuf], &'a [Recorded]);

impl Session {
    /// Loads plugins, fills caches, builds network and trainer. Nothing is written yet.
    pub fn new(plan: Plan, data: &Path, given: &[PathBuf]) -> Outcome<Self> {
        Self::prepare(plan, data, (given, &[]), Start::Init, None)
    }

    /// Makes the session of one of several ranks, which all do the same work: only the first one
    /// writes, and an error on one rank ends all of them.
    pub fn on_ranks(plan: Plan, data: &Path, given: &[PathBuf], ranks: Ranks) -> Outcome<Self> {
        Self::prepare(plan, data, (given, &[]), Start::Init, Some(ranks))
    }

    /// Makes the session of a resumed run: if it has a checkpoint, the weights come from it.
    pub fn of_run(
        plan: Plan,
        data: &Path,
        given: &[PathBuf],
        folder: &RunFolder,
        ranks: Option<Ranks>,
    ) -> Outcome<Self> {
        // Read by every rank before the first one replaces it.
        let before = Record::read(folder)?;
        let stops_otherwise = before.as_ref().is_some_and(|before| before.stops_otherwise(&plan));
        let before = before.as_ref().map_or(&[][..], Record::plugins);
        let from = if checkpoint::list(&folder.checkpoints())?.is_empty() { Start::Init } else { Start::Checkpoint };
        Ok(Self { stops_otherwise, ..Self::prepare(plan, data, (given, before), from, ranks)? })
    }

    /// Lets [`resume`](Self::resume) drop the states of these handlers, if they are missing.
    pub fn continue_without(&mut self, handlers: &[String]) {
        handlers.iter().for_each(|handler| self.trainer.engine_mut().restore_without(handler));
        if let Some(evaluator) = self.trainer.evaluator_engine_mut(VALIDATION) {
            handlers.iter().for_each(|handler| evaluator.restore_without(handler));
        }
    }

    fn prepare(plan: Plan, data: &Path, given: Given<'_>, from: Start, ranks: Option<Ranks>) -> Outcome<Self> {
        let ranks = ranks.filter(|ranks| ranks.world() > 1).map(|ranks| plan.recipe.distributed.apply(ranks));
        let prepared = Self::build(plan, data, given, from, ranks.clone());
        ranks::together(ranks.as_ref(), "preparing the run", prepared)
    }

    fn build(
        mut plan: Plan,
        data: &Path,
        (given, before): Given<'_>,
        from: Start,
        ranks: Option<Ranks>,
    ) -> Outcome<Self> {
        let (started, tuning) = (Instant::now(), TuningClock::start());
        memory::no_owners();
        if let Some(ranks) = &ranks {
            ranks::agree(&plan, data, ranks)?;
            plan.ranks_here = ranks.communicator().local_world();
        }
        let ranks = ranks.map(|ranks| ranks::over_cards(&plan, ranks)).transpose()?;
        // Errors in the recipe are reported before the work begins.
        let plugins = plugins::load(&plan, given, before)?;
        handlers::check(&plan, &plugins)?;
        warn(&plan, &plugins);
        let trainer: Box<dyn Train> = if plan.recipe.learns().generates() {
            Box::new(gan_trainer(&plan, data, from, ranks.as_ref())?)
        } else {
            Box::new(trainer_of_rank(&plan, data, from, ranks.as_ref())?)
        };
        let (data, folder, lock, stops_otherwise) = (data.to_owned(), None, None, false);
        Ok(Self { plan, plugins, trainer, folder, lock, ranks, data, started, tuning, stops_otherwise })
    }

    /// Creates the run's folder.
    pub fn start(&mut self, out: &Path) -> Outcome {
        let made = if self.is_first() { self.make_folder(out) } else { Ok(()) };
        ranks::together(self.ranks.as_ref(), "making the run's folder", made)?;
        let added = folders::open_run(out).and_then(|folder| self.add_handlers(&folder).map(|()| folder));
        self.folder = Some(ranks::together(self.ranks.as_ref(), "adding handlers", added)?);
        Ok(())
    }

    fn make_folder(&mut self, out: &Path) -> Outcome {
        let record = Record::of_new(&self.plan, &self.data)?.named().with_plugins(&self.plugins);
        let folder = RunFolder::create(out, &self.plan.recipe.to_toml()?)?;
        self.lock = Some(RunLock::new(folder.root())?);
        record.write(&folder)?;
        self.trainer.set_run(record.id().map(str::to_owned));
        Ok(())
    }

    /// Whether this rank writes the run.
    pub fn is_first(&self) -> bool {
        self.ranks.as_ref().is_none_or(|ranks| ranks.rank() == 0)
    }

    /// Resumes a run from its newest intact checkpoint, or from the start if it has none yet.
    pub fn resume(&mut self, folder: RunFolder) -> Outcome {
        let resumed = self.read_checkpoint(folder);
        ranks::together(self.ranks.as_ref(), "reading the checkpoint", resumed)
    }

    fn read_checkpoint(&mut self, folder: RunFolder) -> Outcome {
        if self.is_first() {
            self.lock = Some(RunLock::new(folder.root())?);
        }
        self.add_handlers(&folder)?;
        self.trainer.set_run(run_id(&folder)?);
        if checkpoint::list(&folder.checkpoints())?.is_empty() {
            notice!("{} holds no checkpoint yet: starting from the beginning", folder.root().display());
        } else {
            let went = self.trainer.resume(&folder.checkpoints());
            let doing = || format!("cannot resume {}", folder.root().display());
            let (epoch, iteration) = went.map_err(|error| resume_error(&*error).context(doing()))?;
            if self.stops_otherwise {
                self.trainer.engine_mut().state_mut().terminated = None;
            }
            notice!("resuming from epoch {epoch}, iteration {iteration}");
        }
        // From now on, the run has the increased number of epochs.
        let (path, recipe) = (folder.recipe(), self.plan.recipe.to_toml()?);
        if self.is_first() && hearth_files::read_to_string(&path).is_ok_and(|before| before != recipe) {
            folders::replace(&path, &recipe)?;
        }
        let record = Record::read(&folder)?;
        self.check_without(record.as_ref())?;
        if let Some(record) = record.filter(|_| self.is_first()) {
            record.resumed(&self.plan, &self.plugins)?.write(&folder)?;
        }
        self.folder = Some(folder);
        Ok(())
    }

    /// Fails for a handler of [`continue_without`](Self::continue_without) that the run did not have.
    fn check_without(&self, before: Option<&Record>) -> Outcome {
        let unused = |engine: &Engine, name: &str| engine.unused_without().any(|unused| unused == name);
        let engine = self.trainer.engine();
        let mut names =
            engine.unused_without().filter(|name| self.validation().is_none_or(|other| unused(other, name)));
        match names.find(|name| before.is_none_or(|before| !before.has_plugin(name))) {
            None => Ok(()),
            Some(name) => Err(RecipeError::new(format!(
                "--without {name}: this run has no plugin of this name, and its checkpoint no state of such a handler"
            ))),
        }
    }

    fn add_handlers(&mut self, folder: &RunFolder) -> Outcome {
        let root = folder.root();
        // Added before any plugin writes there again.
        self.trainer.engine_mut().add(FolderWatch::new(folder.recipe()))?;
        let before = handlers::before(&self.plan)?;
        let plugins = plugins::handlers(&self.plan, &self.plugins, root, Listens::Train)?;
        let after = handlers::after(&self.plan, root)?;
        for handler in before.into_iter().chain(plugins).chain(after) {
            self.trainer.engine_mut().add_boxed(handler)?;
        }
        let first = self.is_first();
        let record = Record::read(folder)?;
        let info = run_info(&self.plan, &*self.trainer, root, &self.data, record.as_ref())?;
        let info: Arc<str> = info.into();
        self.trainer.engine_mut().set_run_info(info.clone());
        self.trainer.engine_mut().on_attach(attachments::writer(root, first));
        if let Some(evaluator) = self.trainer.evaluator_engine_mut(VALIDATION) {
            evaluator.set_run_info(info);
            evaluator.on_attach(attachments::writer(&root.join(VALIDATION), first));
            handlers::attach(&self.plan, &self.plugins, &root.join(VALIDATION), evaluator)?;
        }
        Ok(())
    }

    /// Whether the run learns to generate images.
    pub fn generates(&self) -> bool {
        self.plan.recipe.learns().generates()
    }

    /// The run's folder, once it has one.
    pub fn folder(&self) -> Option<&RunFolder> {
        self.folder.as_ref()
    }

    /// The trainer, to which further handlers can be added.
    pub fn trainer_mut(&mut self) -> &mut dyn Train {
        &mut *self.trainer
    }

    /// A flag that stops the run after the current step and keeps its results.
    pub fn interrupt_flag(&self) -> Arc<AtomicBool> {
        self.trainer.engine().interrupt_flag()
    }

    /// Trains until the end, or until it is interrupted, and writes `summary.json`.
    ///
    /// # Errors
    /// A run that fails, or whose folder is missing.
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
        let waits = match (&self.ranks, &end) {
            (Some(ranks), Ok(_)) => Some(ranks::waits(ranks)?),
            _ => None,
        };
        let written = match self.is_first() {
            true => summary::write(&folder, &self.plan, engines, end.as_ref(), seconds, tuning, waits),
            false => Ok(()),
        };
        let end = end.while_doing(|| format!("the run in {} failed", folder.root().display()));
        if let (Some(ranks), Err(error)) = (&self.ranks, &end) {
            // The others wait for this one, and would only notice the failure at their deadline.
            let why = error.line();
            failure!("rank {} ends all ranks: {why}", ranks.rank());
            ranks.communicator().abort(1, &why);
        }
        if let (Err(_), Err(unwritten)) = (&end, &written) {
            // Both errors usually have the same cause, such as a full disk; the first one is more
            // useful.
            warning!("{}", unwritten.line());
        }
        let end = end?;
        written?;
        if matches!(end, RunEnd::Interrupted(_)) && self.is_first() {
            self.save_if_needed(&folder)?;
        }
        if let Some(ranks) = &self.ranks {
            ranks::finish(ranks)?;
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
        let key = state.key_metric.as_ref();
        let key = key.and_then(|name| Some((name.clone(), *state.metrics.get(name)?, state.better == Better::Higher)));
        let data = self.data.clone();
        let plugins = self.plugins.iter().filter(|plugin| plugin.is_given()).filter_map(|plugin| plugin.plugin.path());
        let plugins = plugins.map(Path::to_owned).collect();
        Ok(Finished { end, epoch, best, key, seconds, tuning, failures, folder, data, plugins })
    }

    /// The evaluator's engine.
    fn validation(&self) -> Option<&Engine> {
        self.trainer.evaluator_engine(VALIDATION)
    }

    /// Saves a checkpoint of an interrupted run that has no checkpoint plugin.
    fn save_if_needed(&mut self, folder: &RunFolder) -> Outcome {
        let iteration = self.trainer.engine().state().iteration;
        let newest = checkpoint::newest_of(&folder.checkpoints(), run_id(folder)?.as_deref()).ok();
        if newest.is_none_or(|newest| newest.manifest.header.iteration < iteration) {
            self.trainer.save(&folder.checkpoints(), "interrupted", Some(1))?;
        }
        Ok(())
    }
}

/// The outcome of a run.
pub struct Finished {
    /// Why it ended: completed, ended early by a handler, or interrupted.
    pub end: RunEnd,
    /// The last epoch.
    pub epoch: u64,
    /// The key metric, its best value and the epoch of that value, if there is one.
    pub best: Option<(String, f64, u64)>,
    /// The key metric, its last value, and whether higher values are better.
    pub key: Option<(String, f64, bool)>,
    /// The duration in seconds, including filling caches.
    pub seconds: f64,
    /// The part spent on choosing kernels for the device.
    pub tuning: Tuning,
    /// Handlers that failed without ending the run.
    pub failures: Vec<HandlerFailure>,
    /// The run's folder.
    pub folder: RunFolder,
    /// The data set.
    pub data: PathBuf,
    /// The libraries that `--plugin` named.
    pub plugins: Vec<PathBuf>,
}

/// Warns early about results that will be missing at the end.
fn warn(plan: &Plan, plugins: &[Attached]) {
    let looks_deep = plan.recipe.loss.as_ref().is_none_or(|loss| loss.name() == "DeepSupervisionLoss");
    if plan.recipe.network.has_deep_supervision() && !looks_deep {
        warning!(
            "the network has heads for deep supervision, but the loss uses only its main output, so they are not \
             trained; wrap the loss: [loss] name = \"DeepSupervisionLoss\", [loss.loss] name = ..."
        );
    }
    let loaded = |plugin: &str, handler: &str| {
        plugins.iter().any(|known| known.name() == plugin)
            || plan.recipe.handlers.iter().any(|entry| entry.text("name") == Some(handler))
    };
    warn_of_host_steps(plan);
    warn_of_host_parts(plan);
    warn_of_recipe(plan);
    if !loaded("checkpoint", "Checkpoints") {
        warning!("no `checkpoint` plugin is loaded, so the run will keep no checkpoint");
    }
    if plan.recipe.learns().generates() {
        return;
    }
    if !loaded("validation", "Validation") {
        warning!("no `validation` plugin is loaded, so the run will not validate");
    }
}

/// The trainer of a recipe with its `validation`, with filled caches and without handlers.
pub fn trainer(plan: &Plan, data: &Path, from: Start) -> Outcome<SupervisedTrainer<AnyNetwork>> {
    trainer_of_rank(plan, data, from, None)
}

/// The trainer of one rank, with its part of the data.
fn trainer_of_rank(
    plan: &Plan,
    data: &Path,
    from: Start,
    ranks: Option<&Ranks>,
) -> Outcome<SupervisedTrainer<AnyNetwork>> {
    let recipe = &plan.recipe;
    let cases = usable(plan, data)?;
    label_check::warn_of_empty(plan, &cases.training, &cases.validation);
    let network = plan.starting_network(from)?;
    let beside = check_training(plan, &network)?;
    // Several ranks cache parts of the cases, and check those as they begin.
    if ranks.is_none() {
        check_caches(plan, &cases)?;
    }
    notice!("{}: {}, on {}", cases.name, cases.counts(), device::name(&plan.device));
    if let Some(note) = &cases.note {
        notice!("{note}");
    }
    let part = ranks::training(plan, cases.training, ranks)?;
    // Several ranks have no common table of losses, and their checkpoints hold that of one of them.
    let alone = ranks.is_none_or(|ranks| ranks.world() == 1);
    let losses = part.sampler.as_ref().filter(|_| alone).and_then(|sampler| sampler.losses()).cloned();
    let loader = training_loader(plan, part, beside, has_batch_norm(&network))?;
    let own = ranks::evaluated(&cases.validation, ranks);
    let validation = dataset(plan, own, plan.validation.clone(), Use::Validation, beside)?;
    let mut trainer = trainer_over(plan, network, loader, ranks)?;
    let single = LoaderOptions { batch_size: 1, seed: recipe.training.seed, ..LoaderOptions::default() };
    let loader = DataLoader::new(validation, single)?;
    let shared = ranks.map(|ranks| SharedCases { ranks: ranks.clone(), cases: cases.validation.len() });
    let (builder, _) = evaluator_builder(plan, loader, recipe.inferer.shared(), Empty::default(), shared)?;
    let mut validation = builder.build()?;
    validation.engine_mut().add(PassProgress::new("validation", plan.progress))?;
    trainer.add_evaluator(VALIDATION, validation);
    if let Some(losses) = losses {
        trainer.engine_mut().add(KeepCaseLosses::new(losses))?;
    }
    Ok(trainer)
}

/// The trainer of a recipe for any batches, without its `validation`.
pub(crate) fn trainer_over(
    plan: &Plan,
    network: AnyNetwork,
    loader: DataLoader,
    ranks: Option<&Ranks>,
) -> Outcome<SupervisedTrainer<AnyNetwork>> {
    let recipe = &plan.recipe;
    let loss = recipe.build_loss().map_err(|fault| plan.document.located("", fault))?;
    let mut options = TrainerOptions::new(&plan.device);
    options.precision = plan.precision;
    options.max_epochs = recipe.training.epochs;
    (options.accumulate, options.clip) = (recipe.training.accumulate, recipe.training.clip);
    options.seed = recipe.training.seed;
    options.ranks = ranks.cloned();
    let discriminator = plan.discriminator(&network)?;
    note_weights(discriminator.iter().chain([&network]));
    let mut builder = SupervisedTrainer::builder(network, loss, &recipe.optimizer, loader).options(options);
    if let Some(discriminator) = discriminator {
        let (adversarial, how) = plan.adversary();
        builder = builder.adversary(discriminator, adversarial, how);
    }
    builder = with_metrics(plan, builder)?;
    builder.build().map_err(|error| plan.document.error_at("optimizer", error.to_string()))
}

/// Adds the metrics of training batches, after the steps of the validation.
fn with_metrics(plan: &Plan, mut builder: TrainerBuilder<AnyNetwork>) -> Outcome<TrainerBuilder<AnyNetwork>> {
    let (recipe, metrics) = (&plan.recipe, plan.train_metrics()?);
    if metrics.is_empty() {
        return Ok(builder);
    }
    let (task, labels) = (recipe.learns(), recipe.labels.len());
    builder = builder.post(plan.post_prediction()?, plan.post_label()?);
    for (name, config, metric) in metrics {
        let (pred, label) = task.metric_post(&config, labels);
        builder = builder.metric_after(name, metric, pred, label);
    }
    Ok(match recipe.training.metrics.key(&recipe.metric) {
        Some((name, Some(better))) => builder.key_metric(name, better),
        _ => builder,
    })
}

/// Records networks as owners of memory.
pub(crate) fn note_weights<'a>(networks: impl IntoIterator<Item = &'a AnyNetwork>) {
    let values: usize = networks.into_iter().map(Module::num_params).sum();
    memory::owns("weights", values * size_of::<f32>());
}

/// The training cases behind their pipeline, caches filled, in their order. The training takes `beside` bytes of host
/// memory itself; `norms`: its network has batch norms.
pub(crate) fn training_loader(plan: &Plan, part: ranks::TrainingPart, beside: u64, norms: bool) -> Outcome<DataLoader> {
    let ranks::TrainingPart { items, sampler } = part;
    let cases = dataset(plan, items, plan.training.clone(), Use::Training, beside)?;
    let loader = DataLoader::new(cases, loader_options(plan, norms))?;
    let loader = match sampler {
        Some(sampler) => loader.with_sampler(sampler),
        None => loader,
    };
    check_batches(plan, loader.cases(), norms)?;
    Ok(match &plan.batch {
        Some(batch) => loader.with_batch_transforms(batch.clone()),
        None => loader,
    })
}

/// How training batches are made: on a card they are there before they are asked for.
pub(crate) fn loader_options(plan: &Plan, norms: bool) -> LoaderOptions {
    let Recipe { training, data, .. } = &plan.recipe;
    LoaderOptions {
        batch_size: training.batch_size,
        shuffle: true,
        workers: data.workers,
        seed: training.seed,
        drop_last: training.drop_last == DropLast::Given(true),
        drop_single: training.drop_last == DropLast::Auto && norms && crops_of_a_case(plan) == 1.0,
        device: (!plan.on_processor).then(|| plan.device.clone()),
        ..LoaderOptions::default()
    }
}

/// Warns about random steps that make each batch wait for the GPU.
fn warn_of_host_steps(plan: &Plan) {
    let placed = all_steps(&plan.recipe.transforms).iter().any(|(_, step)| step.get("device").is_some());
    if plan.on_processor || !(plan.recipe.data.cache.on_device() || placed) {
        return;
    }
    let steps = plan.training.random_through_host();
    if !steps.is_empty() {
        notice!(
            "{}: copied from the device to the host and back for each batch; put such steps before the first random one, or \
             keep the cache on the host",
            steps.join(", ")
        );
    }
}

/// Reports a loss and an inferer of plugins that copy from the device, once.
fn warn_of_host_parts(plan: &Plan) {
    if plan.on_processor {
        return;
    }
    if let Some(loss) = plan.recipe.loss.as_ref().filter(|loss| loss.through_host()) {
        let what =
            "its prediction and label are copied from the device to the host for each batch, and its gradient back";
        notice!("the loss {}: {what}", loss.name());
    }
    plan.note_host_inferer();
}

/// The evaluator of the `validation` plugin, or of `hearth evaluate` with its own inferer, whose
/// cases several ranks may share; and per metric how often an empty mask counted as the diagonal.
pub fn evaluator(
    plan: &Plan,
    loader: DataLoader,
    inferer: Arc<dyn Inferer>,
    empty: Empty,
    shared: Option<SharedCases>,
) -> Outcome<(SupervisedEvaluator<AnyNetwork>, Vec<Penalties>)> {
    let (builder, penalties) = evaluator_builder(plan, loader, inferer, empty, shared)?;
    Ok((confusion::added(plan, builder).build()?, penalties))
}

/// The builder of an evaluator whose cases several ranks may share.
pub fn evaluator_builder(
    plan: &Plan,
    loader: DataLoader,
    inferer: Arc<dyn Inferer>,
    empty: Empty,
    shared: Option<SharedCases>,
) -> Outcome<(EvaluatorBuilder<AnyNetwork>, Vec<Penalties>)> {
    let mut options = EvaluatorOptions::default();
    (options.device, options.precision) = (Some(plan.device.clone()), plan.precision);
    (options.inferer, options.shared) = (inferer, shared);
    options.post_pred = plan.post_prediction()?;
    options.post_label = plan.post_label()?;
    let mut evaluator = SupervisedEvaluator::<AnyNetwork>::builder(loader).options(options);
    let (task, labels) = (plan.recipe.learns(), plan.recipe.labels.len());
    // The first metric is the key metric.
    if let Some(better) = plan.recipe.metric.better() {
        evaluator = evaluator.better(better);
    }
    let mut all = Vec::new();
    for (name, config) in plan.recipe.metric.list() {
        let (pred, label) = task.metric_post(&config, labels);
        let (metric, penalties) = plan.measuring(&name, &config, empty)?;
        evaluator = evaluator.metric_after(name, metric, pred, label);
        all.push(penalties);
    }
    Ok((evaluator, all))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hearth_recipe::recipe::bundled;

    fn plan(device: &str) -> Plan {
        let mut document = bundled::find("hippocampus").expect("bundled").document().expect("sound");
        document.set_option("--device", "training.device", device).expect("a text");
        Plan::new(document).expect("sound")
    }

    #[test]
    fn batches_stay_on_a_processor() {
        assert_eq!(loader_options(&plan("cpu"), false).device, None);
    }

    #[cfg(feature = "vulkan")]
    #[test]
    #[ignore = "needs a Vulkan driver"]
    fn batches_are_handed_over_on_vulkan() {
        let plan = plan("vulkan");
        assert_eq!(loader_options(&plan, false).device, Some(plan.device));
    }
}
