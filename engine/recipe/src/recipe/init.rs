//! `[init]`: what a network starts from, and what of it stays as it is.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// What a network starts from. Left out, from weights that the seed draws, and all of it is
/// trained.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Init {
    /// A safetensors file, a checkpoint's folder or a run's folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weights: Option<PathBuf>,
    /// Leaves out weights that have another shape than the network's, as of a head for other
    /// classes.
    pub skip_mismatched: bool,
    /// Names of parameters that stay as they are; `*` stands for any characters.
    pub freeze: Vec<String>,
}
