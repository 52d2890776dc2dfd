//! The data set of a recipe: its cases behind a pipeline, kept as `[data] cache` says.

use std::path::Path;
use std::sync::Arc;

use burn::tensor::Device;
use hearth_data::{
    CacheDataset, CacheOptions, DataError, Dataset, Item, LmdbDataset, PersistentDataset, Pipeline, SmartCacheDataset,
    SmartCacheOptions, StoreOptions, TransformDataset,
};

use super::Plan;
use crate::error::{Context, Outcome};
use crate::recipe::{CacheDevice, CacheKind, Rate};

/// Which cases they are.
#[derive(Clone, Copy, PartialEq)]
pub enum Use {
    /// An epoch may have a part of them.
    Training,
    /// Every one is looked at each time.
    Validation,
}

/// The cases behind a pipeline, and filled.
pub fn dataset(plan: &Plan, items: Vec<Item>, pipeline: Arc<Pipeline>, what: Use) -> Outcome<Arc<dyn Dataset>> {
    let cache = &plan.recipe.data.cache;
    let device = (cache.device == Some(CacheDevice::Same)).then(|| plan.device.clone());
    let made = match cache.kind {
        CacheKind::None => TransformDataset::new(items, pipeline).map(arc),
        // A window would leave out cases that are to be measured.
        CacheKind::Smart if what == Use::Training => {
            SmartCacheDataset::new(items, pipeline, smart_options(plan, device)).map(arc)
        }
        CacheKind::Cache | CacheKind::Smart => CacheDataset::new(items, pipeline, cache_options(plan, device)).map(arc),
        CacheKind::Persistent | CacheKind::Lmdb => stored(plan, items, pipeline, device),
    };
    let name = if what == Use::Training { "training" } else { "validation" };
    made.while_doing(|| format!("preparing the {name} cases"))
}

fn arc(dataset: impl Dataset + 'static) -> Arc<dyn Dataset> {
    Arc::new(dataset)
}

fn cache_options(plan: &Plan, device: Option<Device>) -> CacheOptions {
    let cache = &plan.recipe.data.cache;
    let rate = cache.rate.unwrap_or(Rate::Part(1.0));
    CacheOptions {
        rate: rate.part(),
        num: cache.num,
        auto: rate == Rate::Auto,
        runtime: cache.runtime.unwrap_or(false),
        workers: cache.workers.unwrap_or(1),
        device,
        storage: cache.storage.unwrap_or_default(),
        progress: plan.progress,
        limit: cache.limit_gib.map(|gib| (gib * (1_u64 << 30) as f64) as u64),
        ..CacheOptions::default()
    }
}

fn smart_options(plan: &Plan, device: Option<Device>) -> SmartCacheOptions {
    let cache = &plan.recipe.data.cache;
    SmartCacheOptions {
        replace_rate: cache.replace_rate.unwrap_or(0.1),
        rate: cache.rate.map_or(1.0, Rate::part),
        num: cache.num,
        init_workers: cache.workers.unwrap_or(1),
        replace_workers: cache.workers.unwrap_or(1),
        shuffle: cache.shuffle.unwrap_or(true),
        device,
        storage: cache.storage.unwrap_or_default(),
        progress: plan.progress,
        ..SmartCacheOptions::default()
    }
}

fn stored(
    plan: &Plan,
    items: Vec<Item>,
    pipeline: Arc<Pipeline>,
    device: Option<Device>,
) -> Result<Arc<dyn Dataset>, DataError> {
    let (cache, progress) = (&plan.recipe.data.cache, plan.progress);
    let options = StoreOptions {
        identity: cache.identity.unwrap_or_default(),
        storage: cache.storage.unwrap_or_default(),
        device,
        ..StoreOptions::default()
    };
    // The recipe's check demands one.
    let dir = cache.dir.as_deref().unwrap_or(Path::new("."));
    let workers = (cache.runtime != Some(true)).then_some(cache.workers.unwrap_or(1));
    if cache.kind == CacheKind::Persistent {
        let dataset = PersistentDataset::new(items, pipeline, dir, options)?;
        workers.map_or(Ok(()), |workers| dataset.fill(workers, progress))?;
        return Ok(arc(dataset));
    }
    let dataset = LmdbDataset::new(items, pipeline, dir, options)?;
    workers.map_or(Ok(()), |workers| dataset.fill(workers, progress))?;
    Ok(arc(dataset))
}
