//! Finds, checks and loads plugins, and turns each into a [`Handler`](hearth_engine::Handler) that
//! the engine cannot tell from one that is linked in.
//!
//! ```no_run
//! use hearth_plugin_host::{Search, SdkSource, inspect, scaffold};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let search = Search::standard(&[], &[]);
//! println!("{}", search.list()); // hearth plugin list
//! let plugin = search.load("validation")?; // staged, every refusal readable
//! println!("{}", hearth_plugin_host::Info::of(&plugin)); // hearth plugin info
//! let handler = plugin.handler("interval = 2".parse()?)?;
//! # let mut engine = hearth_engine::Engine::new("trainer");
//! engine.add_boxed(handler)?;
//! scaffold("early-stop".as_ref(), "early-stop", &SdkSource::default())?; // hearth plugin new
//! # Ok(()) }
//! ```
//!
//! # Loading, in stages
//!
//! 0. The file is read, not run: is it a whole library ([`inspect`]), whose identity is in it, was
//!    it built for this host? A mismatch is four lines that end in the command that rebuilds it.
//! 1. The library is opened, and a C symbol says how its loader works.
//! 2. A second one holds the identity again, as the loaded code has it.
//! 3. `abi_stable` compares the layout of every type that crosses.
//!
//! Nothing is ever unloaded, and nothing falls back to a linked copy: a plugin that is not found is
//! an error.
//!
//! # What an event costs
//!
//! Filters that are numbers are plain data on this side, so an event nobody asked for costs
//! nothing. A call sends the numbers of the state, and its named parts (metrics, times, curves)
//! only when they changed since the last call. Tensors cross only when they are asked for, as views
//! of host memory.

mod bridge;
mod check;
mod error;
mod file;
mod load;
mod loaded;
mod report;
mod scaffold;
mod search;

pub use check::{check_for_parent, check_here, check_in_child};
pub use error::{Mismatch, PluginError};
pub use file::{Identity, inspect};
pub use hearth_plugin::OptionInfo;
pub use load::{Plugin, load};
pub use report::{Defaults, Entry, Info, List, Report};
pub use scaffold::{ScaffoldError, SdkSource, scaffold};
pub use search::{Origin, Place, Search, user_folder};
