//! All needs of a config, and which of them are missing.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use hearth_bundle::{Bundle, Component, Effect, Fault, FaultKind, Resolver, Value};
use hearth_data::Transform;
use hearth_nn::diffusion::NoiseScheduler;
use hearth_nn::inferers::Inferer;
use hearth_nn::losses::Loss;
use hearth_nn::metrics::Metric;
use hearth_nn::networks::NetworkSpec;
use hearth_registry::Registry;

use super::networks::is_known_by;
use super::nodes::base_names;
use super::run::RunOptions;
use super::{Context, checks, run};
use hearth_recipe::Outcome;

/// A component that a config uses.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Part {
    /// The kind: `network`, `transform`, `inferer`, `loss`, ...
    pub kind: &'static str,
    /// The class of the component, as named in the config.
    pub target: String,
    /// The id of the component.
    pub id: String,
    /// Whether it is supported.
    pub here: bool,
}

/// The needs of a config.
#[derive(Clone, Debug)]
pub struct ConfigNeeds {
    /// The name of the config.
    pub name: String,
    /// The file of the config.
    pub path: PathBuf,
    /// The id to run, if there is one.
    pub run_id: Option<String>,
    /// The fault if it trains, which [`run`](super::run()) rejects.
    pub training: Option<Fault>,
    /// The components in use, in the order in which they are resolved.
    pub parts: Vec<Part>,
    /// Missing or unsupported parts, with files last.
    pub missing: Vec<Fault>,
}

impl ConfigNeeds {
    /// Whether all needs are supported, apart from missing files and devices.
    pub fn is_supported(&self) -> bool {
        self.missing.iter().all(|fault| matches!(fault.kind, FaultKind::File | FaultKind::Device))
    }

    /// Whether it can run as it is.
    pub fn is_complete(&self) -> bool {
        self.refusals().next().is_none()
    }

    /// All reasons why a run is rejected.
    pub fn refusals(&self) -> impl Iterator<Item = &Fault> {
        self.training.iter().chain(&self.missing)
    }
}

/// The needs of each config of a bundle. Configs that overlay another one are skipped, because they
/// cannot run alone. If configs are named, the needs of these configs merged.
///
/// # Errors
/// A damaged config.
pub fn needs(bundle: &Bundle, options: &RunOptions) -> Outcome<Vec<ConfigNeeds>> {
    if !options.config_files.is_empty() {
        let first = options.config_files.join(" + ");
        return Ok(vec![of_config(bundle, &first, options)?]);
    }
    let mut all = Vec::new();
    for config in bundle.configs() {
        let one = RunOptions { config_files: vec![config.name.clone()], ..options.clone() };
        if config.name.contains("multi_gpu") || config.name.ends_with("_trt") || config.name == "evaluate" {
            continue;
        }
        let loaded = match bundle.load(std::slice::from_ref(&config.path)) {
            Err(fault) if fault.kind == FaultKind::Overlay => continue,
            loaded => loaded?,
        };
        // Lists of cases and tables of labels are stored next to configs.
        if !loaded.has("bundle_root") && !loaded.has("network_def") && !loaded.has("imports") {
            continue;
        }
        all.push(of_config(bundle, &config.name, &one)?);
    }
    Ok(all)
}

fn of_config(bundle: &Bundle, name: &str, options: &RunOptions) -> Outcome<ConfigNeeds> {
    let path = options.config_files.first().map(|file| bundle.find(file)).transpose()?.unwrap_or_default();
    let file = path.strip_prefix(bundle.root()).unwrap_or(&path).display().to_string();
    let (config, run_id) = match run::config(bundle, options) {
        Ok((config, id)) => (config, Some(id)),
        Err(_) => (bundle.load(std::slice::from_ref(&path))?, None),
    };
    let mut missing = Vec::new();
    if run_id.is_none() {
        let what = "no id that runs an evaluator or a trainer: give the id that is run";
        missing.push(Fault::new(FaultKind::Config, what).in_file(&file));
    }
    let resolver = Resolver::new(config, bundle.root().to_owned())?.gathering();
    let mut effects = Vec::new();
    let phases = [(Some(&options.init_id), false), (run_id.as_ref(), true), (Some(&options.final_id), false)];
    for (id, needed) in phases.into_iter().filter_map(|(id, needed)| Some((id?, needed))) {
        if needed || resolver.config().has(id) {
            match resolver.run(id) {
                Ok(found) => effects.extend(found),
                Err(fault) => missing.push(fault.in_file(&file)),
            }
        }
    }
    if run_id.is_none() {
        for id in resolver.config().ids() {
            // Resolve every item, because it is unknown which ones are used.
            resolver.get(id)?;
        }
    }
    let device = checks::device(&resolver).err();
    missing.extend(resolver.faults());
    missing.extend(device);
    let context = Context { folder: bundle.root().to_owned(), images: options.images.clone(), ..Context::default() };
    let mut walk = Walk::default();
    effects.iter().for_each(|effect| walk.effect(effect));
    let training = refused(&effects, &context, &mut missing);
    let engines = effects.iter().any(|effect| matches!(effect, Effect::Run(_) | Effect::Call(_)));
    if run_id.is_some() && !engines && missing.is_empty() {
        let what = "runs no evaluator and no trainer: its own script does the work";
        missing.push(Fault::at(FaultKind::Component, run_id.clone().unwrap_or_default(), what).in_file(&file));
    }
    // A run ignores classes without effect; rejected ones are listed above.
    if training.is_some() || !missing.is_empty() {
        walk.absent(&file, &mut missing);
    }
    let mut seen = BTreeSet::new();
    missing.retain(|fault| seen.insert((fault.id.clone(), fault.what.clone())));
    missing.sort_by_key(|fault| fault.kind == FaultKind::File);
    Ok(ConfigNeeds { name: name.to_owned(), path, run_id, training, parts: walk.parts, missing })
}

/// Adds the faults for which a run of these effects is rejected. Returns the fault of an engine
/// that trains.
fn refused(effects: &[Effect], context: &Context, missing: &mut Vec<Fault>) -> Option<Fault> {
    let (mut training, mut follows) = (None, Vec::new());
    for effect in effects {
        match effect {
            Effect::Run(engine) if checks::trains(engine) => training = Some(checks::training(engine)),
            effect => {
                let found = checks::check(effect, context).into_iter();
                let (consequences, own): (Vec<Fault>, _) = found.partition(|fault| fault.kind == FaultKind::Unresolved);
                follows.extend(consequences);
                missing.extend(own);
            }
        }
    }
    // The causes are already listed.
    if missing.is_empty() {
        missing.extend(follows);
    }
    training
}

/// Collects components, each once.
#[derive(Default)]
struct Walk {
    parts: Vec<Part>,
    seen: BTreeSet<String>,
}

/// Classes of engines, data and handlers that inference needs and that are part of the runner, and
/// classes that training recipes replace.
const ENGINE: [(&str, &[&str]); 5] = [
    ("engine", &["SupervisedEvaluator", "SupervisedTrainer"]),
    (
        "data",
        &[
            "Dataset",
            "CacheDataset",
            "PersistentDataset",
            "SmartCacheDataset",
            "LMDBDataset",
            "CacheNTransDataset",
            "DataLoader",
            "ThreadDataLoader",
            "CSVDataset",
            "CreateImageLabelList",
            "DecathlonDataset",
            "MaskedPatchWSIDataset",
            "PatchWSIDataset",
            "IterableDataset",
            "ShuffleBuffer",
        ],
    ),
    (
        "handler",
        &[
            "CheckpointLoader",
            "StatsHandler",
            "TensorBoardStatsHandler",
            "TensorBoardImageHandler",
            "CheckpointSaver",
            "ValidationHandler",
            "LrScheduleHandler",
            "ClassificationSaver",
            "ProbMapProducer",
            "EarlyStopHandler",
            "LogfileHandler",
            "MetricLogger",
        ],
    ),
    (
        "metric",
        &[
            "Accuracy",
            "ConfusionMatrix",
            "MeanDice",
            "MeanIoUHandler",
            "ROCAUC",
            "AveragePrecision",
            "HausdorffDistance",
            "SurfaceDistance",
        ],
    ),
    (
        "optimizer or schedule",
        &[
            "Adam",
            "AdamW",
            "SGD",
            "Novograd",
            "RMSprop",
            "StepLR",
            "CosineAnnealingLR",
            "PolynomialLR",
            "ExponentialLR",
            "WarmupCosineSchedule",
            "LinearLR",
            "MultiStepLR",
            "ReduceLROnPlateau",
        ],
    ),
];

/// Steps that the runner implements, and steps that need nothing.
const STEPS: [&str; 16] = [
    "Compose",
    "Lambda",
    "Activations",
    "AsDiscrete",
    "Invert",
    "SaveImage",
    "SaveClassification",
    "CastToType",
    "EnsureType",
    "ToTensor",
    "ToNumpy",
    "ToDevice",
    "FromMetaTensor",
    "ToMetaTensor",
    "ConcatImages",
    "NpySaver",
];

impl Walk {
    fn effect(&mut self, effect: &Effect) {
        match effect {
            Effect::Run(component) | Effect::Weights { network: component, .. } | Effect::Timesteps(component, _) => {
                self.component(component);
            }
            Effect::Load { loader, engine } => {
                self.component(loader);
                self.value(engine);
            }
            Effect::Call(call) => {
                call.args.iter().for_each(|value| self.value(value));
                call.named.iter().for_each(|(_, value)| self.value(value));
            }
            _ => {}
        }
    }

    fn value(&mut self, value: &Value) {
        match value {
            Value::Component(component) => self.component(component),
            Value::Dict(entries) => entries.iter().for_each(|(_, value)| self.value(value)),
            Value::Call(call) => {
                call.args.iter().for_each(|value| self.value(value));
                call.named.iter().for_each(|(_, value)| self.value(value));
            }
            other => other.as_slice().unwrap_or_default().iter().for_each(|value| self.value(value)),
        }
    }

    /// Adds unsupported components without a fault so far.
    fn absent(&self, file: &str, missing: &mut Vec<Fault>) {
        for part in self.parts.iter().filter(|part| !part.here) {
            let known = missing.iter().any(|fault| fault.id == part.id && fault.kind == FaultKind::Component);
            if !known {
                let what = format!("is a {} that is not supported", part.kind);
                let fault = Fault::at(FaultKind::Component, part.id.clone(), what);
                missing.push(Fault { text: part.target.clone(), ..fault }.in_file(file));
            }
        }
    }

    fn component(&mut self, component: &Arc<Component>) {
        if !self.seen.insert(component.id.clone()) {
            return;
        }
        for (_, value) in &component.args {
            self.value(value);
        }
        let (kind, here) = kind(component);
        self.parts.push(Part { kind, target: component.target.clone(), id: component.id.clone(), here });
    }
}

/// The kind of a component, and whether it is supported.
fn kind(component: &Component) -> (&'static str, bool) {
    let name = component.name();
    if let Some((kind, _)) = ENGINE.iter().find(|(_, names)| names.contains(&name)) {
        return (kind, true);
    }
    if name == "LDMSampler" {
        return ("inferer", true);
    }
    if Registry::<dyn NoiseScheduler>::new().find(name).is_some() {
        return ("noise scheduler", true);
    }
    let scripted = component.target.starts_with("scripts.");
    let registry = Registry::<dyn Transform>::new();
    let mut bases = base_names(name).into_iter();
    if bases.any(|base| STEPS.contains(&base) || registry.entries().iter().any(|entry| entry.name == base)) {
        return ("transform", true);
    }
    let network = Registry::<NetworkSpec>::new().find(name);
    if name == "TopologyInstance" || network.is_some_and(|entry| is_known_by(component, entry.name)) {
        return ("network", true);
    }
    if name == "LandmarkInferer" || Registry::<dyn Inferer>::new().entries().iter().any(|entry| entry.name == name) {
        return ("inferer", true);
    }
    if Registry::<dyn Loss>::new().find(name).is_some() {
        return ("loss", true);
    }
    if Registry::<dyn Metric>::new().find(name).is_some() {
        return ("metric", true);
    }
    let guess = match component.target.as_str() {
        _ if component.id.contains("transforms") || component.id.contains("processing") => "transform",
        _ if component.id.contains("inferer") => "inferer",
        _ if component.id.contains("handlers") => "handler",
        _ if component.id.contains("network") || component.id.ends_with("_def") => "network",
        _ if component.id.contains("loss") => "loss",
        _ if scripted => "class of the bundle's own scripts",
        _ => "class",
    };
    (guess, false)
}
