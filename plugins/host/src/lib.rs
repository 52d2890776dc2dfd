//! Finds, checks and loads plugins, and turns each into a [`Handler`](hearth_engine::Handler) that
//! is equivalent to a linked one for the engine.
//!
//! ```no_run
//! use hearth_plugin_host::{Search, SdkSource, Template, scaffold};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let search = Search::standard(&[], &[]);
//! println!("{}", search.list()); // hearth plugin list
//! let plugin = search.load("validation")?; // staged, every refusal readable
//! println!("{}", hearth_plugin_host::Info::of(&plugin)); // hearth plugin info
//! let handler = plugin.handler("interval = 2".parse()?)?;
//! # let mut engine = hearth_engine::Engine::new("trainer");
//! engine.add_boxed(handler)?;
//! scaffold("early-stop".as_ref(), "early-stop", Template::EarlyStop, &SdkSource::default())?; // hearth plugin new
//! # Ok(()) }
//! ```
//!
//! # Loading, in stages
//!
//! 0. The file is read, not run ([`examine`]). It must be an intact library with an identity, built
//!    for this host, with the symbols of a plugin, and no other user may be able to change it. A
//!    mismatch is an error of four lines that ends with the command that rebuilds the plugin. A file
//!    that only a recipe names needs the user's consent ([`allow_plugins`], [`ask_with`]).
//! 1. The library is opened, and a C symbol holds the version of its loader.
//! 2. A second symbol holds the identity again, from the loaded code.
//! 3. `abi_stable` compares the layout of every type that crosses the boundary. A plugin in C has
//!    instead a table of functions that starts with its size: `hearth_plugin.h`, [`HEADER`].
//!
//! Nothing is ever unloaded. The five bundled plugins are also linked into the host: if no file has
//! the name of one, the linked copy is used, by the same functions and without the stages. A file
//! that cannot be loaded is an error; no linked copy silently replaces it.
//!
//! # Isolated plugins
//!
//! [`load_isolated`] loads a plugin in another process (Linux): if that process ends, that is an
//! error of the handler, which is not called again.
//!
//! # The cost of an event
//!
//! The host evaluates filters that are plain numbers, so an event without a subscriber costs
//! nothing. A call sends the numbers of the state; it sends the named parts (metrics, times,
//! curves) only if they changed since the last call. Tensors are passed only on request, as views
//! of host memory.

mod bridge;
mod bundled;
mod c;
mod c_project;
mod check;
mod components;
mod consent;
mod content;
mod error;
mod file;
mod given;
mod install;
#[cfg(target_os = "linux")]
mod isolated;
#[cfg(not(target_os = "linux"))]
#[path = "isolated/absent.rs"]
mod isolated;
mod linked;
mod load;
mod loaded;
mod needs;
mod permitted;
mod report;
mod safety;
mod scaffold;
mod sdk_sources;
mod search;
mod shown;
mod template;
mod vendor;
mod watched;

pub use bundled::BUNDLED;
pub use c::HEADER;
pub use check::{check_for_parent, check_here, check_in_child, check_linked};
pub use components::{ComponentInfo, provide_components};
pub use consent::{Ask, allow_plugins, ask_with, is_allowed, unused_allowances};
pub use content::content_hash;
pub use error::{Mismatch, PluginError};
pub use file::{Identity, examine, inspect};
pub use given::Given;
pub use hearth_plugin::OptionInfo;
pub use hearth_plugin::identity::{ABI_HASH, LOADER_VERSION, RUSTC, SDK_VERSION, TARGET};
pub use install::{InstallError, Installable};
pub use isolated::{isolate_with, serve_isolated};
pub use load::{Plugin, load, load_isolated, load_linked};
pub use needs::Need;
pub use report::{Defaults, Entry, Info, List, Report};
pub use scaffold::{ScaffoldError, SdkSource, library_file, scaffold, update_sdk};
pub use search::{Found, Origin, Place, Search, user_data, user_folder};
pub use shown::{shown, shown_path};
pub use template::Template;
pub use vendor::{VendorError, vendor};
