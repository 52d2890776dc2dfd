//! The cases of a data set, divided as the recipe says.

use std::path::Path;

use hearth_data::{DecathlonDataset, Item, Sample};

use super::Plan;
use crate::error::{Context, Failure, Outcome};
use crate::recipe::{CacheKind, Rate, Recipe, Validation};

/// Labelled cases of a Decathlon folder.
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
        let set = data_set(folder, recipe)?;
        let count = set.training.len();
        let (training, validation) = match recipe.data.validation {
            Validation::Last(n) => set.split_last(n)?,
            Validation::Fraction(part) => set.split_fraction(part, seed32(recipe.training.seed))?,
        };
        if training.is_empty() || validation.is_empty() {
            return Err(Failure::new(format!(
                "the data set {:?} has {count} labelled cases; with {:?} none are left to train or to validate: \
                 set data.validation",
                set.name, recipe.data.validation
            )));
        }
        Ok(Self { name: set.name.clone(), training, validation })
    }

    /// All labelled cases of a folder, however many there are, in the order of its list.
    pub fn all(folder: &Path, recipe: &Recipe) -> Outcome<Vec<Item>> {
        Ok(data_set(folder, recipe)?.training)
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

/// Opens the folder, and refuses one whose labels the recipe does not know.
fn data_set(folder: &Path, recipe: &Recipe) -> Outcome<DecathlonDataset> {
    if !folder.exists() {
        return Err(Failure::new(format!("--data {}: no such folder", folder.display())));
    }
    if folder.is_file() {
        let advice = "give the folder that holds dataset.json";
        return Err(Failure::new(format!("--data {} is a file; {advice}", folder.display())));
    }
    let set = DecathlonDataset::open(folder).while_doing(|| format!("--data {}", folder.display()))?;
    let highest = set.labels.keys().max().copied().unwrap_or(0) as usize;
    if highest >= recipe.labels.len() {
        return Err(Failure::new(format!(
            "the data set {:?} has labels up to {highest}, but the recipe {:?} knows {} ({})",
            set.name,
            recipe.task,
            recipe.labels.len(),
            recipe.labels.join(", ")
        )));
    }
    Ok(set)
}

/// numpy's generator takes 32 bits; larger seeds are folded.
fn seed32(seed: u64) -> u32 {
    (seed ^ (seed >> 32)) as u32
}
