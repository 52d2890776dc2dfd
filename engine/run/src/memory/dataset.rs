//! The memory of a run's data: what opening it, filling its caches and making its batches takes.
//!
//! Bytes are what the allocator hands out, which is more than the values have: blocks are rounded up.

use std::path::Path;

use hearth_data::{CacheDataset, CacheOptions, DataLoader, Dataset, Item, LoaderOptions, Sample};
use hearth_kernels::memory;

use crate::cases::Cases;
use crate::memory::synthetic::samples::integer;
use crate::memory::synthetic::steps::Same;
use crate::plan::Plan;
use hearth_recipe::Outcome;

/// So many cases of each kind are looked at, spread over the list.
const LOOKED_AT: usize = 4;

/// Threads that fill a cache, where the recipe does not say.
const FILLING: usize = 2;

/// The memory of the caches, in bytes.
#[derive(Debug, Default)]
pub(crate) struct Caches {
    /// What they hold.
    pub held: u64,
    /// Of it, in blocks that [`memory::in_use`] counts.
    pub blocks: u64,
    /// The most while they are filled.
    pub filling: u64,
    /// The largest volume that validates, of those that were looked at.
    pub volume: Option<[usize; 3]>,
}

/// Opens the data set, and counts what that takes.
pub(crate) fn opened(data: &Path, plan: &Plan) -> Outcome<(Cases, u64)> {
    memory::begin_peak();
    let before = memory::in_use();
    let cases = Cases::open(data, &plan.recipe)?;
    Ok((cases, since(before)))
}

/// What the caches take, from some cases of each kind.
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
            // Towards the end nearly all cases are there.
            found.filling = found.filling.max(found.blocks + loading * threads.clamp(1, kept) as u64);
        }
    }
    Ok(found)
}

/// The memory of a batch, in bytes.
#[derive(Debug)]
pub(crate) struct BatchMemory {
    /// What it holds.
    pub held: u64,
    /// What making it takes beside that.
    pub making: u64,
}

/// The batches of the first case, again and again, which is kept where the recipe keeps all cases;
/// `None` where there is none.
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

/// What a batch of the first case takes, or one of these samples.
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

/// The most bytes that were in use since the peak began, above `before`.
fn since(before: usize) -> u64 {
    memory::peak().saturating_sub(before) as u64
}

/// Some of the items, spread over them.
pub(crate) fn spread(items: &[Item]) -> impl Iterator<Item = &Item> {
    let count = items.len().min(LOOKED_AT);
    (0..count).map(move |place| &items[place * items.len() / count])
}

fn volume(shape: [usize; 3]) -> usize {
    shape.iter().product()
}
