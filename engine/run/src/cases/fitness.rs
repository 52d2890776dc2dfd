//! Checks early whether a data set suits a recipe: every case passes through the chains of training
//! and validation.

use std::collections::BTreeMap;
use std::path::Path;

use hearth_data::quality::{Finding, Kind, Severity};
use hearth_data::{DrawKey, Field, Item, Pipeline, Sample};
use serde::Serialize;

use crate::cases::Cases;
use crate::cases::label_channels::LabelChannels;
use crate::plan::Plan;
use hearth_recipe::recipe::{Output, Recipe};
use hearth_recipe::{Outcome, RecipeError};

/// The number of regions that are read from a slide with many of them, spread over the list.
const REGIONS_OF_A_SLIDE: usize = 16;

/// The result of checking a recipe with a data set.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Fitness {
    /// The title of the recipe.
    pub recipe: String,
    /// The number of training cases.
    pub training: usize,
    /// The number of validation cases.
    pub validation: usize,
    /// The cases that were read: all, or for slides a part of their regions.
    pub cases: Vec<CaseFitness>,
    /// The learned classes, in the order of the recipe's `labels`, without the background.
    pub classes: Vec<ClassFitness>,
    /// The size of the caches in bytes, on the device, in memory or on disk.
    pub cache_bytes: u64,
    /// Problems of the data set with this recipe.
    pub findings: Vec<Finding>,
}

/// A case after the deterministic part of the chain.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct CaseFitness {
    /// The name of the case.
    pub case: String,
    /// Whether it is used for validation.
    pub validates: bool,
    /// The number of voxels along each axis.
    pub shape: [usize; 3],
    /// The number of crops that a training case gives per epoch, and their shape; `None` for
    /// validation cases.
    pub crops: Option<(usize, [usize; 3])>,
    /// The number of voxels of each of [`Fitness::classes`].
    pub voxels: Vec<u64>,
}

/// The frequency of a class, a region or positive patches.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ClassFitness {
    /// The name of the class.
    pub name: String,
    /// The number of training cases that have it.
    pub training: usize,
    /// The number of validation cases that have it.
    pub validation: usize,
}

/// Passes all cases of a data set through the chains of a recipe, with one case in memory at a
/// time. Training cases also pass the random part, once.
///
/// # Errors
/// A data set that cannot be opened or split at all. Problems of single cases are findings.
pub fn fitness(plan: &Plan, folder: &Path) -> Outcome<Fitness> {
    let recipe = &plan.recipe;
    let cases = Cases::open(folder, recipe)?;
    if let Some(sampler) = &recipe.data.sampler {
        let made = sampler.sampler(&cases.training, 1, recipe.training.seed);
        made.map_err(|fault| plan.document.located("data.sampler", fault))?;
    }
    let mut found = Fitness {
        recipe: recipe.title(),
        training: cases.training.len(),
        validation: cases.validation.len(),
        cases: Vec::new(),
        classes: Vec::new(),
        cache_bytes: 0,
        findings: Vec::new(),
    };
    let channels = LabelChannels::of(plan)?;
    let sides = [(&cases.training, &plan.training, false), (&cases.validation, &plan.validation, true)];
    let chosen = sides.map(|(items, pipeline, validates)| (some_of_each_slide(items, recipe), pipeline, validates));
    let count: usize = chosen.iter().map(|(items, ..)| items.len()).sum();
    let running = plan.progress.start("cases through the chain", count as u64);
    for ((items, pipeline, validates), (all, ..)) in chosen.iter().zip(sides) {
        let (mut bytes, mut passed) = (0, 0);
        for item in items {
            match pass(item, pipeline, recipe, channels.as_ref(), *validates) {
                Ok((case, size)) => {
                    bytes += size;
                    passed += 1;
                    found.cases.push(case);
                }
                Err(finding) => found.findings.push(*finding),
            }
            running.advance();
        }
        let kept = recipe.data.cache.kept(all.len());
        found.cache_bytes += (bytes as f64 / f64::max(1.0, passed as f64) * kept as f64) as u64;
    }
    running.finish();
    found.classes = classes(recipe, &found.cases, [&cases.training, &cases.validation]);
    found.findings.extend(absent(&found.classes, found.validation));
    found.findings.extend(without_any(recipe, &found.cases));
    Ok(found)
}

/// All cases, or for regions of slides a few per slide.
fn some_of_each_slide<'a>(items: &'a [Item], recipe: &Recipe) -> Vec<&'a Item> {
    if recipe.learns().patches().is_none() {
        return items.iter().collect();
    }
    let mut slides: BTreeMap<_, Vec<&Item>> = BTreeMap::new();
    items.iter().for_each(|item| slides.entry(item.files.get("image")).or_default().push(item));
    let spread = |regions: Vec<&'a Item>| {
        let step = regions.len().div_ceil(REGIONS_OF_A_SLIDE);
        regions.into_iter().step_by(step).collect::<Vec<_>>()
    };
    slides.into_values().flat_map(spread).collect()
}

/// Passes a case through the chain: returns its facts, and its bytes in a cache.
fn pass(
    item: &Item,
    pipeline: &Pipeline,
    recipe: &Recipe,
    channels: Option<&LabelChannels>,
    validates: bool,
) -> Result<(CaseFitness, u64), Box<Finding>> {
    let refused = |what: String| {
        let finding = Finding::new(Severity::Error, Kind::Refused, what).case(&item.case);
        Box::new(finding.advice("fix the case, leave it out, or change the recipe's transforms"))
    };
    let samples =
        pipeline.run_deterministic(item.sample()).map_err(|error| refused(RecipeError::from(error).line()))?;
    let bytes: usize = samples.iter().map(Sample::bytes).sum();
    let Some(first) = samples.first() else { return Err(refused("the chain returns no sample for it".to_owned())) };
    let shape = first.shape("image").map_err(|error| refused(error.to_string()))?;
    let voxels = voxels(&samples, recipe).map_err(|error| refused(error.to_string()))?;
    let check = |samples: &[Sample]| channels.map_or(Ok(()), |taken| taken.check(samples, validates)).map_err(refused);
    let crops = if validates {
        check(&samples)?;
        None
    } else {
        let key = DrawKey::new(recipe.training.seed, 0, 0);
        let crops = pipeline.run_random(samples, key).map_err(|error| refused(RecipeError::from(error).line()))?;
        check(&crops)?;
        let Some(crop) = crops.first() else { return Err(refused("the chain returns no crop of it".to_owned())) };
        Some((crops.len(), crop.shape("image").map_err(|error| refused(error.to_string()))?))
    };
    Ok((CaseFitness { case: item.case.clone(), validates, shape, crops, voxels }, bytes as u64))
}

/// The names of the segmented classes without the background, or of the regions.
fn names(recipe: &Recipe) -> &[String] {
    match recipe.output() {
        Output::Labels => recipe.labels.get(1..).unwrap_or_default(),
        Output::Regions => &recipe.labels,
        Output::Scores | Output::Image => &[],
    }
}

/// The number of voxels of each class or region in a label after the chain.
fn voxels(samples: &[Sample], recipe: &Recipe) -> Result<Vec<u64>, hearth_data::TransformError> {
    let names = names(recipe);
    let mut counts = vec![0; names.len()];
    if names.is_empty() {
        return Ok(counts);
    }
    for sample in samples {
        let label = sample.image("label")?;
        let values = label.to_vec();
        if recipe.output() == Output::Regions {
            let each = values.len() / label.channels().max(1);
            for (count, channel) in counts.iter_mut().zip(values.chunks_exact(each.max(1))) {
                *count += channel.iter().filter(|value| **value > 0.5).count() as u64;
            }
        } else {
            let class = |value: &f32| (*value as usize).checked_sub(1).filter(|class| *class < names.len());
            values.iter().filter_map(class).for_each(|class| counts[class] += 1);
        }
    }
    Ok(counts)
}

/// The number of cases that have each class. For patches, the number of regions with a positive one.
fn classes(recipe: &Recipe, cases: &[CaseFitness], items: [&[Item]; 2]) -> Vec<ClassFitness> {
    if recipe.learns().patches().is_some() {
        let positive = |item: &&Item| match item.fields.get("label") {
            Some(Field::Number(label)) => *label > 0.5,
            Some(Field::Numbers(labels)) => labels.iter().any(|label| *label > 0.5),
            Some(Field::Text(_)) | None => false,
        };
        let [training, validation] = items.map(|items| items.iter().filter(positive).count());
        let name = recipe.labels.first().cloned().unwrap_or_default();
        return vec![ClassFitness { name, training, validation }];
    }
    let of = |class: usize, validates: bool| {
        let has = |case: &&CaseFitness| case.validates == validates && case.voxels.get(class).is_some_and(|n| *n > 0);
        cases.iter().filter(has).count()
    };
    let counted = |(class, name): (usize, &String)| ClassFitness {
        name: name.clone(),
        training: of(class, false),
        validation: of(class, true),
    };
    names(recipe).iter().enumerate().map(counted).collect()
}

/// Finds classes that cannot be learned or measured.
fn absent(classes: &[ClassFitness], validation: usize) -> Vec<Finding> {
    let mut found = Vec::new();
    for ClassFitness { name, training, validation: measured } in classes {
        if *training == 0 {
            let what = format!("no training case has {name:?}: the network cannot learn it");
            let advice = "check the names and values of the labels, and how the cases are split (data.validation)";
            found.push(Finding::new(Severity::Error, Kind::MissingLabel, what).advice(advice));
        }
        if *measured == 0 && validation > 0 {
            let what = format!("no validation case has {name:?}: its metric has no value");
            let advice = "split the cases in another way (data.validation), or stratify the folds";
            found.push(Finding::new(Severity::Warning, Kind::MissingLabel, what).advice(advice));
        }
    }
    found
}

/// Finds cases without any foreground after the chain.
fn without_any(recipe: &Recipe, cases: &[CaseFitness]) -> Vec<Finding> {
    let empty = |case: &&CaseFitness| !names(recipe).is_empty() && case.voxels.iter().all(|n| *n == 0);
    let tell = |case: &CaseFitness| {
        let what = "its label has no foreground after the recipe's chain".to_owned();
        let advice = "an empty label is correct if the image has no finding; otherwise check the case";
        Finding::new(Severity::Warning, Kind::EmptyLabel, what).case(&case.case).advice(advice)
    };
    cases.iter().filter(empty).map(tell).collect()
}
