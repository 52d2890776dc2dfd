//! The manifest of a package, the facts about its model, and its labels.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::terms::Term;

/// The version of the format that this crate writes. It reads this version and all earlier ones.
pub const FORMAT: u32 = 1;

/// The kind of model in a package.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A recipe and the weights of a checkpoint: `recipe.toml`, `weights.safetensors`.
    Run,
    /// The folder of one or several trained models of nnU-Net v2, below `model/`.
    Nnunet,
    /// A MONAI bundle, below `model/`.
    Bundle,
    /// An ensemble of runs, each a package below `model/`, and `model/ensemble.json`, which says
    /// how their results are merged.
    Ensemble,
}

/// A member of a package.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Member {
    /// Its size in bytes.
    pub bytes: u64,
    /// Its BLAKE3 hash, in hexadecimal digits.
    pub blake3: String,
}

/// `manifest.json`, the content that a signature signs. Later versions may add fields.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The version of the format.
    pub format: u32,
    /// The kind of model in the package.
    pub kind: Kind,
    /// The program that wrote it, with its version.
    pub program: String,
    /// The public key of the signer, in hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signed_by: Option<String>,
    /// All other members except the signature, by name.
    pub members: BTreeMap<String, Member>,
}

/// `metadata.json`: facts about a model, for its users.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Facts {
    /// The title of the model.
    pub title: String,
    /// The purpose of the model, in one or several sentences.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The authors.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub authors: Vec<String>,
    /// The version of the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The SPDX identifier of the licence; its text is in the member `LICENCE`, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub licence: Option<String>,
    /// Modalities of the input images: `CT`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub modalities: Vec<String>,
    /// The checkpoint from which the package was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<String>,
    /// The validation metrics, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metrics: BTreeMap<String, f64>,
    /// Further facts.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub more: BTreeMap<String, String>,
}

impl Facts {
    /// Creates facts with only a title.
    pub fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), ..Self::default() }
    }
}

/// A label in a model's results.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Label {
    /// Its value in label maps; for regions that may overlap, its channel, counted from 1.
    pub value: u32,
    /// The name of the label.
    pub name: String,
    /// Red, green and blue.
    pub colour: [u8; 3],
    /// The coded term of the label; `None` for the background and where it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub term: Option<Term>,
}

impl Label {
    /// Creates a label without a term.
    pub fn new(value: u32, name: impl Into<String>, colour: [u8; 3]) -> Self {
        Self { value, name: name.into(), colour, term: None }
    }
}
