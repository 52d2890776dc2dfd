//! The components a recipe names, and how a name becomes an object.
//!
//! A recipe is processed in one direction: text, [`Node`]s that record where each value was
//! written, entries of a [`Registry`], objects. Nothing is converted back into text, so every error
//! has the key it belongs to:
//!
//! ```text
//! spleen.toml:12 --parse--> Node{ "lr": 0.2 @ 12:6 } --Registry<Optimizer>::build--> Sgd{ lr }   or
//!                                                    `-> Fault{ optimizer.lr, "must be positive", 12:6 }
//! ```
//!
//! An entry is declared next to the type it builds, in the same file, and needs no central list:
//! the linker collects it.
//!
//! ```
//! use hearth_registry::{Document, Fault, Kind, Registry, entry};
//!
//! /// A shape.
//! trait Shape {
//!     fn area(&self) -> f64;
//! }
//!
//! impl Kind for dyn Shape {
//!     const WORD: &'static str = "shape";
//! }
//!
//! /// A square.
//! #[derive(serde::Deserialize, schemars::JsonSchema)]
//! #[serde(deny_unknown_fields)]
//! struct Square {
//!     /// Length of a side in mm.
//!     side: f64,
//! }
//!
//! impl Shape for Square {
//!     fn area(&self) -> f64 {
//!         self.side * self.side
//!     }
//! }
//!
//! entry!(dyn Shape => Square, example: "side = 2.0");
//!
//! let page = Document::parse("page.toml", "shape = { name = \"Square\", side = 3 }")?;
//! let shape = Registry::<dyn Shape>::new().build(page.find("shape"))?;
//! assert_eq!(shape.area(), 9.0);
//!
//! let page = Document::parse("page.toml", "shape = { name = \"Square\", sid = 3 }")?;
//! let fault = Registry::<dyn Shape>::new().build(page.find("shape")).err().unwrap();
//! assert!(fault.to_string().starts_with("page.toml:1:28: unknown key \"sid\", did you mean \"side\"?"));
//! # Ok::<(), Fault>(())
//! ```

#![forbid(unsafe_code)]

pub mod component;
mod counted;
mod document;
#[cfg(feature = "entries")]
mod entry;
mod fault;
mod monai;
#[cfg(feature = "entries")]
mod named;
mod nearest;
mod node;
mod overrides;
#[cfg(feature = "entries")]
mod parameters;
mod place;
mod read;
#[cfg(feature = "entries")]
mod registry;
mod type_name;

pub use counted::counted;
pub use document::Document;
#[cfg(feature = "entries")]
pub use entry::{Described, Entry, FromPlugin, Kind, Registration, build_by_reading, described, kinds};
pub use fault::Fault;
pub use monai::{Foreign, Here, base_names, explained, last_part, unknown_name};
#[cfg(feature = "entries")]
pub use named::Named;
pub use nearest::{nearest, unknown};
pub use node::{Field, Node, Origin, Source, Value};
#[cfg(feature = "entries")]
pub use parameters::{Parameter, parameters};
pub use place::Place;
pub use read::read;
#[cfg(feature = "entries")]
pub use registry::Registry;
pub use type_name::type_name;

// What `entry!` expands to needs these names in the caller's crate.
#[cfg(feature = "entries")]
#[doc(hidden)]
pub use inventory;
#[cfg(feature = "entries")]
pub use schemars;
