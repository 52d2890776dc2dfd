//! MONAI bundles without Python. Configs are read, merged, overridden and resolved as in MONAI, and
//! their `$` expressions are evaluated by an interpreter of a subset of Python's grammar. No code
//! is executed; unsupported syntax is reported with file, id, text and the unsupported part.
//!
//! A config is only described: a [`Component`] has a `_target_` and arguments, and a [`Resolver`]
//! lists the [`Effect`]s of a run. Other crates build networks, transforms and evaluators from
//! them; this crate has no tensors.
//!
//! ```
//! use hearth_bundle::{Config, Resolver, Value};
//!
//! let mut config = Config::parse("inference.json", r#"{
//!     "bundle_root": ".",
//!     "overlap": 0.5,
//!     "weights": "$@bundle_root + '/models/model.pt'",
//!     "inferer": {"_target_": "SlidingWindowInferer", "overlap": "@overlap"}
//! }"#)?;
//! config.set_from_text("overlap", "0.25")?;
//! let resolver = Resolver::new(config, ".".into())?;
//! assert_eq!(resolver.get("weights")?.as_str(), Some("./models/model.pt"));
//! let inferer = resolver.get("inferer")?;
//! let inferer = inferer.as_component().expect("it has a _target_");
//! assert_eq!(inferer.name(), "SlidingWindowInferer");
//! assert!(matches!(inferer.get("overlap"), Some(Value::Float(overlap)) if *overlap == 0.25));
//! # Ok::<(), hearth_bundle::Fault>(())
//! ```

#![forbid(unsafe_code)]

mod bundle;
mod config;
mod eval;
mod fault;
mod id;
mod metadata;
mod resolve;
pub mod syntax;
mod tree;
mod value;
mod yaml;

pub use bundle::{Bundle, ConfigFile};
pub use config::Config;
pub use eval::{Effect, call, dtype_name, slice_places};
pub use fault::{Fault, FaultKind};
pub use metadata::{Metadata, Port};
pub use resolve::Resolver;
pub use value::{CallValue, Component, Function, Value};
