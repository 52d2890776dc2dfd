//! No cache: [`NoCache`].

use std::sync::Arc;

use hearth_registry::entry;
use hearth_transforms::Pipeline;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Cache, CacheRun};
use crate::{DataError, Dataset, Item, TransformDataset};

/// Caches nothing: all transforms run at each use of a case (MONAI's `Dataset`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NoCache {}

impl Cache for NoCache {
    fn dataset(&self, cases: Vec<Item>, steps: Arc<Pipeline>, _: &CacheRun) -> Result<Arc<dyn Dataset>, DataError> {
        Ok(Arc::new(TransformDataset::new(cases, steps)?))
    }

    fn kept(&self, _: usize) -> usize {
        0
    }
}

entry!(dyn Cache => NoCache, name: "none", aliases: &["Dataset"], example: "");
