//! The cases of a data set, split according to the recipe.

pub mod evaluated;
pub mod fitness;
pub mod folds;
pub(crate) mod label_channels;
pub mod label_check;
pub mod patients;
pub mod previous_stage;
mod twins;
pub mod usable;

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use hearth_data::layouts::{self, CaseList, Target, Wants};
use hearth_data::readers::check_grids;
use hearth_data::{CrossValidation, Field, Item, Sample};
use hearth_registry::{counted, unknown};

use crate::plan::Plan;
use crate::plan::maps_labels;
use hearth_recipe::recipe::{Output, Recipe, Validation};
use hearth_recipe::{Context, Outcome, RecipeError, warning};
use patients::{shared_patients, split_patients};
use previous_stage::add_labels;

/// The part of the cases that validate if neither the recipe nor the data set says which.
const AUTO_PART: f64 = 0.2;

/// The labelled cases of a data set.
pub struct Cases {
    /// The name of the data set.
    pub name: String,
    /// The training cases.
    pub training: Vec<Item>,
    /// The validation cases.
    pub validation: Vec<Item>,
    /// Words about a split that the data set itself decides, or that ignores what it reserves.
    pub note: Option<String>,
    /// The names of the channels in the data set, such as `CT`, if it names them.
    pub channels: Vec<String>,
}

impl Cases {
    /// Opens the folder and splits its cases.
    pub fn open(folder: &Path, recipe: &Recipe) -> Outcome<Self> {
        let set = list(folder, recipe)?;
        let count = set.labelled.len();
        let doing = || format!("--data {}: splitting {}", folder.display(), counted(count, "case"));
        let (training, validation) = split(&set, recipe).while_doing(doing)?;
        let lacks = validation.is_empty() && recipe.data.validation != Validation::None;
        if training.is_empty() || lacks {
            let validation = toml::Value::try_from(&recipe.data.validation).map_err(RecipeError::from_error)?;
            return Err(RecipeError::new(format!(
                "the data set {:?} has {}; with data.validation = {validation} none are left to \
                 train or to validate: change it, or add cases",
                set.name,
                counted(count, "labelled case")
            )));
        }
        if let Some(what) = shared_patients(&training, &validation) {
            warning!("--data {}: {what}", folder.display());
        }
        let note = note_of_split(&set, recipe);
        Ok(Self { name: set.name, training, validation, note, channels: set.modalities })
    }

    /// The numbers of training and validation cases, in words.
    pub fn counts(&self) -> String {
        let verb = |count: usize, verb: &str| if count == 1 { format!("{verb}s") } else { verb.to_owned() };
        let (train, validate) = (self.training.len(), self.validation.len());
        format!("{} {}, {validate} {}", counted(train, "case"), verb(train, "train"), verb(validate, "validate"))
    }

    /// All labelled cases of a folder, in the order of its list, without checking their number.
    pub fn all(folder: &Path, recipe: &Recipe) -> Outcome<Vec<Item>> {
        Ok(list(folder, recipe)?.labelled)
    }

    /// Estimates the size of the caches in bytes, in memory or on disk, from the first case of each
    /// kind.
    pub fn predicted_bytes(&self, plan: &Plan) -> Outcome<u64> {
        let cache = &plan.recipe.data.cache;
        let mut total = 0;
        for (items, pipeline) in [(&self.training, &plan.training), (&self.validation, &plan.validation)] {
            let count = cache.kept(items.len());
            if let Some(first) = items.first().filter(|_| count > 0) {
                let samples = pipeline.run_deterministic(first.sample())?;
                total += samples.iter().map(Sample::bytes).sum::<usize>() as u64 * count as u64;
            }
        }
        Ok(total)
    }
}

/// The data that a recipe needs for each case.
pub fn wants(recipe: &Recipe) -> Wants {
    let target = match recipe.learns().target() {
        // A regression task uses the recipe's labels as columns.
        Target::Fields(names) if names.is_empty() => Target::Fields(recipe.labels.clone()),
        target => target,
    };
    Wants { images: recipe.data.images.clone(), target, ..Wants::default() }
}

/// The cases of a data set, in its own order.
///
/// # Errors
/// A damaged data set, or one with other labels or channels than the recipe's.
pub fn list(path: &Path, recipe: &Recipe) -> Outcome<CaseList> {
    let doing = || format!("--data {}", path.display());
    let wants = wants(recipe);
    let read = match &recipe.data.layout {
        Some(layout) => layout.read(path, &wants),
        None => layouts::read(path, &wants),
    };
    let mut list = read.while_doing(doing)?;
    check_labels(&list, recipe)?;
    recipe.learns().check_names(&list.labels).map_err(|what| RecipeError::new(what).context(doing()))?;
    if list.labelled.is_empty() {
        let lacking = match &wants.target {
            Target::Image { name } => format!("has a {}", name.as_deref().unwrap_or("label")),
            Target::Fields(names) => format!("has {}", names.join(", ")),
            Target::Nothing => "can be used".to_owned(),
        };
        let count = list.unlabelled.len();
        return Err(RecipeError::new(format!("none of the {count} cases {lacking}")).context(doing()));
    }
    check_twice(&list, recipe).map_err(|what| RecipeError::new(what).context(doing()))?;
    let (named, channels) = (list.modalities.len(), recipe.file_channels());
    if named > 0 && named != channels {
        let (name, names) = (&list.name, list.modalities.join(", "));
        return Err(RecipeError::new(format!(
            "the data set {name:?} has images of {named} channels ({names}), but the network takes {channels}: choose with \
             data.images, or change the network's in_channels"
        )));
    }
    let task = recipe.learns();
    let prepare = |item: Item| {
        let case = item.case.clone();
        task.prepare(item, &recipe.labels).map_err(|what| RecipeError::new(format!("case {case}: {what}")))
    };
    list.labelled = list.labelled.into_iter().map(prepare).collect::<Outcome<_>>().while_doing(doing)?;
    add_labels(&mut list.labelled, recipe).while_doing(doing)?;
    check_grids(list.labelled.iter().chain(&list.unlabelled))
        .map_err(|what| RecipeError::new(what).context(doing()))?;
    Ok(list)
}

/// Rejects a list that has an image twice, because it could train and validate. Slides have many
/// cases each.
fn check_twice(list: &CaseList, recipe: &Recipe) -> Result<(), String> {
    if recipe.learns().patches().is_some() {
        return Ok(());
    }
    let mut seen: HashMap<Vec<&Path>, &Item> = HashMap::new();
    for item in &list.labelled {
        let parts = item.parts.get("image").into_iter().flat_map(|parts| &parts.files);
        let mut image: Vec<&Path> = item.files.get("image").into_iter().chain(parts).map(PathBuf::as_path).collect();
        // One folder may hold several series.
        if image.is_empty() || image.iter().any(|path| path.is_dir()) {
            continue;
        }
        image.sort_unstable();
        let file = image[0].display().to_string();
        if let Some(other) = seen.insert(image, item) {
            let (a, b) = (&other.case, &item.case);
            return Err(format!("the image {file} is listed twice, as {a} and {b}: remove one of them"));
        }
    }
    Ok(())
}

/// Rejects a data set whose label maps hold classes that the recipe does not have.
fn check_labels(list: &CaseList, recipe: &Recipe) -> Outcome {
    let ignored = recipe.learns().ignore_label().map(u32::from);
    let highest = list.labels.keys().copied().filter(|label| Some(*label) != ignored).max().unwrap_or(0) as usize;
    // A recipe that maps labels to other values decides which of them remain. The names of regions
    // include no background.
    let known = recipe.labels.len() + usize::from(recipe.output() == Output::Regions);
    let maps = recipe.learns().region_labels().is_some() || recipe.transforms.iter().any(maps_labels);
    if recipe.output().is_map() && highest >= known && !maps {
        return Err(RecipeError::new(format!(
            "the data set {:?} has labels up to {highest}, but the recipe {:?} knows {} ({})",
            list.name,
            recipe.title(),
            recipe.labels.len(),
            recipe.labels.join(", ")
        )));
    }
    if recipe.output() == Output::Labels && !maps {
        check_meanings(list, recipe)?;
    }
    Ok(())
}

/// Rejects a recipe that has the data set's names of labels in another order.
fn check_meanings(list: &CaseList, recipe: &Recipe) -> Outcome {
    let place = |name: &str| recipe.labels.iter().position(|label| label.eq_ignore_ascii_case(name));
    let mut named = list.labels.iter().map(|(label, name)| (*label as usize, name, place(name)));
    match named.find(|(label, _, place)| place.is_some_and(|place| place != *label)) {
        Some((label, name, Some(place))) => Err(RecipeError::new(format!(
            "the data set {:?} calls label {label} {name:?}, and the recipe has this name for label {place}: list `labels` \
             in the order of the data set",
            list.name
        ))),
        _ => Ok(()),
    }
}

/// Words about a split that the data set itself decides, or that ignores what the data set
/// reserves.
fn note_of_split(list: &CaseList, recipe: &Recipe) -> Option<String> {
    let said = || toml::Value::try_from(&recipe.data.validation).map(|said| said.to_string()).unwrap_or_default();
    match (&recipe.data.validation, &list.validation, listed_folds(&list.labelled)) {
        (Validation::None, ..) => None,
        (Validation::Auto | Validation::Listed, Some(held), _) => {
            Some(format!("validation: {} that the data set reserves for it", counted(held.len(), "case")))
        }
        (Validation::Auto, None, Some(folds)) => {
            let count = folds.iter().filter(|fold| **fold == 0).count();
            Some(format!("validation: fold 0 of the data set's column fold, {}", counted(count, "case")))
        }
        (_, Some(held), _) => Some(format!(
            "validation: the data set reserves {} for it; data.validation = {} of the recipe takes others \
             (data.validation = \"listed\" takes these)",
            counted(held.len(), "case"),
            said()
        )),
        _ => None,
    }
}

/// The folds that a list assigns its cases to, by its column `fold`; none where a case has no such
/// number.
pub(crate) fn listed_folds(cases: &[Item]) -> Option<Vec<usize>> {
    let fold = |item: &Item| match item.fields.get("fold")? {
        Field::Number(fold) if *fold >= 0.0 && fold.fract() == 0.0 && *fold < 1e6 => Some(*fold as usize),
        _ => None,
    };
    let folds = cases.iter().map(fold).collect::<Option<Vec<usize>>>()?;
    let count = folds.iter().copied().collect::<HashSet<usize>>().len();
    // A cross-validation numbers its folds from 0.
    (count > 1 && folds.iter().all(|fold| *fold < count)).then_some(folds)
}

/// Splits the list into training and validation.
fn split(list: &CaseList, recipe: &Recipe) -> Outcome<(Vec<Item>, Vec<Item>)> {
    let (cases, count) = (&list.labelled, list.labelled.len());
    match &recipe.data.validation {
        Validation::None => Ok((cases.clone(), Vec::new())),
        Validation::Auto if list.validation.is_none() => match listed_folds(cases) {
            Some(folds) => {
                let (validate, train): (Vec<_>, Vec<_>) = cases.iter().zip(folds).partition(|(_, fold)| *fold == 0);
                let items = |part: Vec<(&Item, usize)>| part.into_iter().map(|(item, _)| item.clone()).collect();
                Ok((items(train), items(validate)))
            }
            None => Ok(split_patients(cases, AUTO_PART, seed32(recipe.training.seed))?),
        },
        Validation::Listed | Validation::Auto => {
            let held = list.validation.as_ref().ok_or_else(|| {
                let what = "the data set names no validation cases (a JSON list does, with `validation`)";
                RecipeError::new(format!("data.validation = \"listed\": {what}"))
            })?;
            // Lists of regions may have hundreds of thousands of cases.
            let held: HashSet<&str> = held.iter().map(String::as_str).collect();
            let (validate, train) = cases.iter().cloned().partition(|item| held.contains(item.case.as_str()));
            Ok((train, validate))
        }
        Validation::Cases(names) => {
            if let Some(name) = names.iter().find(|name| !cases.iter().any(|item| item.case == **name)) {
                let known: Vec<&str> = cases.iter().map(|item| item.case.as_str()).collect();
                return Err(RecipeError::new(format!("data.validation: {}", unknown("case", name, &known))));
            }
            let (validate, train) = cases.iter().cloned().partition(|item| names.contains(&item.case));
            Ok((train, validate))
        }
        Validation::Last(n) if *n >= count => {
            Err(RecipeError::new(format!("{} to validate, but only {count} with labels", counted(*n, "case"))))
        }
        Validation::Last(n) => {
            let (train, validate) = cases.split_at(count - n);
            Ok((train.to_vec(), validate.to_vec()))
        }
        Validation::Fold([fold, folds]) => {
            Ok(CrossValidation::new(cases, *folds, seed32(recipe.training.seed))?.split(*fold)?)
        }
        Validation::Fraction(part) => Ok(split_patients(cases, *part, seed32(recipe.training.seed))?),
    }
}

/// Folds a seed to 32 bits for numpy's generator.
pub(crate) fn seed32(seed: u64) -> u32 {
    (seed ^ (seed >> 32)) as u32
}
