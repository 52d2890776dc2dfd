//! Model packages: a trained model as one file, `NAME.hearth`.
//!
//! A package is a zip archive with a manifest that lists the BLAKE3 hash of every member; a recipe
//! with weights in safetensors, or the files of a model folder; its labels with colours and coded
//! terms; facts about the model; its licence; and, if it is signed, an Ed25519 signature of the
//! manifest. Nothing in it is executed, and no tensor library is needed to inspect one.
//!
//! ```
//! use hearth_package::{Builder, Facts, Kind, Label, Package};
//!
//! let folder = tempfile::tempdir()?;
//! let path = folder.path().join("organ.hearth");
//! let label = |value, name: &str| Label::new(value, name, [value as u8, 0, 0]);
//! Builder::new(Kind::Run, Facts::new("organ"), "hearth")
//!     .labels(vec![label(0, "background"), label(1, "spleen")])
//!     .bytes("recipe.toml", "task = \"organ\"")
//!     .bytes("weights.safetensors", [0; 16])
//!     .write(&path, None)?;
//!
//! let package = Package::open(&path)?;
//! assert_eq!(package.read("weights.safetensors")?, [0; 16]);
//! assert_eq!(package.labels()[1].name, "spleen");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod error;
mod manifest;
mod reader;
mod signature;
mod terms;
mod writer;

pub use error::PackageError;
pub use manifest::{FORMAT, Facts, Kind, Label, Manifest, Member};
pub use reader::Package;
pub use signature::{PublicKey, SigningKey};
pub use terms::{Code, Term};
pub use writer::Builder;

/// The name of the recipe in a package of a run.
pub const RECIPE: &str = "recipe.toml";
/// The name of the weights in a package of a run.
pub const WEIGHTS: &str = "weights.safetensors";
/// The folder in a package that holds the files of a model folder.
pub const MODEL: &str = "model";
/// The name of the member with labels, colours and terms.
pub const LABELS: &str = "labels.json";
/// The name of the member with facts about the model.
pub const FACTS: &str = "metadata.json";
/// The file extension of a package.
pub const END: &str = "hearth";
