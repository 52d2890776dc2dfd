//! The data set of a recipe: its cases behind a pipeline, kept as `[data] cache` says.

use std::sync::Arc;

use hearth_data::caches::CacheRun;
use hearth_data::{Dataset, Item, Pipeline};
use hearth_kernels::memory;
use hearth_train::device;

use crate::plan::Plan;
use hearth_recipe::{Context, Outcome};

/// Which cases they are.
#[derive(Clone, Copy, PartialEq)]
pub enum Use {
    /// An epoch may use a part of them.
    Training,
    /// All of them are used each time.
    Validation,
}

/// What the recipe's cache needs to know of the run.
///
/// `beside` are bytes of host memory that the training takes itself.
pub fn cache_run(plan: &Plan, what: Use, beside: u64) -> CacheRun {
    // Asked again for the validation: what the training's cases took is no longer free.
    let on_device = plan.recipe.data.cache.on_device();
    let free = if on_device { device::memory(&plan.device).map(|memory| memory.free) } else { None };
    CacheRun {
        device: plan.device.clone(),
        progress: plan.progress,
        whole: what == Use::Validation,
        free,
        beside,
        ranks_here: plan.ranks_here,
    }
}

/// The cases behind a pipeline, and filled; `beside` is as for [`cache_run`].
pub fn dataset(
    plan: &Plan,
    items: Vec<Item>,
    pipeline: Arc<Pipeline>,
    what: Use,
    beside: u64,
) -> Outcome<Arc<dyn Dataset>> {
    let run = cache_run(plan, what, beside);
    let before = memory::in_use();
    let name = if what == Use::Training { "training" } else { "validation" };
    let made = plan.recipe.data.cache.dataset(items, pipeline, &run);
    let filled = made.while_doing(|| format!("preparing the {name} cases"))?;
    // What reading and transforming took is free again.
    memory::owns("caches", memory::in_use().saturating_sub(before));
    Ok(filled)
}
