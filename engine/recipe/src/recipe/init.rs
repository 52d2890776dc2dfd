//! `[init]`: initial weights, and which of them are frozen.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Initial weights. Without this table, the seed draws all weights and all are trained.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Init {
    /// A safetensors file, a checkpoint's folder or a run's folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weights: Option<PathBuf>,
    /// Skips weights whose shape differs from the network's, such as those of a head for other
    /// classes.
    pub skip_mismatched: bool,
    /// Names of parameters to freeze; `*` matches any characters.
    pub freeze: Vec<String>,
}
