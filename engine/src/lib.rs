//! **Hearth** trains, evaluates and runs medical-imaging networks on any GPU that [Burn](burn) runs
//! on.
//!
//! An [`Engine`](engine::Engine) drives a run and fires events; handlers listen to them. A trainer
//! owns the network, the loss, the optimizer and the data, and takes one step when the engine asks
//! for it. This crate re-exports all of it; `use hearth::prelude::*` brings what most programs need:
//!
//! | module | what is in it |
//! |---|---|
//! | [`engine`] | events, handlers, state: the event machine, no tensor library |
//! | [`data`] | images with geometry, readers and writers, transforms, caches, loaders |
//! | [`nn`] | networks, losses, metrics, optimizers, inferers |
//! | [`train`] | trainer, evaluators, predictor, precision, devices, checkpoints |
//! | [`handlers`] | validation, checkpoints, learning-rate schedules, logs, early stop |
//! | [`kernels`] | the device operations that Burn lacks |
//! | [`registry`] | names that a recipe can use, and how its tables become objects; own names |
//! | `recipe`, `run`, `models` | with the feature `recipe`, the base of the program `hearth`: recipes; training runs; trained models of every kind |
//!
//! # A whole training run
//!
//! This is `examples/train.rs`. Other examples cover each kind of task, custom parts, a custom
//! loop, inference only, and a GAN.
//!
//! ```no_run
#![forbid(unsafe_code)]
#![doc = include_str!("../examples/train.rs")]
//! ```
//!
//! To report progress, add a handler before `trainer.run()`:
//! `trainer.engine_mut().on(Event::EpochCompleted, |cx| ...)`. `trainer.resume("checkpoints")`
//! resumes a run that ended early.
//!
//! # Your own handler
//!
//! A handler is a closure, as above, or a struct where it has state. `examples/custom_handler.rs`
//! shows both in forty lines. The `hearth-plugin` crate turns the same struct into a plugin that is
//! loaded from a file.
//!
//! # Features
//!
//! `cpu` (the default), `cuda`, `rocm`, `metal`, `vulkan`, `wgpu`: which devices a build can use.
//! Several may be enabled at once; [`train::device::parse`] chooses one at run time. `recipe` adds
//! recipes and plugins, `download` adds public data sets.

pub use burn;
pub use hearth_data as data;
pub use hearth_engine as engine;
pub use hearth_handlers as handlers;
pub use hearth_kernels as kernels;
#[cfg(feature = "recipe")]
pub use hearth_models as models;
pub use hearth_nn as nn;
#[cfg(feature = "recipe")]
pub use hearth_recipe as recipe;
pub use hearth_registry as registry;
#[cfg(feature = "recipe")]
pub use hearth_run as run;
pub use hearth_train as train;
pub use serde_json;

pub mod prelude;

/// The result of a program that uses the library: any error of Hearth, or its own.
pub type Result<T = ()> = std::result::Result<T, engine::BoxError>;

/// The pages of `docs/` about the library, included so that doc tests run their code.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../docs/library.md")]
    mod library {}
    #[doc = include_str!("../../docs/own.md")]
    mod own {}
}
