//! Runs a bundle like `python -m monai.bundle run`.

use std::path::{Path, PathBuf};

use burn::tensor::Tensor;
use hearth_bundle::{Bundle, Config, Effect, Resolver};

use super::computed::{Computed, Doing};
use super::data::DATASETS;
use super::evaluator::Evaluator;
use super::networks::{Loads, Networks};
use super::save_format::set_format;
use super::writing::Writing;
use super::{Context, checks};
use crate::writers::VolumeFormat;
use hearth_recipe::{Outcome, RecipeError};

/// The parts of a bundle to run, and changes to them.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// Configs in the order in which they are merged: names or paths; empty for the inference config.
    pub config_files: Vec<String>,
    /// The id to run; `None` for `run`, or the only list that runs the evaluator.
    pub run_id: Option<String>,
    /// The id that is evaluated before it.
    pub init_id: String,
    /// The id that is evaluated after it.
    pub final_id: String,
    /// Items that are set, in order, as on the command line.
    pub overrides: Vec<(String, String)>,
    /// Images that replace those of the config.
    pub images: Vec<String>,
    /// The folder for results with a relative path in the config; `None` for the bundle's folder.
    pub results: Option<PathBuf>,
    /// Whether existing results are replaced.
    pub overwrite: bool,
    /// Whether networks may run into which no weights are loaded.
    pub random_weights: bool,
    /// The format of the images that it saves, in place of the config's.
    pub format: Option<VolumeFormat>,
}

impl Default for RunOptions {
    fn default() -> Self {
        RunOptions {
            config_files: Vec::new(),
            run_id: None,
            init_id: "initialize".to_owned(),
            final_id: "finalize".to_owned(),
            overrides: Vec::new(),
            images: Vec::new(),
            results: None,
            overwrite: false,
            random_weights: false,
            format: None,
        }
    }
}

/// A finished case.
#[derive(Debug)]
pub struct Seen<'a> {
    /// The index in the list.
    pub index: usize,
    /// The number of cases.
    pub total: usize,
    /// The input of the network, `[channel, x, y, z]`.
    pub image: &'a Tensor<4>,
    /// The network's output, before post-processing.
    pub output: &'a Tensor<4>,
    /// The output after post-processing.
    pub post: Option<Tensor<4>>,
}

/// An event of a run.
#[allow(clippy::large_enum_variant, reason = "one is passed on at once")]
#[derive(Debug)]
pub enum Told<'a> {
    /// An omitted part, or a probable mistake.
    Note(String),
    /// Weights were loaded from a file.
    Weights(&'a Path),
    /// A network runs with random weights.
    Random(&'a str),
    /// A case is done.
    Case(Seen<'a>),
    /// A step of a sampling is done.
    Denoised {
        /// The number of finished steps.
        done: usize,
        /// The number of all steps.
        total: usize,
        /// The partly denoised image, `[batch, channel, x, y, z]`.
        latent: &'a Tensor<5>,
    },
    /// Patches of a slide are done.
    Patches {
        /// The number of finished patches.
        done: usize,
        /// The number of all patches.
        total: usize,
    },
}

/// The result of a run.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The id that ran.
    pub run_id: String,
    /// The number of cases or slides.
    pub cases: usize,
    /// The written files, in order.
    pub written: Vec<PathBuf>,
    /// Metrics of the evaluator: a single number, or one for each class.
    pub metrics: Vec<(String, Vec<f64>)>,
}

/// The config of a run, merged and changed, and the id to run.
pub(crate) fn config(bundle: &Bundle, options: &RunOptions) -> Outcome<(Config, String)> {
    let files = match options.config_files.is_empty() {
        true => vec![inference(bundle)?],
        false => options.config_files.iter().map(|file| Ok(bundle.find(file)?)).collect::<Outcome<_>>()?,
    };
    let mut config = bundle.load(&files)?;
    for (id, value) in &options.overrides {
        config.set_from_text(id, value)?;
    }
    if let Some(format) = options.format {
        set_format(&mut config, format)?;
    }
    if !options.images.is_empty() {
        leave_out_lists(&mut config)?;
    }
    let id = match &options.run_id {
        Some(id) => id.clone(),
        None => run_id(&config, options)?,
    };
    Ok((config, id))
}

/// Empties the lists of cases of evaluators: images are given instead, and evaluating a list may
/// read files of a missing data set.
pub(crate) fn leave_out_lists(config: &mut Config) -> Outcome {
    let target = |config: &Config, id: &str| {
        let target = config.item(id)?.get("_target_")?.as_str()?;
        Some(target.rsplit('.').next().unwrap_or(target).to_owned())
    };
    let follow = |config: &Config, id: &str, key: &str| match config.item(&format!("{id}#{key}"))? {
        serde_json::Value::String(text) => text.strip_prefix('@').map(str::to_owned),
        serde_json::Value::Object(_) => Some(format!("{id}#{key}")),
        _ => None,
    };
    let is_evaluator = |id: &&str| target(config, id).as_deref() == Some("SupervisedEvaluator");
    let evaluators: Vec<String> = config.ids().filter(is_evaluator).map(str::to_owned).collect();
    for evaluator in &evaluators {
        let dataset =
            follow(config, evaluator, "val_data_loader").and_then(|loader| follow(config, &loader, "dataset"));
        let Some(dataset) = dataset else { continue };
        let listed = target(config, &dataset).is_some_and(|name| DATASETS.contains(&name.as_str()));
        let data = format!("{dataset}#data");
        if listed && config.item(&data).is_some_and(serde_json::Value::is_string) {
            config.set_from_text(&data, "[]")?;
        }
    }
    Ok(())
}

/// The default config to run.
///
/// # Errors
/// A bundle with several inference configs, or none.
pub fn inference(bundle: &Bundle) -> Outcome<PathBuf> {
    if let Ok(config) = bundle.config("inference") {
        return Ok(config.path.clone());
    }
    let candidates = bundle.configs().iter().filter(|config| config.name.starts_with("inference"));
    let candidates: Vec<_> = candidates.collect();
    match candidates[..] {
        [one] => Ok(one.path.clone()),
        _ => {
            let names = if candidates.is_empty() { bundle.configs().iter().collect() } else { candidates };
            let names: Vec<&str> = names.iter().map(|config| config.name.as_str()).collect();
            let what =
                format!("the bundle has no single inference config; name one with --config-file: {}", names.join(", "));
            Err(RecipeError::new(what))
        }
    }
}

/// The id to run: `run`, or the only list of the top level that runs an engine.
fn run_id(config: &Config, options: &RunOptions) -> Outcome<String> {
    if config.has("run") {
        return Ok("run".to_owned());
    }
    let runs = |id: &&str| {
        let item = config.item(id);
        let texts: Vec<&str> = match item {
            Some(serde_json::Value::Array(list)) => list.iter().filter_map(|item| item.as_str()).collect(),
            _ => Vec::new(),
        };
        let other = **id != *options.init_id && **id != *options.final_id;
        other && texts.iter().any(|text| text.starts_with('$') && text.contains(".run()"))
    };
    let found: Vec<&str> = config.ids().filter(runs).collect();
    match found[..] {
        [one] => Ok(one.to_owned()),
        [] => Err(RecipeError::new(
            "the config has no `run`, and no list that runs an evaluator: name the id that is run",
        )),
        _ => Err(RecipeError::new(format!("the config has no `run`; name the id that is run: {}", found.join(", ")))),
    }
}

/// Runs a config of a bundle: `initialize`, the id, `finalize`.
///
/// # Errors
/// All unsupported parts together, missing files, weights that do not fit, or an error in a case.
pub fn run(bundle: &Bundle, options: &RunOptions, tell: &mut dyn FnMut(Told<'_>)) -> Outcome<Report> {
    let (config, run_id) = config(bundle, options)?;
    config.notes().iter().for_each(|note| tell(Told::Note(note.clone())));
    if options.run_id.is_none() && run_id != "run" {
        tell(Told::Note(format!("the config has no `run`; taking `{run_id}`")));
    }
    let folder = bundle.root().to_owned();
    let resolver = Resolver::new(config, folder.clone())?;
    let mut report = Report { run_id: run_id.clone(), ..Report::default() };
    let base = options.results.clone().unwrap_or_else(|| folder.clone());
    let base = std::path::absolute(&base).unwrap_or(base);
    let mut writing = Writing::new(base, folder.clone(), options.overwrite);
    let (images, metadata) = (options.images.clone(), bundle.metadata().cloned());
    let mut context = Context { folder: folder.clone(), images, metadata, ..Context::default() };
    let mut networks = Networks::default();
    networks.random = options.random_weights;
    let mut computed = Computed::default();
    // The device under its conventional id; without an evaluator there is no other.
    let device = checks::device(&resolver)?;
    let phases = [(options.init_id.as_str(), false), (run_id.as_str(), true), (options.final_id.as_str(), false)];
    let mut ran = false;
    for (id, needed) in phases {
        if !needed && !resolver.config().has(id) {
            continue;
        }
        let effects = resolver.run(id)?;
        let faults: Vec<hearth_bundle::Fault> =
            effects.iter().flat_map(|effect| checks::check(effect, &context)).collect();
        if !faults.is_empty() {
            return Err(all(&faults));
        }
        for effect in effects {
            match effect {
                Effect::Run(engine) => {
                    let evaluator = Evaluator::new(&engine, &context).map_err(|faults| all(&faults))?;
                    evaluator.notes.iter().for_each(|note| tell(Told::Note(note.clone())));
                    let (cases, metrics) = evaluator.run(&mut networks, &mut writing, tell)?;
                    report.cases += cases;
                    report.metrics.extend(metrics);
                    ran = true;
                }
                Effect::Load { loader, engine } => {
                    let device = checks::device_of(&engine)?;
                    let loads = Loads::new(&loader, &folder).map_err(|faults| all(&faults))?;
                    let path = networks.load(&loads, &folder, &device)?;
                    tell(Told::Weights(&path));
                }
                Effect::Weights { network, path, old } => {
                    let path = networks.load_whole(&network, (folder.as_path(), Path::new(&path)), old, &device)?;
                    tell(Told::Weights(&path));
                }
                Effect::Timesteps(scheduler, steps) => {
                    let steps = checks::timesteps(&scheduler, steps)?;
                    computed.steps.insert(scheduler.id.clone(), steps);
                }
                Effect::Call(call) => {
                    let (context, networks, writing) = (&context, &mut networks, &mut writing);
                    let (computed, device) = (&mut computed, &device);
                    Doing { computed, context, networks, writing, device, tell }.run(&call)?;
                    ran = true;
                }
                Effect::MakeFolder(path) => {
                    let path = options.results.as_ref().unwrap_or(&folder).join(path);
                    std::fs::create_dir_all(&path)
                        .map_err(|error| RecipeError::new(format!("{} cannot be made: {error}", path.display())))?;
                }
                Effect::Seed(seed) => context.seed = seed,
                other => return Err(RecipeError::new(format!("{id}: {other:?} is not run"))),
            }
        }
    }
    if !ran {
        return Err(RecipeError::new(format!("{run_id} runs no evaluator and samples nothing: nothing was done")));
    }
    writing.warnings.iter().for_each(|warning| tell(Told::Note(warning.clone())));
    report.cases += computed.cases;
    report.written = writing.written().to_vec();
    Ok(report)
}

/// All faults as one error, one per line.
pub(crate) fn all(faults: &[hearth_bundle::Fault]) -> RecipeError {
    let lines: Vec<String> = faults.iter().map(|fault| format!("  {fault}")).collect();
    match faults {
        [one] => RecipeError::new(one.to_string()),
        _ => RecipeError::new(format!("the config has unsupported or missing parts:\n{}", lines.join("\n"))),
    }
}
