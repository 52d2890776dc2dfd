//! The memory of a run's data: for opening it, filling its caches and making its batches.
//!
//! Bytes are those of the allocator, which rounds blocks up, so they are more than the values need.

use std::path::Path;

use hearth_data::{CacheDataset, CacheOptions, DataLoader, Dataset, Item, LoaderOptions, Sample};
use hearth_kernels::memory;

use crate::cases::Cases;
use crate::memory::synthetic::samples::integer;
use crate::memory::synthetic::steps::Same;
use crate::plan::Plan;
use hearth_recipe::Outcome;

/// The number of cases of each kind that are examined, spread over the list.
const LOOKED_AT: usize = 4;

/// The number of threads that fill a cache, if the recipe does not set it.
const FILLING: usize = 2;

/// The memory of the caches, in bytes.
#[derive(Debug, Default)]
pub(crate) struct Caches {
    /// Their content.
    pub held: u64,
    /// The part of it in blocks that [`memory::in_use`] counts.
    pub blocks: u64,
    /// The peak while they are filled.
    pub filling: u64,
    /// The largest validation volume among the examined ones.
    pub volume: Option<[usize; 3]>,
}

/// Opens the data set, and measures the memory for that.
pub(crate) fn opened(data: &Path, plan: &Plan) -> Outcome<(Cases, u64)> {
    memory::begin_peak();
    let before = memory::in_use();
    let cases = Cases::open(data, &plan.recipe)?;
    Ok((cases, since(before)))
}

/// The memory of the caches, estimated from some cases of each kind.
pub(crate) fn caches(plan: &Plan, cases: &Cases) -> Outcome<Caches> {
    let cache = &plan.recipe.data.cache;
    let threads = cache.node().get("workers").and_then(integer).unwrap_or(FILLING);
    let mut found = Caches::default();
    for (items, pipeline, validates) in
        [(&cases.training, &plan.training, false), (&cases.validation, &plan.validation, true)]
    {
        let kept = if cache.dir().is_some() { 0 } else { cache.kept(items.len()) };
        let options = CacheOptions::default().storage(cache.storage());
        let looked_at: Vec<&Item> = spread(items).collect();
        let (mut held, mut blocks, mut loading) = (0, 0, 0);
        for item in &looked_at {
            memory::begin_peak();
            let before = memory::in_use();
            let one = CacheDataset::new(vec![(*item).clone()], pipeline.clone(), options.clone())?;
            let now = memory::in_use().saturating_sub(before) as u64;
            held += (one.bytes() as u64).max(now);
            blocks += now;
            loading = loading.max(since(before).saturating_sub(now));
            if validates {
                let shape = one.get(0, 0)?.first().map(|sample| sample.shape("image")).transpose()?;
                let larger = |shape: &[usize; 3]| found.volume.is_none_or(|other| volume(*shape) > volume(other));
                found.volume = shape.filter(larger).or(found.volume);
            }
        }
        if kept > 0 && !looked_at.is_empty() {
            let all = |bytes: u64| (bytes as f64 / looked_at.len() as f64 * kept as f64) as u64;
            found.held += all(held);
            found.blocks += all(blocks);
            // Near the end of filling, almost all cases are stored.
            found.filling = found.filling.max(found.blocks + loading * threads.clamp(1, kept) as u64);
        }
    }
    Ok(found)
}

/// The memory of a batch, in bytes.
#[derive(Debug)]
pub(crate) struct BatchMemory {
    /// The memory that it holds.
    pub held: u64,
    /// The additional memory while it is made.
    pub making: u64,
}

/// A loader that repeats the batches of the first case, cached if the recipe caches all cases;
/// `None` without training cases.
pub(crate) fn first_case(plan: &Plan, cases: &Cases) -> Outcome<Option<DataLoader>> {
    let Some(first) = cases.training.first() else { return Ok(None) };
    let all = cases.training.len();
    let size = plan.recipe.training.batch_size.min(all);
    let rate = if plan.recipe.data.cache.kept(all) == all { 1.0 } else { 0.0 };
    let options = CacheOptions::default().rate(rate);
    loader(plan, CacheDataset::new(vec![first.clone(); size], plan.training.clone(), options)?).map(Some)
}

fn loader(plan: &Plan, dataset: impl Dataset + 'static) -> Outcome<DataLoader> {
    let options = LoaderOptions { batch_size: plan.recipe.training.batch_size, ..LoaderOptions::default() };
    let loader = DataLoader::new(dataset, options)?;
    Ok(match &plan.batch {
        Some(batch) => loader.with_batch_transforms(batch.clone()),
        None => loader,
    })
}

/// The memory of a batch of the first case, or of one of these samples.
pub(crate) fn batch(plan: &Plan, cases: Option<&Cases>, samples: &[Sample]) -> Outcome<BatchMemory> {
    let of_data = cases.map(|cases| first_case(plan, cases)).transpose()?.flatten();
    let given = || loader(plan, Same { samples: samples.to_vec(), cases: plan.recipe.training.batch_size });
    let loader = of_data.map_or_else(given, Ok)?;
    memory::begin_peak();
    let before = memory::in_use();
    let batch = loader.epoch(0, 0).next().transpose()?;
    let held = memory::in_use().saturating_sub(before) as u64;
    let making = since(before).saturating_sub(held);
    drop(batch);
    Ok(BatchMemory { held, making })
}

/// The peak of bytes in use since the measurement began, above `before`.
fn since(before: usize) -> u64 {
    memory::peak().saturating_sub(before) as u64
}

/// Some of the items, evenly spread.
pub(crate) fn spread(items: &[Item]) -> impl Iterator<Item = &Item> {
    let count = items.len().min(LOOKED_AT);
    (0..count).map(move |place| &items[place * items.len() / count])
}

fn volume(shape: [usize; 3]) -> usize {
    shape.iter().product()
}
