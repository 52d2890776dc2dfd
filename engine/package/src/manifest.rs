//! What a package says of itself.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::terms::Term;

/// The version of the format that this crate writes; it reads those up to it.
pub const FORMAT: u32 = 1;

/// What a package holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A recipe and the weights of a checkpoint: `recipe.toml`, `weights.safetensors`.
    Run,
    /// The folder of a trained model of nnU-Net v2, or of several of them, below `model/`.
    Nnunet,
    /// A MONAI bundle, below `model/`.
    Bundle,
    /// Runs that predict as one, each a package below `model/`, and `model/ensemble.json`, which says how they
    /// are merged.
    Ensemble,
}

/// A member of a package.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Member {
    /// Its size.
    pub bytes: u64,
    /// Its BLAKE3 sum, in hexadecimal digits.
    pub blake3: String,
}

/// `manifest.json`: what a signature signs. Later programs may add fields.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The version of the format.
    pub format: u32,
    /// What it holds.
    pub kind: Kind,
    /// The program that wrote it, with its version.
    pub program: String,
    /// The public key of who signed it, in hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signed_by: Option<String>,
    /// All other members but the signature, by their names.
    pub members: BTreeMap<String, Member>,
}

/// `metadata.json`: facts about a model, for whoever uses it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Facts {
    /// What it is called.
    pub title: String,
    /// What it is for, in a sentence or several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Who made it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub authors: Vec<String>,
    /// Its own version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The licence in a word, as SPDX has it; its text is in the member `LICENCE`, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub licence: Option<String>,
    /// Modalities of the images it takes: `CT`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub modalities: Vec<String>,
    /// The checkpoint that it came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<String>,
    /// What its validation measured, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metrics: BTreeMap<String, f64>,
    /// Whatever else is said of it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub more: BTreeMap<String, String>,
}

impl Facts {
    /// With a title and nothing else.
    pub fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), ..Self::default() }
    }
}

/// A label of a model's results.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Label {
    /// Its value in label maps; of regions that may overlap the channel, from 1.
    pub value: u32,
    /// What it is called.
    pub name: String,
    /// Red, green, blue.
    pub colour: [u8; 3],
    /// What it is, in codes; none of a background, and where nothing is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub term: Option<Term>,
}

impl Label {
    /// One without a term.
    pub fn new(value: u32, name: impl Into<String>, colour: [u8; 3]) -> Self {
        Self { value, name: name.into(), colour, term: None }
    }
}
