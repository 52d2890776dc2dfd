//! Checks before a run that the label maps of a data set hold only labels of the recipe's regions,
//! and that they are not all empty.

use std::collections::BTreeSet;

use hearth_data::{Image, Item, Sample, read_image};
use hearth_registry::Node;
use rayon::prelude::*;

use crate::plan::{Plan, works_on};
use hearth_recipe::recipe::Output;
use hearth_recipe::warning;
use hearth_recipe::{Outcome, RecipeError};

/// The number of label maps without a label after which a warning is given.
const EMPTY: usize = 32;

/// The number of cases named in a message.
const SHOWN: usize = 6;

/// Reads the labels of all cases, if the recipe lists the labels of its regions and the cache would
/// not read all cases before the first step.
///
/// # Errors
/// Labels that belong to no region; the error names the cases. Labels that cannot be read are left
/// to the pipeline, which reports them.
pub fn check(plan: &Plan, items: &[Item]) -> Outcome {
    let Some(classes) = plan.recipe.learns().region_labels() else { return Ok(()) };
    if plan.recipe.data.cache.kept(items.len()) == items.len() {
        return Ok(());
    }
    let ignored = plan.recipe.learns().ignore_label().map(i64::from);
    let known: BTreeSet<i64> = classes.into_iter().flatten().chain([0]).chain(ignored).collect();
    let running = plan.progress.start("labels", items.len() as u64);
    let strange = |item: &Item| -> Option<(String, Vec<i64>)> {
        let found = item.files.get("label").and_then(|path| read_image(path).ok());
        running.advance();
        let others: BTreeSet<i64> =
            found?.to_vec().into_iter().map(|v| v as i64).filter(|v| !known.contains(v)).collect();
        (!others.is_empty()).then(|| (item.case.clone(), others.into_iter().collect()))
    };
    let strange: Vec<(String, Vec<i64>)> = items.par_iter().filter_map(strange).collect();
    running.finish();
    if strange.is_empty() {
        return Ok(());
    }
    let line = |(case, labels): &(String, Vec<i64>)| format!("{case} has {labels:?}");
    let mut lines: Vec<String> = strange.iter().take(SHOWN).map(line).collect();
    if strange.len() > SHOWN {
        lines.push(format!("and {} more", strange.len() - SHOWN));
    }
    Err(RecipeError::new(format!(
        "labels that belong to no region of task.classes ({known:?}):\n  {}\n  BraTS 2018 to 2022 have 1, 2 and 4; BraTS \
         2023 and later, and the Decathlon, 1, 2 and 3",
        lines.join("\n  ")
    )))
}

/// Steps that change the grid of a label, and blend labels unless their mode is `nearest`.
const BLENDING: [&str; 14] = [
    "Affine",
    "Rand2DElastic",
    "Rand3DElastic",
    "RandAffine",
    "RandGridDistortion",
    "RandRotate",
    "RandSmoothDeform",
    "RandZoom",
    "ResampleToMatch",
    "Resize",
    "Rotate",
    "Spacing",
    "SpatialResample",
    "Zoom",
];

/// Whether a step of the recipe may blend the labels of a label map.
pub fn may_blend(plan: &Plan) -> bool {
    let recipe = &plan.recipe;
    let blends =
        |step: &Node| step.text("name").is_some_and(|name| BLENDING.contains(&name)) && works_on(step, "label");
    recipe.output() == Output::Labels && !recipe.learns().generates() && recipe.transforms.iter().any(blends)
}

/// Checks that the steps have left a label map's values whole: metrics would count what lies between two labels
/// as neither. `samples` are those of a case after all steps.
///
/// # Errors
/// A label whose values were blended.
pub fn check_whole(case: &str, samples: &[Sample]) -> Outcome {
    let maps = samples.iter().filter_map(|sample| sample.image("label").ok()).filter(|map| map.channels() == 1);
    let found = maps.map(Image::to_vec).find_map(|values| values.into_iter().find(|value| value.fract() != 0.0));
    match found {
        None => Ok(()),
        Some(value) => Err(RecipeError::new(format!(
            "the case {case}: after the transforms its label has the value {value}, which is no label. A step that \
             interpolates blends labels; let labels take the nearest value: mode = [\"bilinear\", \"nearest\"] for keys = \
             [\"image\", \"label\"]"
        ))),
    }
}

/// Warns if the label maps of all training cases, or of a first part of them, are empty: nothing
/// can be learned from those; or all of the validation, whose metrics then have no value. For most data sets
/// the first case is enough to decide.
pub fn warn_of_empty(plan: &Plan, training: &[Item], validation: &[Item]) {
    warn_of_empty_part(plan, training, "training", "");
    warn_of_empty_part(plan, validation, "validation", ", so that its metrics have no value");
}

fn warn_of_empty_part(plan: &Plan, items: &[Item], part: &str, effect: &str) {
    if !plan.recipe.output().is_map() || plan.recipe.output() == Output::Image || plan.recipe.learns().generates() {
        return;
    }
    let labels: Vec<_> = items.iter().filter_map(|item| item.files.get("label")).take(EMPTY).collect();
    // A label that cannot be read is left to the pipeline, which reports it.
    let is_empty =
        |path: &&std::path::PathBuf| read_image(path).is_ok_and(|label| label.to_vec().iter().all(|v| *v == 0.0));
    if !labels.is_empty() && labels.iter().all(is_empty) {
        let (count, all) = (labels.len(), items.len());
        let of = if count == all { format!("all {all}") } else { format!("the first {count} of {all}") };
        warning!("{of} {part} cases have label maps without any label{effect} (`hearth data verify` lists them)");
    }
}
