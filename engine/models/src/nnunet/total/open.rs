//! Opens the models of a task, and other folders of several models.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use hearth_nnunet::Folds;
use hearth_nnunet::total::{Task, total_classes};
use hearth_registry::unknown;

use super::super::predict::{NnunetOptions, NnunetPredictor};
use super::choose::{Chosen, Found, rough_of_subsets};
use super::crop::CropBy;
use super::model::{Model, models};
use super::variant::Variant;
use super::{Part, TotalOptions, TotalSegmentator};
use hearth_recipe::{Context, Outcome, RecipeError};

/// The distance between two tiles for models without a task: for those with the classes of `total`,
/// and for others.
const TOTAL_STEP: f64 = 0.8;
const STEP: f64 = 0.5;

/// The largest difference between voxel sizes that count as equal, in mm.
const SAME: f64 = 1e-3;

/// The margin around a subset of classes, in mm.
const MARGIN: f64 = 20.0;

impl TotalSegmentator {
    /// Opens the models below a folder; for a subset of names only those that have one of them.
    ///
    /// # Errors
    /// Models that cannot be opened or have different voxel sizes, models of several tasks without
    /// a choice, a missing rough model, or names that no model has.
    pub fn open(path: &Path, options: &TotalOptions) -> Outcome<Self> {
        let models = models(path)?;
        let found = Found::new(path, &models, options.task.as_deref());
        let variant = options.variant.as_deref().map(str::parse::<Variant>).transpose()?;
        match found.task(options.task.as_deref())? {
            Some(task) => of_task(&found, task, variant.unwrap_or_default(), options),
            None if variant.is_some() => {
                let what = "is for tasks of TotalSegmentator, and these models are of none: remove it";
                Err(RecipeError::new(format!("--variant {what}")))
            }
            None => of_others(path, &models, options),
        }
    }
}

/// Opens the models of a task, and its rough model.
fn of_task(
    found: &Found<'_>,
    task: &'static Task,
    variant: Variant,
    options: &TotalOptions,
) -> Outcome<TotalSegmentator> {
    let mut chosen = found.choose(task, variant)?;
    let has = chosen.classes();
    check_subset(&options.subset, &has)?;
    let wanted = |name: &str| options.subset.is_empty() || options.subset.iter().any(|one| one == name);
    let mode = chosen.models.mode;
    chosen.parts.retain(|(part, _)| task.part(mode, *part).iter().any(|(name, label)| *label > 0 && wanted(name)));
    let crop = match rough(found, task, options)? {
        None => None,
        Some((rough, classes, margin)) => {
            let labels = rough.task.classes().zip(1..).filter(|(name, _)| classes.contains(name));
            let labels = labels.map(|(_, label)| label).collect();
            Some(CropBy { rough: Box::new(rough_model(found, &rough, options)?), labels, margin })
        }
    };
    let count = chosen.parts.len() + usize::from(crop.is_some());
    let step_size = options.step.unwrap_or(task.step);
    let kept = options.models.kept / count.max(1);
    let models = NnunetOptions { step_size, kept, mirroring: false, ..options.models.clone() };
    let names = task.classes().zip(1..).filter(|(name, _)| has.contains(name) && wanted(name));
    Ok(TotalSegmentator {
        parts: parts(&chosen, &models)?,
        names: names.map(|(name, label)| (label, name.to_owned())).collect(),
        voxels: chosen.models.voxels,
        task: Some((task, mode)),
        modality: task.modality,
        crop,
        small: options.small_components,
    })
}

type RoughModel<'a> = (Chosen<'a>, Vec<&'static str>, f64);

/// The rough model of a task, the classes around which it crops, and the margin. A subset is
/// predicted in the whole image if there is no rough model for it.
fn rough<'a>(found: &Found<'a>, task: &Task, options: &TotalOptions) -> Outcome<Option<RoughModel<'a>>> {
    if let Some(crop) = task.crop {
        let Some(rough) = found.rough(crop.rough, crop.classes)? else {
            return Err(found.without_rough(task, crop.rough, crop.classes));
        };
        return Ok(Some((rough, crop.classes.to_vec(), crop.margin)));
    }
    if options.subset.is_empty() || !task.crops_to_subsets() {
        return Ok(None);
    }
    let classes: Vec<&'static str> =
        task.classes().filter(|name| options.subset.iter().any(|one| one == name)).collect();
    let rough = found.rough(rough_of_subsets(task), &classes)?;
    Ok(rough.map(|rough| (rough, classes, MARGIN)))
}

/// Opens the rough model as TotalSegmentator does: with the settings of its own task.
fn rough_model(found: &Found<'_>, rough: &Chosen<'_>, options: &TotalOptions) -> Outcome<TotalSegmentator> {
    let NnunetOptions { precision, device, kept, progress, .. } = options.models.clone();
    let models = NnunetOptions { precision, device, kept: kept / 2, progress, ..NnunetOptions::default() };
    let options = TotalOptions { models, ..TotalOptions::default() };
    let variant = Variant { mode: Some(rough.models.mode), small: None };
    of_task(found, rough.task, variant, &options).while_doing(|| format!("the rough model, {}", rough.task.name))
}

/// The predictors of the chosen models.
fn parts(chosen: &Chosen<'_>, options: &NnunetOptions) -> Outcome<Vec<Part>> {
    let open = |(part, model): &(usize, &Model)| {
        let numbers = chosen.task.part(chosen.models.mode, *part);
        let labels = std::iter::once(0).chain(numbers.into_iter().map(|(_, label)| label)).collect();
        let first = model.path.join("fold_0").is_dir() && !chosen.models.all_folds && options.folds == Folds::Found;
        let folds = if first { Folds::These(vec!["0".to_owned()]) } else { options.folds.clone() };
        predictor(model, &NnunetOptions { folds, ..options.clone() }).map(|predictor| Part { predictor, labels })
    };
    chosen.parts.iter().map(open).collect()
}

fn predictor(model: &Model, options: &NnunetOptions) -> Outcome<NnunetPredictor> {
    let doing = || format!("the model {}", model.path.display());
    let predictor = NnunetPredictor::open(&model.path, options).while_doing(doing)?;
    if predictor.configuration.previous_stage.is_some() {
        return Err(RecipeError::new("it is the second stage of a cascade").context(doing()));
    }
    Ok(predictor)
}

fn check_subset(subset: &[String], has: &[&str]) -> Outcome {
    match subset.iter().find(|name| !has.contains(&name.as_str())) {
        Some(name) => Err(RecipeError::new(format!("--roi-subset: {}", unknown("class", name, has)))),
        None => Ok(()),
    }
}

/// Opens models without a task, or of several tasks that are merged.
fn of_others(path: &Path, models: &[Model], options: &TotalOptions) -> Outcome<TotalSegmentator> {
    if let Some(model) = models.iter().find(|model| !model.merges) {
        let what = "has regions or several channels, which cannot be merged with others";
        return Err(RecipeError::new(format!("{} {what}", model.path.display())));
    }
    let all: Vec<&str> = models.iter().flat_map(|model| &model.classes).map(|(_, name)| name.as_str()).collect();
    check_subset(&options.subset, &all)?;
    let (numbers, total) = numbers(&all);
    let wanted = |name: &str| options.subset.is_empty() || options.subset.iter().any(|one| one == name);
    let used = models.iter().filter(|model| model.classes.iter().any(|(_, name)| wanted(name)));
    let used: Vec<&Model> = used.collect();
    let step_size = options.step.unwrap_or(if total { TOTAL_STEP } else { STEP });
    let open = NnunetOptions { step_size, kept: options.models.kept / used.len().max(1), ..options.models.clone() };
    let (mut parts, mut cubes) = (Vec::new(), BTreeSet::new());
    for model in &used {
        let most = model.classes.iter().map(|(label, _)| *label).max().unwrap_or(0);
        let mut labels = vec![0; usize::from(most) + 1];
        model.classes.iter().for_each(|(label, name)| labels[usize::from(*label)] = numbers[name.as_str()]);
        let predictor = predictor(model, &open)?;
        cubes.insert(cube(&predictor.configuration.spacing).map(f64::to_bits));
        parts.push(Part { predictor, labels });
    }
    let voxels = match Vec::from_iter(cubes)[..] {
        [cube] => cube.map(|cube| [f64::from_bits(cube); 3]),
        [] => return Err(RecipeError::new(format!("{} holds no model of nnU-Net", path.display()))),
        _ => {
            let what = "its models have voxels of different sizes: move those of another task away, or choose \
                        a task of TotalSegmentator by --task";
            return Err(RecipeError::new(format!("{}: {what}", path.display())));
        }
    };
    let names = used.iter().flat_map(|model| &model.classes).filter(|(_, name)| wanted(name));
    Ok(TotalSegmentator {
        parts,
        names: names.map(|(_, name)| (numbers[name.as_str()], name.clone())).collect(),
        voxels,
        task: None,
        modality: models[0].modality,
        crop: None,
        small: options.small_components,
    })
}

/// The side length of voxels that are cubes.
fn cube(spacing: &[f64]) -> Option<f64> {
    match *spacing {
        [z, y, x] if (z - y).abs() < SAME && (y - x).abs() < SAME => Some(z),
        _ => None,
    }
}

/// The label of each class, and whether all are classes of the task `total`.
fn numbers<'a>(all: &[&'a str]) -> (BTreeMap<&'a str, u16>, bool) {
    let total = total_classes();
    let known = |name: &str| total.iter().position(|other| *other == name);
    let mut numbers = BTreeMap::new();
    let is_total = all.iter().all(|name| known(name).is_some());
    for name in all {
        let next = numbers.len() as u16 + 1;
        numbers.entry(*name).or_insert(known(name).filter(|_| is_total).map_or(next, |place| place as u16 + 1));
    }
    (numbers, is_total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_of_the_task_total_have_its_labels() {
        let (found, total) = numbers(&["heart", "spleen", "rib_left_1"]);
        assert_eq!((found["heart"], found["spleen"], found["rib_left_1"], total), (51, 1, 92, true));
        let (found, total) = numbers(&["tumour", "spleen", "tumour"]);
        assert_eq!((found["tumour"], found["spleen"], found.len(), total), (1, 2, 2, false));
        assert_eq!((cube(&[1.5, 1.5, 1.5]), cube(&[3.0, 1.0, 1.0]), cube(&[1.0, 1.0])), (Some(1.5), None, None));
    }
}
