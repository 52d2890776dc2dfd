//! Runs and model folders as packages: [`write()`].

use std::path::{Path, PathBuf};

use hearth_nnunet::DatasetJson;
use hearth_package::{Builder, Facts, Kind, Label, MODEL, Manifest, RECIPE, SigningKey, Terms, WEIGHTS};
use hearth_pictures::colours::of_class;
use serde_json::Value;

use super::checkpoint_file;
use super::folders::open_run;
use crate::error::{Context, Outcome, RecipeError};
use crate::notice::warning;
use crate::recipe::{Document, Output, Recipe};
use crate::store::{ModelKind, files_of, kind_of, slashes};

/// What goes into a package beside the model.
#[derive(Debug, Default)]
pub struct PackageOptions {
    /// `best`, `latest` or the name of a checkpoint's folder.
    pub checkpoint: String,
    /// What the labels are, beside the built-in table.
    pub terms: Terms,
    /// A file with the licence's text.
    pub licence: Option<PathBuf>,
    /// `title`, `description`, `author`, `version`, `licence` (its short name), and whatever else.
    pub about: Vec<(String, String)>,
    /// The key that signs it.
    pub key: Option<SigningKey>,
}

/// Writes a run, or a folder of trained models of nnU-Net v2, as one file. The same model makes the
/// same bytes.
///
/// # Errors
/// A folder that is no model; a checkpoint that is not there or damaged; files that cannot be read or
/// written.
pub fn write(model: &Path, out: &Path, options: &PackageOptions) -> Outcome<Manifest> {
    let doing = || format!("cannot export {}", model.display());
    let (kind, inner) = kind_of(model).while_doing(doing)?;
    let folder = inner.map_or_else(|| model.to_owned(), |inner| model.join(inner));
    let made = match kind {
        ModelKind::Run => of_run(&folder, options),
        ModelKind::Nnunet | ModelKind::NnunetSet => of_nnunet(&folder, options),
        ModelKind::Package => Err(RecipeError::new(format!("{} is a package already", model.display()))),
    };
    let mut builder = made.while_doing(doing)?;
    if let Some(path) = &options.licence {
        builder = builder.file("LICENCE", path);
    }
    Ok(builder.write(out, options.key.as_ref())?)
}

fn program() -> String {
    format!("hearth {}", env!("CARGO_PKG_VERSION"))
}

/// Adds what the user says.
fn tell(facts: &mut Facts, about: &[(String, String)]) {
    for (key, value) in about {
        let value = value.clone();
        match key.as_str() {
            "title" => facts.title = value,
            "description" => facts.description = Some(value),
            "author" => facts.authors.push(value),
            "version" => facts.version = Some(value),
            "licence" | "license" => facts.licence = Some(value),
            other => {
                facts.more.insert(other.to_owned(), value);
            }
        }
    }
}

fn warn_of_unused(terms: &Terms, labels: &[Label]) {
    let names: Vec<&str> = labels.iter().map(|label| label.name.as_str()).collect();
    let unused = terms.unused(&names);
    if !unused.is_empty() {
        warning!("the table of terms has {}, which are no labels of this model", unused.join(", "));
    }
}

fn of_run(folder: &Path, options: &PackageOptions) -> Outcome<Builder> {
    let run = open_run(folder)?;
    let path = run.recipe();
    let text = std::fs::read_to_string(&path).while_doing(|| format!("cannot read {}", path.display()))?;
    let recipe = Recipe::read(&Document::parse(path.display().to_string(), text.as_str())?)?;
    let (checkpoint, bytes) = checkpoint_file(&run, &options.checkpoint)?;
    let mut facts = Facts::new(recipe.title());
    facts.modalities.clone_from(&recipe.data.modalities);
    facts.checkpoint = Some(checkpoint);
    let summary: Value = std::fs::read_to_string(run.summary())
        .ok()
        .and_then(|text| serde_json::from_str(&text).ok())
        .unwrap_or_default();
    if let (Some(name), Some(value)) = (summary["key_metric"].as_str(), summary["best_metric"].as_f64()) {
        facts.metrics.insert(name.to_owned(), value);
    }
    tell(&mut facts, &options.about);
    let labels = labels(&recipe, &options.terms);
    warn_of_unused(&options.terms, &labels);
    Ok(Builder::new(Kind::Run, facts, program()).labels(labels).bytes(RECIPE, text).bytes(WEIGHTS, bytes))
}

/// The labels of a recipe's results. Numbers of whole images are none of a map, so they have no term.
fn labels(recipe: &Recipe, terms: &Terms) -> Vec<Label> {
    let output = recipe.output();
    let first = usize::from(output == Output::Regions);
    let none = Terms::default();
    let named = |(place, name): (usize, &String)| {
        let value = place + first;
        let mut label = Label::new(value as u32, name, of_class(value), if output.is_map() { terms } else { &none });
        let is_background = output == Output::Labels && place == 0;
        if !output.is_map() || is_background {
            label.term = None;
        }
        label
    };
    recipe.labels.iter().enumerate().map(named).collect()
}

/// Files of a trained model: what predicts, and what is said of it. Not the validation's results.
const NNUNET_FILES: [&str; 8] = [
    "plans.json",
    "dataset.json",
    "dataset_fingerprint.json",
    "checkpoint_final.pth",
    "checkpoint_best.pth",
    "postprocessing.json",
    "postprocessing.pkl",
    "label_map.json",
];

fn of_nnunet(folder: &Path, options: &PackageOptions) -> Outcome<Builder> {
    let name = folder.canonicalize().ok().and_then(|real| Some(real.file_name()?.to_string_lossy().into_owned()));
    let mut facts = Facts::new(name.unwrap_or_else(|| "nnU-Net v2".to_owned()));
    let set = DatasetJson::read(&folder.join("dataset.json")).ok();
    let said = set.as_ref().and_then(|set| ["licence", "license"].iter().find_map(|key| set.raw.get(key)?.as_str()));
    facts.licence = said.map(str::to_owned);
    tell(&mut facts, &options.about);
    let labels = set.map(|set| of_dataset(&set.raw, &options.terms)).unwrap_or_default();
    warn_of_unused(&options.terms, &labels);
    let mut builder = Builder::new(Kind::Nnunet, facts, program()).labels(labels);
    for (path, _) in files_of(folder)? {
        let file = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        let said = ["license", "licence", "copying", "readme"].iter().any(|start| file.starts_with(start));
        if said || NNUNET_FILES.contains(&file.as_str()) {
            builder = builder.file(format!("{MODEL}/{}", slashes(&path)), folder.join(&path));
        }
    }
    Ok(builder)
}

/// The labels that a `dataset.json` has; of regions the place among them, from 1.
fn of_dataset(raw: &Value, terms: &Terms) -> Vec<Label> {
    let known = raw["labels"].as_object().into_iter().flatten();
    let named = |(place, (name, value)): (usize, (&String, &Value))| {
        let value = value.as_u64().map_or(place, |value| value as usize);
        let mut label = Label::new(value as u32, name, of_class(value), terms);
        label.term = label.term.filter(|_| value > 0);
        label
    };
    known.enumerate().map(named).collect()
}
