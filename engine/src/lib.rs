//! **Hearth** trains, evaluates and runs medical-imaging networks on any GPU that [Burn](burn) runs
//! on.
//!
//! An [`Engine`](engine::Engine) walks through a run and says what happens; handlers listen. A
//! trainer owns network, loss, optimizer and data, and does one step when the engine says so. This
//! crate is the door to all of it:
//!
//! | module | what is in it |
//! |---|---|
//! | [`engine`] | events, handlers, state: the event machine, no tensor library |
//! | [`data`] | images with geometry, readers and writers, transforms, caches, loaders |
//! | [`nn`] | networks, losses, metrics, optimizers, inferers |
//! | [`train`] | trainer, evaluators, predictor, precision, devices, checkpoints |
//! | [`handlers`] | validation, checkpoints, learning-rate schedules, logs, early stop |
//! | `recipe` | recipes, with the feature `recipe`: what the program `hearth` is made of |
//! | [`kernels`] | the device operations that Burn lacks |
//!
//! # A whole training run
//!
//! This is `examples/train.rs`. Beside it stand one for each kind of task, for parts of one's own,
//! for a loop of one's own, for inference alone, and for two networks that compete.
//!
//! ```no_run
#![doc = include_str!("../examples/train.rs")]
//! ```
//!
//! A program of one's own reports of it as it likes: `trainer.engine_mut().on(Event::EpochCompleted, |cx| ...)` before
//! `trainer.run()`. `trainer.resume("checkpoints")` goes on with a run that ended early.
//!
//! # Your own handler
//!
//! A closure will do, as above; a struct where there is state to keep. `examples/custom_handler.rs` shows both in forty lines, and
//! the `hearth-plugin` crate turns the same struct into a plugin that is loaded from a file.
//!
//! # Features
//!
//! `cpu` (the default), `cuda`, `rocm`, `metal`, `vulkan`, `wgpu`: which devices a build can use. Several may be on at once; which
//! one a run takes is said at run time by [`train::device::parse`]. `recipe` adds recipes and plugins, `download` public data sets.

pub use burn;
pub use hearth_data as data;
pub use hearth_engine as engine;
pub use hearth_handlers as handlers;
pub use hearth_kernels as kernels;
pub use hearth_nn as nn;
#[cfg(feature = "recipe")]
pub use hearth_recipe as recipe;
pub use hearth_registry as registry;
pub use hearth_train as train;
pub use serde_json;

pub mod prelude;

/// What a program that uses the library returns: any error of Hearth, or of its own.
pub type Result<T = ()> = std::result::Result<T, engine::BoxError>;

/// The pages of `docs/` about the library: their code is run by the tests.
#[cfg(doctest)]
#[doc = include_str!("../../docs/own.md")]
mod pages {}
