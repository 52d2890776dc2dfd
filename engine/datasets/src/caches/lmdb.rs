//! A cache in one database for all cases: [`LmdbCache`].

use hearth_registry::entry;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::on_disk::{OnDisk, on_disk_cache};

/// Keeps all cases in one database in a folder, keyed by their content and the steps applied to
/// them. The cache outlives the run, and other recipes with the same steps reuse it (MONAI's
/// `LMDBDataset`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LmdbCache(pub OnDisk);

on_disk_cache!(LmdbCache, LmdbDataset);

entry!(dyn super::Cache => LmdbCache, name: "lmdb", aliases: &["LMDBDataset"], example: "dir = \"cache\"");
