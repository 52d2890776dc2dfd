//! A file for each case: [`PersistentCache`].

use hearth_registry::entry;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::on_disk::{OnDisk, on_disk_cache};

/// Keeps each case in a file of a folder, keyed by its content and the steps applied to it. The
/// cache outlives the run, and other recipes with the same steps reuse it (MONAI's
/// `PersistentDataset`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PersistentCache(pub OnDisk);

on_disk_cache!(PersistentCache, PersistentDataset);

entry!(dyn super::Cache => PersistentCache, name: "persistent", aliases: &["PersistentDataset"], example: "dir = \"cache\"");
