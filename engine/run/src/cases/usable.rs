//! Checks of a data set that a training makes before its first step.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hearth_data::{CacheDataset, CacheOptions, Dataset, Item, Pipeline};

use crate::cases::twins::twins;
use crate::cases::{Cases, label_channels, label_check};
use crate::memory::dataset::spread;
use crate::plan::Plan;
use hearth_recipe::{Context, Outcome, warning};

/// The cases of a data set, with the checks that a training makes before it reads them.
///
/// # Errors
/// A data set that cannot be read, or that the recipe cannot use.
pub fn usable(plan: &Plan, data: &Path) -> Outcome<Cases> {
    // Checked before the work begins.
    plan.recipe.build_loss().map_err(|fault| plan.document.located("", fault))?;
    let cases = Cases::open(data, &plan.recipe)?;
    if let Some(what) = twins(&cases.training, &cases.validation) {
        warning!("--data {}: {what}", data.display());
    }
    label_check::check(plan, &[&cases.training[..], &cases.validation].concat())?;
    label_channels::check(plan, &cases.training, &cases.validation)?;
    Ok(cases)
}

/// Passes some cases of each kind through all steps of a training: those with missing files, and others spread
/// over the list.
///
/// # Errors
/// The first case with which a training would fail.
pub fn read_some(plan: &Plan, cases: &Cases) -> Outcome {
    // A sampler may never draw the unreadable case.
    let training = if plan.recipe.data.sampler.is_some() { &[] } else { &cases.training[..] };
    read(plan, training, &plan.training).while_doing(|| "preparing the training cases")?;
    read(plan, &cases.validation, &plan.validation).while_doing(|| "preparing the validation cases")
}

fn read(plan: &Plan, items: &[Item], pipeline: &Arc<Pipeline>) -> Outcome {
    let lacking = items.iter().find(|item| files(item).any(|file| !file.exists()));
    for item in lacking.into_iter().chain(spread(items)) {
        let one = CacheDataset::new(vec![item.clone()], pipeline.clone(), CacheOptions::default())?;
        let samples = one.get(0, 0)?;
        if label_check::may_blend(plan) {
            label_check::check_whole(&item.case, &samples)?;
        }
    }
    Ok(())
}

fn files(item: &Item) -> impl Iterator<Item = &PathBuf> {
    item.files.values().chain(item.parts.values().flat_map(|parts| &parts.files))
}
