//! The data set of a recipe: its cases behind a pipeline, kept as `[data] cache` says.

use std::sync::Arc;

use hearth_data::caches::CacheRun;
use hearth_data::{Dataset, Item, Pipeline};

use super::Plan;
use crate::error::{Context, Outcome};

/// Which cases they are.
#[derive(Clone, Copy, PartialEq)]
pub enum Use {
    /// An epoch may use a part of them.
    Training,
    /// All of them are used each time.
    Validation,
}

/// The cases behind a pipeline, and filled.
pub fn dataset(plan: &Plan, items: Vec<Item>, pipeline: Arc<Pipeline>, what: Use) -> Outcome<Arc<dyn Dataset>> {
    let run = CacheRun { device: plan.device.clone(), progress: plan.progress, whole: what == Use::Validation };
    let name = if what == Use::Training { "training" } else { "validation" };
    plan.recipe.data.cache.dataset(items, pipeline, &run).while_doing(|| format!("preparing the {name} cases"))
}
