//! The SDK for Hearth plugins. This is a complete plugin:
//!
//! ```
//! use hearth_plugin::{Context, Event, Handler, HandlerError, When, export_plugin, options};
//!
//! options! {
//!     /// Options of the plugin, as a recipe's table gives them.
//!     pub struct Options {
//!         /// Number of epochs without a better key metric after which the run ends.
//!         epochs: u64 = 10,
//!     }
//! }
//!
//! /// Ends a run whose metric does not improve.
//! pub struct Patience {
//!     epochs: u64,
//! }
//!
//! impl Handler for Patience {
//!     fn name(&self) -> &str {
//!         "patience"
//!     }
//!     fn subscriptions(&self) -> Vec<When> {
//!         vec![Event::EpochCompleted.into()]
//!     }
//!     fn handle(&mut self, _event: Event, cx: &mut Context<'_>) -> Result<(), HandlerError> {
//!         if cx.state.epoch >= cx.state.best_epoch.unwrap_or(0) + self.epochs {
//!             cx.host.terminate("patience ran out");
//!         }
//!         Ok(())
//!     }
//! }
//!
//! export_plugin!("patience", Options, |options: Options| Patience { epochs: options.epochs });
//!
//! // A test, without a host: the rehearsal plays it.
//! use hearth_plugin::testkit::{Call, Rehearsal};
//! # fn main() {
//! let mut rehearsal = Rehearsal::new(Patience { epochs: 2 });
//! rehearsal.state.best_epoch = Some(1);
//! rehearsal.epochs(5, 3).unwrap();
//! assert_eq!(rehearsal.state.epoch, 3);
//! assert_eq!(rehearsal.host.calls, [Call::Terminate("patience ran out".into())]);
//! # }
//! ```
//!
//! `Cargo.toml` depends on `hearth-plugin` and has `crate-type = ["cdylib", "rlib"]`.
//! `cargo build --release` builds the library, and `hearth plugin check PATH` tries it.
//! `hearth plugin new NAME` writes all of it. Burn is not built.
//!
//! A plugin may also add transforms, losses, samplers, writers and other parts to recipes: [component].
//!
//! # Use of a plugin
//!
//! A host reads the plugin's [identity] from the file, before any of its code runs, and refuses one
//! that was built for another Hearth, with an error of four lines. Then it loads the library, and
//! never unloads it. For the engine a plugin's handler is the same as a linked one: it is called
//! for the events it subscribes to, in the order of registration. The host evaluates filters that
//! are plain numbers, so an iteration without a subscriber costs nothing. A filter function is
//! called in the plugin.
//!
//! The SDK catches a **panic** and converts it to an error of that handler; [`Handler::on_error`]
//! defines the effect of the error. An invalid option is a [`Fault`] that names its key. The
//! constructor may return a `Fault` too (`Fault::at("epochs", "`epochs` is 0; give 1 or more")`);
//! the error then shows the line of the recipe. **Tensors** are views of host memory, valid until
//! the next call of the host: `cx.host.tensor("image")?`. [`Event::custom`] works in plugins too.
//!
//! # Limits
//!
//! A plugin that is built with `panic = "abort"` is refused. A crash in a plugin's C code ends the
//! program; `hearth plugin check` loads a plugin in a child process. Paths passed to the host must
//! be Unicode. Threads that a handler starts must not keep its context.

pub mod abi;
mod background;
pub mod component;
#[cfg(feature = "described")]
mod described;
mod export;
mod guard;
mod guest;
pub mod identity;
mod options;
mod parameters;
pub mod testkit;
mod view;

pub use background::Work;
#[cfg(feature = "described")]
pub use described::Described;
pub use hearth_engine::{
    Accept, Attachment, Better, CheckpointRequest, Combine, Context, Counter, DType, Event, Filter, Handler,
    HandlerError, Host, HostError, HostTensor, LayerStatistics, LayerValues, Level, Metrics, NamesOf, OnError, Pass,
    Ranks, Scalar, State, When, WhenError,
};
pub use hearth_registry::{Fault, nearest};
pub use options::{NoOptions, OptionInfo, PluginOptions};
pub use parameters::Parameters;
pub use {serde_json, toml};

/// For the macros of this crate and for hosts; plugin authors do not use it.
#[doc(hidden)]
pub mod __private {
    pub use crate::export::{Always, IntoHandler, Perhaps, Plugin, build, header, linked};
    pub use crate::guard::message_of;
    pub use crate::options::{Given, describe};
    pub use crate::view::*;
    pub use abi_stable::library::LibHeader;
}
