//! The data set of a recipe: its cases behind a pipeline, cached according to `[data] cache`.

use std::sync::Arc;

use hearth_data::caches::CacheRun;
use hearth_data::{Dataset, Item, Pipeline};
use hearth_kernels::memory;
use hearth_train::device;

use crate::cases::label_check::{check_whole, may_blend};
use crate::plan::Plan;
use hearth_recipe::{Context, Outcome};

/// The use of the cases.
#[derive(Clone, Copy, PartialEq)]
pub enum Use {
    /// An epoch may use a part of them.
    Training,
    /// All of them are used each time.
    Validation,
}

/// The facts about the run that the recipe's cache needs.
///
/// `beside` is the host memory in bytes that the training itself needs.
pub fn cache_run(plan: &Plan, what: Use, beside: u64) -> CacheRun {
    // Queried again for the validation: the memory of the training cases is no longer free.
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

/// The cases behind a pipeline, with a filled cache; `beside` is the same as in [`cache_run`].
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
    // The memory for reading and transforming is free again.
    memory::owns("caches", memory::in_use().saturating_sub(before));
    // A case that cannot be made is reported by the loader.
    if !filled.is_empty()
        && may_blend(plan)
        && let Ok(samples) = filled.get(0, 0)
    {
        check_whole(filled.case(0), &samples).while_doing(|| format!("preparing the {name} cases"))?;
    }
    Ok(filled)
}
