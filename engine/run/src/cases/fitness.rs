//! Whether a data set suits a recipe, found out before hours are spent: every case passes the
//! chains that training and validation would send it through.

use std::collections::BTreeMap;
use std::path::Path;

use hearth_data::quality::{Finding, Kind, Severity};
use hearth_data::{DrawKey, Field, Item, Pipeline, Sample};
use serde::Serialize;

use crate::cases::Cases;
use crate::plan::Plan;
use hearth_recipe::recipe::{Output, Recipe};
use hearth_recipe::{Outcome, RecipeError};

/// Of a slide with thousands of regions, this many are read, spread over the list.
const REGIONS_OF_A_SLIDE: usize = 16;

/// What a recipe would make of a data set.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Fitness {
    /// The recipe's title.
    pub recipe: String,
    /// How many cases train.
    pub training: usize,
    /// How many validate.
    pub validation: usize,
    /// The cases that were read: all, of slides a part of their regions.
    pub cases: Vec<CaseFitness>,
    /// What is learned, in the order of the recipe's `labels`, without a background.
    pub classes: Vec<ClassFitness>,
    /// Size of the caches, on the device, in memory or on disk.
    pub cache_bytes: u64,
    /// What the recipe cannot use.
    pub findings: Vec<Finding>,
}

/// A case behind the chain's deterministic part.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct CaseFitness {
    /// Its name.
    pub case: String,
    /// Whether it validates.
    pub validates: bool,
    /// Voxels along each axis.
    pub shape: [usize; 3],
    /// Shape of what the network gets in training, and how many of those a case gives in an epoch;
    /// none of a case that validates.
    pub crops: Option<(usize, [usize; 3])>,
    /// Voxels of each of [`Fitness::classes`].
    pub voxels: Vec<u64>,
}

/// How often a class, a region or a positive patch occurs.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ClassFitness {
    /// Its name.
    pub name: String,
    /// Training cases that have it.
    pub training: usize,
    /// Validation cases that have it.
    pub validation: usize,
}

/// Sends every case of a data set through the chains of a recipe, one case in memory at a time. A
/// training case takes the random part too, once.
///
/// # Errors
/// Where the recipe cannot open or split the data set at all. What is wrong with a case is a
/// finding.
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
    let sides = [(&cases.training, &plan.training, false), (&cases.validation, &plan.validation, true)];
    let chosen = sides.map(|(items, pipeline, validates)| (some_of_each_slide(items, recipe), pipeline, validates));
    let count: usize = chosen.iter().map(|(items, ..)| items.len()).sum();
    let running = plan.progress.start("cases through the chain", count as u64);
    for ((items, pipeline, validates), (all, ..)) in chosen.iter().zip(sides) {
        let (mut bytes, mut passed) = (0, 0);
        for item in items {
            match pass(item, pipeline, recipe, *validates) {
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

/// All cases, or of regions of slides a few of each slide.
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

/// A case through the chain: what became of it, and its bytes in a cache.
fn pass(
    item: &Item,
    pipeline: &Pipeline,
    recipe: &Recipe,
    validates: bool,
) -> Result<(CaseFitness, u64), Box<Finding>> {
    let refused = |what: String| {
        let finding = Finding::new(Severity::Error, Kind::Refused, what).case(&item.case);
        Box::new(finding.advice("mend the case, leave it out, or change the recipe's transforms"))
    };
    let samples =
        pipeline.run_deterministic(item.sample()).map_err(|error| refused(RecipeError::from(error).line()))?;
    let bytes: usize = samples.iter().map(Sample::bytes).sum();
    let Some(first) = samples.first() else { return Err(refused("the chain leaves nothing of it".to_owned())) };
    let shape = first.shape("image").map_err(|error| refused(error.to_string()))?;
    let voxels = voxels(&samples, recipe).map_err(|error| refused(error.to_string()))?;
    let crops = if validates {
        None
    } else {
        let key = DrawKey::new(recipe.training.seed, 0, 0);
        let crops = pipeline.run_random(samples, key).map_err(|error| refused(RecipeError::from(error).line()))?;
        let Some(crop) = crops.first() else { return Err(refused("the chain draws nothing from it".to_owned())) };
        Some((crops.len(), crop.shape("image").map_err(|error| refused(error.to_string()))?))
    };
    Ok((CaseFitness { case: item.case.clone(), validates, shape, crops, voxels }, bytes as u64))
}

/// The names of what is segmented: classes without the background, or regions.
fn names(recipe: &Recipe) -> &[String] {
    match recipe.output() {
        Output::Labels => recipe.labels.get(1..).unwrap_or_default(),
        Output::Regions => &recipe.labels,
        Output::Scores | Output::Image => &[],
    }
}

/// Voxels of each class or region in a label behind the chain.
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

/// How many cases have each class. Of patches, regions that have a positive one.
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

/// Classes that cannot be learned, or not be measured.
fn absent(classes: &[ClassFitness], validation: usize) -> Vec<Finding> {
    let mut found = Vec::new();
    for ClassFitness { name, training, validation: measured } in classes {
        if *training == 0 {
            let what = format!("no training case has {name:?}: the network cannot learn it");
            let advice = "check the names and values of the labels, and how the cases are split (data.validation)";
            found.push(Finding::new(Severity::Error, Kind::MissingLabel, what).advice(advice));
        }
        if *measured == 0 && validation > 0 {
            let what = format!("no validation case has {name:?}: its metric says nothing");
            let advice = "split the cases in another way (data.validation), or stratify the folds";
            found.push(Finding::new(Severity::Warning, Kind::MissingLabel, what).advice(advice));
        }
    }
    found
}

/// Cases of which the chain leaves no foreground at all.
fn without_any(recipe: &Recipe, cases: &[CaseFitness]) -> Vec<Finding> {
    let empty = |case: &&CaseFitness| !names(recipe).is_empty() && case.voxels.iter().all(|n| *n == 0);
    let tell = |case: &CaseFitness| {
        let what = "behind the recipe's chain its label has no foreground".to_owned();
        let advice = "an empty case is right where there is nothing to find; check it otherwise";
        Finding::new(Severity::Warning, Kind::EmptyLabel, what).case(&case.case).advice(advice)
    };
    cases.iter().filter(empty).map(tell).collect()
}
