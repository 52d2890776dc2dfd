//! The cases of a data set, divided as the recipe says.

use std::path::Path;

use hearth_data::{
    CrossValidation, CsvOptions, DecathlonDataset, Item, Sample, csv_items, dicom_items, split_fraction,
};

use super::Plan;
use super::plan::maps_labels;
use crate::error::{Context, Outcome, RecipeError};
use crate::recipe::{CacheKind, Output, Rate, Recipe, Validation};

/// Labelled cases of a Decathlon folder, or of a folder of DICOM.
pub struct Cases {
    /// What the data set calls itself.
    pub name: String,
    /// The cases to train on.
    pub training: Vec<Item>,
    /// The cases to validate on.
    pub validation: Vec<Item>,
}

impl Cases {
    /// Opens the folder and divides it.
    pub fn open(folder: &Path, recipe: &Recipe) -> Outcome<Self> {
        let set = Listed::open(folder, recipe)?;
        let count = set.cases.len();
        let doing = || format!("--data {}: dividing {count} cases", folder.display());
        let (training, validation) = set.split(recipe).while_doing(doing)?;
        if training.is_empty() || validation.is_empty() {
            return Err(RecipeError::new(format!(
                "the data set {:?} has {count} labelled cases; with {:?} none are left to train or to validate: \
                 set data.validation",
                set.name, recipe.data.validation
            )));
        }
        Ok(Self { name: set.name, training, validation })
    }

    /// All labelled cases of a folder, however many there are, in the order of its list.
    pub fn all(folder: &Path, recipe: &Recipe) -> Outcome<Vec<Item>> {
        Ok(Listed::open(folder, recipe)?.cases)
    }

    /// About how many bytes the caches take, in memory or on disk: the first case of each kind tells.
    pub fn predicted_bytes(&self, plan: &Plan) -> Outcome<u64> {
        let cache = &plan.recipe.data.cache;
        if cache.kind == CacheKind::None {
            return Ok(0);
        }
        let rate = cache.rate.map_or(1.0, Rate::part);
        let mut total = 0;
        for (items, pipeline) in [(&self.training, &plan.training), (&self.validation, &plan.validation)] {
            let count = ((items.len() as f64 * rate) as usize).min(cache.num.unwrap_or(usize::MAX));
            if let Some(first) = items.first().filter(|_| count > 0) {
                let samples = pipeline.run_deterministic(first.sample())?;
                total += samples.iter().map(Sample::bytes).sum::<usize>() as u64 * count as u64;
            }
        }
        Ok(total)
    }
}

/// Labelled cases, as a folder lists them.
struct Listed {
    name: String,
    cases: Vec<Item>,
}

impl Listed {
    fn open(folder: &Path, recipe: &Recipe) -> Outcome<Self> {
        if !folder.exists() {
            return Err(RecipeError::new(format!("--data {}: no such folder", folder.display())));
        }
        let listed = match folder.extension().map(|end| end.to_ascii_lowercase()) {
            Some(end) if end == "csv" && folder.is_file() => Self::table(folder),
            _ if folder.is_file() => {
                let advice = "give the folder that holds dataset.json, a folder of DICOM, or a table (.csv)";
                return Err(RecipeError::new(format!("--data {} is a file; {advice}", folder.display())));
            }
            _ if folder.join("dataset.json").exists() => Self::decathlon(folder, recipe),
            _ => Self::dicom(folder),
        };
        listed.while_doing(|| format!("--data {}", folder.display()))
    }

    /// A Decathlon folder; one whose labels the recipe does not know is refused.
    fn decathlon(folder: &Path, recipe: &Recipe) -> Outcome<Self> {
        let set = DecathlonDataset::open(folder)?;
        let highest = set.labels.keys().max().copied().unwrap_or(0) as usize;
        // A recipe that gives labels other values says itself what is left of them.
        // Regions have no background among their names.
        let known = recipe.labels.len() + usize::from(recipe.output() == Output::Regions);
        if highest >= known && !maps_labels(recipe) {
            return Err(RecipeError::new(format!(
                "the data set {:?} has labels up to {highest}, but the recipe {:?} knows {} ({})",
                set.name,
                recipe.task,
                recipe.labels.len(),
                recipe.labels.join(", ")
            )));
        }
        Ok(Self { name: set.name, cases: set.training })
    }

    /// A table with the columns `image` and `label`: a case for each row.
    fn table(path: &Path) -> Outcome<Self> {
        let cases = csv_items(&[path], &CsvOptions::default())?;
        for key in ["image", "label"] {
            if cases.iter().any(|case| !case.files.contains_key(key)) {
                return Err(RecipeError::new(format!("the table has no column {key:?}: it takes `image` and `label`")));
            }
        }
        let name = path.file_stem().map_or_else(|| "table".to_owned(), |name| name.to_string_lossy().into_owned());
        Ok(Self { name, cases })
    }

    /// A folder of DICOM, as a collection of The Cancer Imaging Archive is: what was drawn on the images is the label.
    fn dicom(folder: &Path) -> Outcome<Self> {
        let found = dicom_items(folder)
            .map_err(|error| RecipeError::new(format!("no dataset.json, and no cases of DICOM: {error}")))?;
        let label = |mut item: Item| {
            if let Some(drawn) = item.files.remove("seg") {
                item.files.insert("label".to_owned(), drawn);
            }
            item
        };
        let name = folder.file_name().map_or_else(|| "DICOM".to_owned(), |name| name.to_string_lossy().into_owned());
        Ok(Self { name, cases: found.into_iter().map(label).collect() })
    }

    /// Training and validation.
    fn split(&self, recipe: &Recipe) -> Outcome<(Vec<Item>, Vec<Item>)> {
        let count = self.cases.len();
        match recipe.data.validation {
            Validation::Last(n) if n >= count => {
                Err(RecipeError::new(format!("{n} cases to validate, but there are only {count} with labels")))
            }
            Validation::Last(n) => {
                let (train, validate) = self.cases.split_at(count - n);
                Ok((train.to_vec(), validate.to_vec()))
            }
            Validation::Fold([fold, folds]) => {
                Ok(CrossValidation::new(&self.cases, folds, seed32(recipe.training.seed))?.split(fold)?)
            }
            Validation::Fraction(part) => Ok(split_fraction(&self.cases, part, seed32(recipe.training.seed))?),
        }
    }
}

/// numpy's generator takes 32 bits; larger seeds are folded.
fn seed32(seed: u64) -> u32 {
    (seed ^ (seed >> 32)) as u32
}
