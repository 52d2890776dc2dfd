//! The types of a recipe's content.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use hearth_data::SamplerConfig;
use hearth_data::Transform;
use hearth_data::caches::{Cache, MemoryCache};
use hearth_data::for_each_step;
use hearth_data::layouts::Layout;
use hearth_data::spatial::{Lazy, LazySampling};
use hearth_handlers::{HandlerSpec, ScheduleConfig, constant};
use hearth_nn::inferers::{InfererConfig, SimpleInferer};
use hearth_nn::losses::LossConfig;
use hearth_nn::networks::NetworkConfig;
use hearth_nn::optim::{GradientClip, OptimizerConfig};
use hearth_plugin_host::provide_components;
use hearth_registry::component;
use hearth_registry::{Document, Fault, Kind, Named, Node, Registry};
use hearth_train::device::{ConvolutionsWord, TuneWord};
use serde::{Deserialize, Serialize};

use super::adversarial::Adversarial;
use super::distributed::Distributed;
use super::drop_last::DropLast;
use super::folds::Folds;
use super::init::Init;
use super::labels;
use super::listens::Listens;
use super::metric::Metric;
use super::not_a_number;
use super::output::{Output, TaskEntry};
use super::plugin_entry::{PluginEntry, places_in};
use super::profile_steps::ProfileSteps;
use super::steps;
use super::train_metrics::TrainMetrics;
use super::tta::Tta;
use super::workers;

/// A whole recipe.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// The name of the run, if `task` is a table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The learned task: a table `[task]`, or a name for a segmentation.
    pub task: TaskEntry,
    /// The meaning of the network's channels: classes, the background first; regions; or columns of
    /// numbers.
    #[serde(default)]
    pub labels: Vec<String>,
    /// The training chain. `only = "train"` or `"validation"` excludes a transform from the other
    /// chain. From the first transform with `batch = true` on, training transforms work on whole
    /// batches on the device.
    pub transforms: Vec<Node>,
    /// How the data set is used.
    #[serde(default)]
    pub data: Data,
    /// The network.
    pub network: NetworkConfig,
    /// Initial weights.
    #[serde(default)]
    pub init: Init,
    /// The loss; not used if images are generated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<LossConfig>,
    /// The network that distinguishes generated images from real ones, if images are generated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub discriminator: Option<NetworkConfig>,
    /// How the two networks train against each other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adversarial: Option<Adversarial>,
    /// The optimizer, with its learning rate.
    pub optimizer: OptimizerConfig,
    /// How the learning rate changes.
    #[serde(default = "constant")]
    pub schedule: ScheduleConfig,
    /// The training loop.
    #[serde(default)]
    pub training: Training,
    /// How several ranks train together.
    #[serde(default, skip_serializing_if = "Distributed::is_default")]
    pub distributed: Distributed,
    /// The inference on a whole volume.
    #[serde(default = "at_once")]
    pub inferer: InfererConfig,
    /// Post-processing of predictions and labels before the metric sees them.
    #[serde(default)]
    pub post: Post,
    /// The metrics, and which of them decides the best checkpoint.
    #[serde(default, skip_serializing_if = "Metric::is_none")]
    pub metric: Metric,
    /// Test-time augmentation in `hearth evaluate` and `hearth predict`.
    #[serde(default)]
    pub tta: Tta,
    /// The recorded steps and the output folder; by default nothing is recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<ProfileSteps>,
    /// Plugins, in the order in which they are called.
    #[serde(default = "PluginEntry::usual")]
    pub plugins: Vec<PluginEntry>,
    /// Built-in handlers, in addition to those that every run has.
    #[serde(default)]
    pub handlers: Vec<Node>,
}

/// The data set of a recipe, and its split, cache and loader.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Data {
    /// The layout of the data set on disk; detected by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layout: Option<Named<dyn Layout>>,
    /// The modalities that make up an image, in the order of its channels: names of channels,
    /// suffixes of files, or columns of a table. By default, all of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<String>,
    /// The DICOM modalities that the network supports (`CT`, `MR`, `PT`): `predict` and `serve` refuse
    /// other series, unless `--any-modality` is given. By default, that of the data set, if it tells.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub modalities: Vec<String>,
    /// The folder of the labels that an earlier stage of a cascade predicted for the cases, as
    /// written by `hearth predict`: CASE_seg.nii.gz, or CASE.nii.gz.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub previous_stage: Option<PathBuf>,
    /// The labelled cases used for validation.
    pub validation: Validation,
    /// The folds of a cross-validation: one run for each, instead of `validation`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub folds: Option<Folds>,
    /// How cases are cached after the deterministic transforms.
    pub cache: Named<dyn Cache>,
    /// Threads that prepare batches ahead; with 0 the training thread prepares each batch itself.
    pub workers: usize,
    /// How the training cases of an epoch are drawn; by default each case once, in an order that
    /// the seed determines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampler: Option<Named<dyn SamplerConfig>>,
    /// Whether a run of spatial transforms is sampled once: `off`, `exact` or `on`.
    pub lazy: Lazy,
    /// With `on`: how a key is sampled, regardless of its transforms.
    pub lazy_sampling: BTreeMap<String, LazySampling>,
}

impl Default for Data {
    fn default() -> Self {
        Self {
            layout: None,
            images: Vec::new(),
            modalities: Vec::new(),
            previous_stage: None,
            validation: Validation::default(),
            folds: None,
            cache: usual_cache(),
            workers: 1,
            sampler: None,
            lazy: Lazy::default(),
            lazy_sampling: BTreeMap::new(),
        }
    }
}

/// Caches all cases in this machine's memory.
fn usual_cache() -> Named<dyn Cache> {
    Named::unchecked("cache", &MemoryCache::default(), Arc::new(MemoryCache::default()))
}

/// The labelled cases used for validation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Validation {
    /// The cases that the data set reserves for validation (`validation` of a list, or fold 0 of
    /// its column `fold`); without any, a fifth of the cases, drawn by the seed.
    #[default]
    Auto,
    /// The last cases of the list: their number.
    Last(usize),
    /// This fraction of the list, drawn by the seed.
    Fraction(f64),
    /// A fold of a cross-validation, from 0, and the number of folds: the seed assigns the cases.
    Fold([usize; 2]),
    /// These cases, by name.
    Cases(Vec<String>),
    /// The data set's own validation cases (a JSON list with `validation`).
    Listed,
    /// No cases, if images are generated.
    None,
}

/// The training loop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Training {
    /// Epochs to train.
    pub epochs: u64,
    /// Cases in a batch; each may yield several crops.
    pub batch_size: usize,
    /// Batches per step of the optimizer.
    pub accumulate: u64,
    /// Whether an incomplete last batch of an epoch is left out: `true`, `false`, or `auto`, which
    /// leaves out a last batch of a single crop where the network has batch norms.
    #[serde(skip_serializing_if = "DropLast::is_auto")]
    pub drop_last: DropLast,
    /// How gradients are clipped before a step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clip: Option<GradientClip>,
    /// Epochs between validations.
    pub val_interval: u64,
    /// The metrics of training batches: names of `[metric]`, or tables. A metric `NAME` is recorded as
    /// `train_NAME`.
    #[serde(skip_serializing_if = "TrainMetrics::is_none")]
    pub metrics: TrainMetrics,
    /// The seed that keys every random draw.
    pub seed: u64,
    /// `fp32`, `bf16`, `fp16`, or `auto`: fp32 on a CPU; bf16 on a GPU that computes in bf16, else
    /// fp32.
    pub precision: PrecisionWord,
    /// `cpu`, `cuda:0`, `vulkan`, `rocm:0`, `metal`, `auto`.
    pub device: String,
    /// The effort of choosing kernels for a GPU: `off`, `quick`, `full`, or `auto`: `full` on a
    /// GPU, `off` on software drivers.
    pub tune: TuneWord,
    /// Whose kernels compute convolutions on GPUs of NVIDIA: `own`, Hearth's; `vendor`, those of
    /// cuDNN, which has to be installed; `auto`, those of cuDNN where it is installed.
    pub convolutions: ConvolutionsWord,
}

impl Default for Training {
    fn default() -> Self {
        Self {
            epochs: 100,
            batch_size: 2,
            accumulate: 1,
            drop_last: DropLast::Auto,
            clip: None,
            val_interval: 1,
            metrics: TrainMetrics::default(),
            seed: 0,
            precision: PrecisionWord::Fp32,
            device: "auto".into(),
            tune: TuneWord::Auto,
            convolutions: ConvolutionsWord::Own,
        }
    }
}

/// The precision of the forward pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PrecisionWord {
    /// 32-bit floats.
    Fp32,
    /// 32-bit floats that CUDA may round to TF32 in products of matrices, and in convolutions by cuDNN.
    Tf32,
    /// bfloat16 where it is safe.
    Bf16,
    /// 16-bit floats where it is safe, with a scaled loss.
    Fp16,
    /// fp32 on a CPU; bf16 on a GPU that computes in bf16, else fp32.
    Auto,
}

/// By default one call of the network predicts a whole volume.
fn at_once() -> InfererConfig {
    InfererConfig::unchecked("SimpleInferer", &SimpleInferer {}, Arc::new(SimpleInferer {}))
}

/// Post-processing of predictions and labels before the metric sees them. By default the largest
/// channel of a prediction wins.
///
/// A step is `Activations`, `AsDiscrete`, or a transform of images without its `keys`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Post {
    /// Steps on the network's output.
    pub prediction: Vec<Node>,
    /// Steps on the label map.
    pub label: Vec<Node>,
}

/// Handlers that act on a trainer or look at its loss: in an evaluation they would do nothing, or fail.
const OF_TRAINERS: [&str; 6] =
    ["Validation", "Checkpoints", "EarlyStop", "LrSchedule", "ReduceLROnPlateau", "StopOnNonFinite"];

/// The transform from labels to regions.
const CONVERTS: &str = "ConvertToMultiChannelBasedOnBratsClasses";
const RESOLVES: &str = "ResolveRegions";

impl Recipe {
    /// Reads a document and checks its values.
    ///
    /// # Errors
    /// The first key that is unknown, missing, of another type or invalid, with its position.
    pub fn read(document: &Document) -> Result<Self, Fault> {
        // A command with `--plugin` has already reported more.
        if !component::is_provided() {
            provide_components(&[]);
        }
        component::with_places(places_in(document), || Self::read_parts(document))
    }

    fn read_parts(document: &Document) -> Result<Self, Fault> {
        not_a_number::refuse(document)?;
        Metric::check_keys(document)?;
        TrainMetrics::check_keys(document)?;
        let mut recipe: Self = document.read()?;
        recipe.name_as_known();
        let (root, task) = (document.root(), recipe.learns());
        recipe.metric = match root.get("metric") {
            Some(written) => recipe.metric.with_tables_of(task.metrics(), written)?,
            None if task.generates() => Metric::none(),
            None => Metric::of(task.metrics())?,
        };
        if task.generates() {
            if root.get("data").and_then(|data| data.get("validation")).is_none() {
                recipe.data.validation = Validation::None;
            }
            if root.get("plugins").is_none() {
                recipe.plugins.retain(|plugin| plugin.name != "validation");
            }
        }
        recipe.check(document)?;
        recipe.fill_in(document);
        recipe.leave_out_ignored(document)?;
        Ok(recipe)
    }

    /// Builds parts of the recipe: components of plugins are searched at the paths of its plugins, too.
    pub fn with_plugins<T>(&self, build: impl FnOnce() -> T) -> T {
        let isolated = self.plugins.iter().filter(|plugin| plugin.isolated);
        let places = component::Places {
            paths: self.plugins.iter().filter_map(|plugin| plugin.path.clone()).collect(),
            isolated: isolated.map(|plugin| (plugin.name.clone(), plugin.limit())).collect(),
        };
        component::with_places(places, build)
    }

    /// The recipe as TOML, every default written out.
    ///
    /// # Errors
    /// A value that TOML cannot represent.
    pub fn to_toml(&self) -> Result<String, Fault> {
        toml::to_string(self).map_err(|error| Fault::new(format!("this recipe cannot be written as TOML: {error}")))
    }

    /// Writes the names of steps and handlers as their entries do, so that a rule about `Spacing` is one
    /// about MONAI's `Spacingd` too.
    fn name_as_known(&mut self) {
        let (transforms, post) = (Registry::<dyn Transform>::new(), Registry::<hearth_train::Post>::new());
        let chains = [&mut self.transforms, &mut self.tta.transforms];
        let mut name = |step: &mut Node| transforms.name_as_known(step);
        chains.into_iter().flatten().for_each(|step| for_each_step(step, &mut name));
        for step in [&mut self.post.prediction, &mut self.post.label].into_iter().flatten() {
            post.name_as_known(step);
            transforms.name_as_known(step);
        }
        let handlers = Registry::<HandlerSpec>::new();
        self.handlers.iter_mut().for_each(|handler| handlers.name_as_known(handler));
    }

    /// Fills in defaults that depend on other values.
    fn fill_in(&mut self, document: &Document) {
        self.metric.fill_in();
        if self.learns().generates() || self.discriminator.is_some() {
            self.adversarial.get_or_insert_default();
        }
        if let Some(weights) = &mut self.init.weights
            && let Ok(absolute) = std::path::absolute(&*weights)
        {
            // The run may be resumed from another folder.
            *weights = absolute;
        }
        if let Some(folder) = &mut self.data.previous_stage
            && let Ok(absolute) = std::path::absolute(&*folder)
        {
            *folder = absolute;
        }
        let (prediction, label) = self.learns().post(self.labels.len());
        if self.post.prediction.is_empty() {
            self.post.prediction = prediction;
        }
        if self.post.label.is_empty() {
            self.post.label = label;
        }
        self.fill_in_regions();
        let (output, metric) = (self.output(), document.root().get("metric"));
        let written = metric.and_then(|metric| metric.get("include_background"));
        if let (Metric::Dice { include_background, .. }, Output::Regions, None) = (&mut self.metric, output, written) {
            *include_background = true;
        }
        if output == Output::Regions {
            self.metric.count_every_channel(metric);
            self.training.metrics.count_every_channel(document);
        }
        for plugin in self.plugins.iter_mut().filter(|plugin| plugin.name == "validation") {
            let interval = toml::Value::Integer(self.training.val_interval.try_into().unwrap_or(i64::MAX));
            plugin.options.entry("interval").or_insert(interval);
        }
    }

    /// The channels of the training images.
    pub fn image_channels(&self) -> usize {
        let generated = self.discriminator.as_ref().filter(|_| self.learns().generates());
        generated.unwrap_or(&self.network).in_channels()
    }

    /// Regions that are written as labels: the transform that makes them gets their labels from the
    /// task, and they are resolved before they are measured or written.
    fn fill_in_regions(&mut self) {
        let Some(classes) = self.learns().region_labels() else { return };
        // Voxels without annotation get a channel after those of the regions.
        let mut channels = classes.clone();
        channels.extend(self.learns().ignore_label().map(|label| vec![i64::from(label)]));
        let mut fill_in = |table: &mut Node| {
            let is_it = |name: &str| name == CONVERTS || <dyn Transform>::is_spelt(CONVERTS, name);
            let named = table.text("name").is_some_and(is_it);
            if named && table.get("classes").is_none() && table.get("et_label").is_none() {
                table.insert("classes", Node::from(channels.clone()));
                table.insert("strict", Node::from(true));
            }
        };
        self.transforms.iter_mut().for_each(|table| for_each_step(table, &mut fill_in));
        if !self.post.prediction.iter().any(|step| step.text("name") == Some(RESOLVES)) {
            self.post.prediction.push(Node::named(RESOLVES).with("classes", classes));
        }
    }

    fn check(&self, document: &Document) -> Result<(), Fault> {
        let demand = |holds: bool, path: &str, message: String| {
            if holds { Ok(()) } else { Err(document.fault(path, message)) }
        };
        let (data, training) = (&self.data, &self.training);
        self.check_task().map_err(|fault| document.located("", fault))?;
        self.check_inferer().map_err(|fault| document.located("", fault))?;
        demand(!self.transforms.is_empty(), "transforms", "a recipe needs at least LoadImage".into())?;
        demand(training.epochs >= 1, "training.epochs", format!("epochs is {}; give 1 or more", training.epochs))?;
        demand(training.batch_size >= 1, "training.batch_size", "a batch holds at least 1 case".into())?;
        workers::check(document, data)?;
        labels::check(document, &self.labels)?;
        demand(training.accumulate >= 1, "training.accumulate", "a step takes at least 1 batch".into())?;
        self.distributed.check().map_err(|fault| document.located("", fault))?;
        if let Some(profile) = &self.profile {
            profile.check().map_err(|fault| document.located("", fault))?;
            let listed = self.handlers.iter().any(|entry| entry.text("name") == Some("Profiler"));
            demand(!listed, "profile", "a process has one recording: drop [profile], or the handler Profiler".into())?;
        }
        if let Some(clip) = training.clip {
            clip.check().map_err(|error| document.fault("training.clip", error.to_string()))?;
        }
        demand(training.val_interval >= 1, "training.val_interval", "give 1 or more epochs".into())?;
        demand(
            data.sampler.is_none() || !data.cache.moves(),
            "data.sampler",
            "the `smart` cache shows other cases in each epoch, which a sampler cannot follow; choose another \
             data.cache.kind"
                .into(),
        )?;
        demand(
            data.lazy == Lazy::On || data.lazy_sampling.is_empty(),
            "data.lazy_sampling",
            "it only takes effect with `lazy = \"on\"`".into(),
        )?;
        if let Some(folds) = &data.folds {
            folds.check().map_err(|(key, what)| document.fault(&format!("data.folds.{key}"), what))?;
            demand(
                !self.learns().generates(),
                "data.folds",
                "where images are generated, no case validates and there are no folds".into(),
            )?;
        }
        match &data.validation {
            Validation::Last(n) => demand(*n >= 1, "data.validation", "at least 1 case must validate".into())?,
            Validation::Fold([fold, folds]) => demand(
                *folds >= 2 && fold < folds,
                "data.validation",
                format!("there is no fold {fold} of {folds}; give [0, 5] to [4, 5] for five"),
            )?,
            Validation::None => demand(
                self.learns().generates(),
                "data.validation",
                "only where images are generated does no case validate".into(),
            )?,
            Validation::Cases(names) => {
                demand(!names.is_empty(), "data.validation", "at least 1 case must validate".into())?;
            }
            Validation::Listed | Validation::Auto => {}
            Validation::Fraction(part) => demand(
                *part > 0.0 && *part < 1.0,
                "data.validation",
                format!("{part} is not a fraction of the cases; give more than 0 and less than 1"),
            )?,
        }
        let (task, classes) = (self.learns(), self.labels.len());
        training.metrics.check(document, &self.metric, &*task, classes)?;
        self.metric.check(document, &training.metrics, &*task, classes)?;
        self.check_previous_stage(document)?;
        self.check_handlers(document)?;
        steps::check(document, &self.transforms)
    }

    /// Rejects plugins and handlers that cannot be used where they are listed.
    fn check_handlers(&self, document: &Document) -> Result<(), Fault> {
        let of_trainers = |engine: Listens, at: &str, name: &str| match engine {
            Listens::Train => Ok(()),
            Listens::Validation => {
                let what = format!("{name:?} needs a trainer: remove `engine`");
                Err(document.fault(&format!("{at}.engine"), what))
            }
        };
        for (index, plugin) in self.plugins.iter().enumerate() {
            let at = format!("plugins.{index}");
            let same = |other: &PluginEntry| (other.called(), other.engine) == (plugin.called(), plugin.engine);
            if self.plugins[..index].iter().any(same) {
                let what = format!(
                    "the plugin {:?} is listed twice; give one of them a name of its own, as = \"{}-2\"",
                    plugin.called(),
                    plugin.name
                );
                return Err(document.fault(&format!("{at}.name"), what));
            }
            if let Some((key, what)) = plugin.mistake() {
                return Err(document.fault(&format!("{at}.{key}"), what));
            }
            if ["validation", "checkpoint"].contains(&plugin.name.as_str()) {
                of_trainers(plugin.engine, &at, &plugin.name)?;
            }
        }
        for (index, handler) in self.handlers.iter().enumerate() {
            let at = format!("handlers.{index}");
            let engine = Listens::of(handler).map_err(|fault| document.located(&at, fault))?;
            let name = handler.text("name").unwrap_or_default();
            if OF_TRAINERS.contains(&name) {
                of_trainers(engine, &at, name)?;
            }
            let same = match name {
                "Validation" => "validation",
                "Checkpoints" => "checkpoint",
                _ => continue,
            };
            if self.plugins.iter().any(|plugin| plugin.name == same) {
                let message =
                    format!("the plugin {same:?} does the same; list `[[plugins]]` without it, or remove this handler");
                return Err(document.fault(&format!("{at}.name"), message));
            }
        }
        Ok(())
    }
}
