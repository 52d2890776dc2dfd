//! Plugins in C, and in languages that can use C: `hearth_plugin.h`. They are loaded in the same
//! stages as plugins in Rust; in the last stage the size of their table replaces `abi_stable`'s
//! layout check.

mod call;
mod component;
mod handler;
mod host;
mod setup;
pub mod table;

use std::ffi::CStr;
use std::path::{Path, PathBuf};

use hearth_engine::Handler;
use hearth_plugin::OptionInfo;
use hearth_plugin::identity;
use hearth_registry::Fault;
use hearth_registry::component::reports;
use libloading::Library;
use serde::Deserialize;

use self::call::CallDesk;
use self::handler::CHandler;
use self::setup::{SetupDesk, resolve};
use self::table::Functions;
use crate::error::PluginError;
use crate::file::Identity;

/// The text of `hearth_plugin.h`.
pub const HEADER: &str = include_str!("../../../c/hearth_plugin.h");
/// `hearth_plugin.py`: the same for Python.
pub const PYTHON: &str = include_str!("../../../c/hearth_plugin.py");
/// The C source that hosts a Python plugin.
pub const PYTHON_SHIM: &str = include_str!("../../../c/python_shim.c");

/// The symbol that holds the identity.
pub const IDENTITY_SYMBOL: &CStr = c"hearth_plugin_identity";
/// The function that returns the table.
pub const MAIN_SYMBOL: &CStr = c"hearth_plugin_main";

/// The functions of a plugin in C.
#[derive(Clone, Debug)]
pub struct CPlugin {
    functions: Functions,
    path: PathBuf,
}

/// One option in the plugin's list.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Listed {
    name: String,
    kind: String,
    #[serde(default)]
    default: Option<String>,
    #[serde(default)]
    required: bool,
    #[serde(default)]
    help: String,
}

impl From<Listed> for OptionInfo {
    fn from(Listed { name, kind, default, required, help }: Listed) -> Self {
        OptionInfo { name, kind, default, required, help }
    }
}

impl CPlugin {
    /// The functions of an opened library, whose identity in the file was accepted.
    pub fn open(library: &'static Library, identity: &Identity, path: &Path) -> Result<Self, PluginError> {
        let error = |why: String| PluginError::Open { name: identity.name.clone(), path: path.to_owned(), why };
        let missing = |symbol: &CStr| identity.lacks(path, &symbol.to_string_lossy());
        // SAFETY: `HEARTH_PLUGIN` makes the record of this name; the same macro made the identity
        // in the file, which was accepted.
        let record = unsafe { library.get::<*const identity::Identity>(IDENTITY_SYMBOL.to_bytes_with_nul()) };
        // SAFETY: the symbol is the address of a record that exists as long as the library, which
        // is never unloaded.
        let record = unsafe { **record.map_err(|_| missing(IDENTITY_SYMBOL))? };
        if record.magic != table::MAGIC || record.loader != identity.loader {
            return Err(error("the identity in its memory is not the one in its file".to_owned()));
        }
        type Main = unsafe extern "C" fn(*const table::Call) -> *const Functions;
        // SAFETY: `hearth_plugin.h` declares the function with this type.
        let main = unsafe { library.get::<Main>(MAIN_SYMBOL.to_bytes_with_nul()) }.map_err(|_| missing(MAIN_SYMBOL))?;
        let mut desk = CallDesk::new(path);
        // SAFETY: the table that is passed has the functions that `hearth_plugin.h` promises, and
        // outlives the call.
        let table = unsafe { main(&desk.table()) };
        if table.is_null() {
            return Err(error(reports(&desk.reason("hearth_plugin_main", 0))));
        }
        // SAFETY: the table begins with its size in every version.
        let size = unsafe { table.cast::<usize>().read() };
        if size < Functions::FIRST {
            let whole = Functions::FIRST;
            let what = format!("its table of functions has {size} bytes, and version 1 of hearth_plugin.h has {whole}");
            return Err(error(format!("{what}, a fault of the plugin\n  fix it: `.size = sizeof(hearth_plugin)`")));
        }
        // SAFETY: it is at least this long; later versions add members at the end.
        let functions = unsafe { Functions::received(table) };
        let handler = functions.create.zip(functions.handle);
        let works = functions.compute.is_some() || functions.call.is_some();
        if handler.is_none() && (functions.components.zip(functions.make).is_none() || !works) {
            let what = "its table has neither `create` and `handle` nor `components`, `make`, and `compute` or `call`";
            return Err(error(format!("{what}, a fault of the plugin")));
        }
        Ok(Self { functions, path: path.to_owned() })
    }

    /// The list of options. The error states what is invalid.
    pub fn options(&self) -> Result<Vec<OptionInfo>, String> {
        let Some(options) = self.functions.options else { return Ok(Vec::new()) };
        let mut desk = CallDesk::new(&self.path);
        // SAFETY: as in `open`.
        let code = unsafe { options(&desk.table()) };
        if code != table::OK {
            return Err(format!("its list of options fails: {}", desk.reason("options", code)));
        }
        let listed: Vec<Listed> = serde_json::from_slice(&desk.bytes)
            .map_err(|e| format!("its list of options is not a JSON list of options: {e}"))?;
        Ok(listed.into_iter().map(OptionInfo::from).collect())
    }

    /// Builds a handler from a recipe's table.
    pub fn handler(&self, name: &str, list: &[OptionInfo], options: toml::Table) -> Result<Box<dyn Handler>, Fault> {
        let mut desk = SetupDesk::new(resolve(list, options)?);
        let mut data = std::ptr::null_mut();
        let Some(create) = self.functions.create else {
            // It has components only.
            return Ok(Box::new(CHandler::new(name, self.functions, &self.path, data, desk)));
        };
        // SAFETY: the table that is passed has the functions that `hearth_plugin.h` promises, and
        // outlives the call, like the variable for the handler.
        let code = unsafe { create(&desk.table(), &mut data) };
        if code != table::OK || desk.fault.is_some() {
            if let (Some(destroy), false) = (self.functions.destroy, data.is_null()) {
                // SAFETY: `create` has just made it, and nothing else refers to it.
                unsafe { destroy(data) };
            }
            let silent = || Fault::new(format!("its `create` returned {code} and did not say why"));
            return Err(desk.fault.take().unwrap_or_else(silent));
        }
        Ok(Box::new(CHandler::new(name, self.functions, &self.path, data, desk)))
    }
}
