//! Loads a plugin in stages. Each stage has its own error.

use std::error::Error as _;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use abi_stable::StableAbi;
use abi_stable::abi_stability::abi_checking::check_layout_compatibility;
use abi_stable::library::{AbiHeaderRef, LibHeader};
use abi_stable::std_types::{RStr, RString};
use hearth_engine::Handler;
use hearth_plugin::__private::receive_fault;
use hearth_plugin::OptionInfo;
use hearth_plugin::abi::{AbiOption, Linked, PluginRoot_Ref};
use hearth_plugin::identity::{self, ABI_HASH, IDENTITY_SYMBOL, LOADER_SYMBOL, LOADER_VERSION, ROOT_SYMBOL};
use hearth_registry::Fault;
use hearth_registry::component::{Component, ComponentKind};
use libloading::Library;

use crate::c::CPlugin;
use crate::components::{self, ComponentInfo};
use crate::content::content_hash;
use crate::error::PluginError;
use crate::file::{Identity, examine};
use crate::isolated::Apart;
use crate::loaded::Loaded;
use crate::permitted::permitted;
use crate::report::Info;
use crate::search::Found;
use crate::watched::{Name, Watched, WatchedComponent};

/// A loaded plugin. The library stays loaded until the process ends.
#[derive(Clone)]
pub struct Plugin {
    path: Option<PathBuf>,
    /// The hash of its files, if it has any.
    hash: Option<String>,
    identity: Identity,
    name: Name,
    options: Vec<OptionInfo>,
    components: Vec<ComponentInfo>,
    root: Root,
}

/// The functions of a plugin.
#[derive(Clone)]
enum Root {
    Rust(PluginRoot_Ref),
    C(CPlugin),
    Apart(Apart),
}

impl fmt::Debug for Plugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, identity, options, .. } = self;
        f.debug_struct("Plugin")
            .field("path", path)
            .field("identity", identity)
            .field("options", options)
            .finish_non_exhaustive()
    }
}

/// Loads a plugin from its file.
///
/// A file that is damaged, not a plugin, or built for another Hearth is refused before any of its
/// code runs. Then the library is opened, its loader version and identity are read through its
/// symbols, and `abi_stable` compares the layout of every type that crosses the boundary. The
/// library is never unloaded. If the library's initialisers crash, this process ends too:
/// [`check_in_child`](crate::check_in_child) loads it in a child process.
///
/// # Errors
/// Each stage has its own error: see [`PluginError`].
pub fn load(path: &Path) -> Result<Plugin, PluginError> {
    let identity = examine(path)?;
    let open_error = |why: String| PluginError::Open { name: identity.name.clone(), path: path.to_owned(), why };
    // The operating system would search for a bare file name instead of using the working folder.
    let full = path.canonicalize().map_err(|source| PluginError::File { path: path.to_owned(), source })?;
    // SAFETY: opening a library runs its initialisers. The user chose this file, and its identity
    // is that of a plugin for this host. It is never closed, so nothing from it can dangle.
    let library: &'static Library = Name::new(&identity.name)
        .call(|| unsafe { open(&full) })
        .map(|library| Box::leak(Box::new(library)) as _)
        .map_err(|e| open_error(reason(&e)))?;

    if identity.header.is_some() {
        let root = CPlugin::open(library, &identity, &full)?;
        return Plugin::new(Some(path.to_owned()), identity, Root::C(root));
    }
    let symbol = |prefix: &str| format!("{prefix}{}", identity.module);
    // SAFETY: `export_plugin!` makes the symbols of these names with these types; the same macro
    // made the identity in the file, which was checked above.
    let (loader, record) = unsafe {
        let loader = library.get::<*const u32>(symbol(LOADER_SYMBOL)).map_err(|e| open_error(reason(&e)))?;
        let loader = **loader;
        if loader != LOADER_VERSION {
            return Err(identity.mismatch(path, format!("its loader version is {loader}, not {LOADER_VERSION}")));
        }
        let record = library.get::<*const identity::Identity>(symbol(IDENTITY_SYMBOL));
        (loader, **record.map_err(|e| open_error(reason(&e)))?)
    };
    if (record.loader, record.abi_hash) != (loader, identity.abi_hash) {
        return Err(open_error("the identity in its memory is not the one in its file".to_owned()));
    }
    // SAFETY: the symbol is a static `LibHeader`; abi_stable reads such a symbol as a reference to
    // its header, whose first bytes it checks before it uses the rest.
    let header = unsafe { library.get::<AbiHeaderRef>(symbol(ROOT_SYMBOL)).map(|header| *header) };
    let root = header
        .map_err(|e| open_error(reason(&e)))?
        .upgrade()
        .map_err(|error| error.to_string())
        .and_then(|header| if identity.abi_hash == ABI_HASH { root_of(header) } else { root_of_older(header) })
        .map_err(|error| layout_error(&identity, path, &error))?;

    let plugin = Plugin::new(Some(path.to_owned()), identity, Root::Rust(root))?;
    tracing::debug!("loaded plugin {} from {}", plugin.identity, path.display());
    Ok(plugin)
}

/// Loads a plugin that is linked into this program. It has the same SDK, so no check is needed.
///
/// # Errors
/// If it cannot list its options.
pub fn load_linked(linked: &'static Linked) -> Result<Plugin, PluginError> {
    let identity = Identity::of(linked.identity);
    tracing::debug!("plugin {identity} is the one that is linked into the program");
    Plugin::new(None, identity, Root::Rust((linked.root)()))
}

/// Loads a plugin in separate processes, one for each of its handlers and components: a crash, an exit or
/// a hang disables the handler, and the run continues; of a component it is an error with case and step.
/// `limit` is the time for an event or a call of a component, without the time of requests to the host. The
/// program must have called [`isolate_with`](crate::isolate_with).
///
/// # Errors
/// As [`load`], and if no process can be started; always on systems other than Linux.
pub fn load_isolated(found: &Found, limit: Duration) -> Result<Plugin, PluginError> {
    found.require_consent()?;
    let (apart, Info { path, identity, options, components, .. }) = Apart::open(found, limit)?;
    let hash = hash_of(path.as_deref())?;
    let name = Name::new(&identity.name);
    Ok(Plugin { path, hash, identity, name, options, components, root: Root::Apart(apart) })
}

/// The hash of a plugin's files; `None` without a file.
fn hash_of(path: Option<&Path>) -> Result<Option<String>, PluginError> {
    let hash = |path: &Path| content_hash(path).map_err(|source| PluginError::File { path: path.to_owned(), source });
    path.map(hash).transpose()
}

/// The system's error text; libloading's own is only "dlopen failed".
fn reason(error: &libloading::Error) -> String {
    error.source().map_or_else(|| error.to_string(), ToString::to_string)
}

/// The functions of a plugin of this version of the interface, after comparing all layouts.
fn root_of(header: &LibHeader) -> Result<PluginRoot_Ref, String> {
    header.init_root_module::<PluginRoot_Ref>().map_err(|error| error.to_string())
}

/// The functions of a plugin of an older version, which has fewer methods and functions. abi_stable
/// accepts interfaces with more than is expected, so the check is reversed: this host must have
/// everything that the plugin expects. Missing functions of the plugin are `None` for this host.
fn root_of_older(header: &LibHeader) -> Result<PluginRoot_Ref, String> {
    let expected = header.layout().ok_or("it has no description of its interface")?;
    let here = <PluginRoot_Ref as StableAbi>::LAYOUT;
    check_layout_compatibility(expected, here).map_err(|error| error.to_string())?;
    // SAFETY: the check above has compared every layout that the plugin uses with that of this
    // host. They differ only in the number of methods and functions, of which this host has more;
    // an access to a missing function of the root module checks the number that the plugin states.
    let root = unsafe { header.init_root_module_with_unchecked_layout::<PluginRoot_Ref>() };
    root.map_err(|error| error.to_string())
}

/// abi_stable's explanation of a layout is very long, so it goes to the debug log.
fn layout_error(identity: &Identity, path: &Path, error: &str) -> PluginError {
    tracing::debug!("{error}");
    identity.mismatch(path, "the layout of its interface differs from this host's".to_owned())
}

/// Opens a library and resolves all its symbols immediately, so that a missing one is an error and
/// not a crash later.
#[cfg(unix)]
unsafe fn open(path: &Path) -> Result<Library, libloading::Error> {
    use libloading::os::unix::{Library as Unix, RTLD_LOCAL, RTLD_NOW};
    // SAFETY: the caller's responsibility.
    unsafe { Unix::open(Some(path), RTLD_NOW | RTLD_LOCAL) }.map(Library::from)
}

/// Opens a library.
#[cfg(not(unix))]
unsafe fn open(path: &Path) -> Result<Library, libloading::Error> {
    // SAFETY: the caller's responsibility.
    unsafe { Library::new(path) }
}

impl Plugin {
    fn new(path: Option<PathBuf>, identity: Identity, root: Root) -> Result<Self, PluginError> {
        let name = Name::new(&identity.name);
        let plugin_error = |why: String| PluginError::Plugin { name: identity.name.clone(), why };
        let options = name.call(|| match &root {
            Root::Rust(root) => rust_options(*root).map_err(|why| plugin_error(why.into_string())),
            Root::C(root) => root.options().map_err(plugin_error),
            Root::Apart(_) => Ok(Vec::new()),
        })?;
        let components = name.call(|| match &root {
            Root::Rust(root) => rust_components(*root).map_err(|why| plugin_error(why.into_string())),
            Root::C(root) => root.components().map_err(plugin_error),
            Root::Apart(_) => Ok(Vec::new()),
        })?;
        let hash = hash_of(path.as_deref())?;
        Ok(Self { path, hash, options, components, root, identity, name })
    }

    /// The plugin's identity.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The plugin's file; `None` for a plugin that is linked into the program.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// The hash of the plugin's files ([`content_hash`](crate::content_hash)); `None` for a plugin
    /// that is linked into the program.
    pub fn hash(&self) -> Option<&str> {
        self.hash.as_deref()
    }

    /// The plugin's options.
    pub fn options(&self) -> &[OptionInfo] {
        &self.options
    }

    /// The components that it adds to recipes.
    pub fn components(&self) -> &[ComponentInfo] {
        &self.components
    }

    /// Builds a component from the recipe's table of options.
    ///
    /// # Errors
    /// If no component has this kind and name, or an option is unknown, missing, of another type or
    /// refused.
    pub fn component(
        &self,
        kind: ComponentKind,
        name: &str,
        options: toml::Table,
    ) -> Result<Arc<dyn Component>, Fault> {
        self.component_of(&[kind], name, options).map(|(_, component)| component)
    }

    /// Builds a component that has one of several kinds.
    ///
    /// # Errors
    /// As [`component`](Self::component).
    pub fn component_of(
        &self,
        kinds: &[ComponentKind],
        name: &str,
        options: toml::Table,
    ) -> Result<(ComponentKind, Arc<dyn Component>), Fault> {
        let kind = components::find(self, kinds, name)?;
        let made = self.name.call(|| self.any_component(name, options))?;
        // A component in a process of its own cannot harm this one.
        Ok(match self.root {
            Root::Apart(_) => (kind, made),
            Root::Rust(_) | Root::C(_) => (kind, Arc::new(WatchedComponent::new(self.name, made))),
        })
    }

    fn any_component(&self, name: &str, options: toml::Table) -> Result<Arc<dyn Component>, Fault> {
        // Authors rebuild a plugin without a new version.
        let hash = self.hash.as_deref().map_or_else(String::new, |hash| format!(" {hash}"));
        let version = format!("{} {}{hash}", self.identity.name, self.identity.version);
        let made = match &self.root {
            Root::C(root) => {
                let info = self.components.iter().find(|info| info.name == name);
                let list = info.map_or(&[][..], |info| &info.options);
                return root.component(name, list, options, version);
            }
            Root::Rust(root) => root.make(),
            Root::Apart(apart) => return apart.component(name, &options, version),
        };
        let make =
            made.ok_or_else(|| Fault::at("name", format!("plugin `{}` has no components", self.identity.name)))?;
        let text =
            toml::to_string(&options).map_err(|e| Fault::new(format!("its options cannot be passed on: {e}")))?;
        let raw = make(RStr::from_str(name), RStr::from_str(&text)).into_result().map_err(receive_fault)?;
        Ok(Arc::new(components::Loaded { raw, version }))
    }

    /// Builds a handler from the recipe's table of options. The handler can only make requests of
    /// the host that the plugin declares: see [`Need`](crate::Need).
    ///
    /// # Errors
    /// If an option is unknown, missing or of another type, or the plugin refuses it:
    /// [`PluginError::Options`] has its key. A panic is such an error without a key.
    pub fn handler(&self, options: toml::Table) -> Result<Box<dyn Handler>, PluginError> {
        let handler = self.name.call(|| self.any_handler(options))?;
        // A handler in a process of its own cannot harm this one.
        let handler: Box<dyn Handler> = match self.root {
            Root::Apart(_) => handler,
            Root::Rust(_) | Root::C(_) => Box::new(Watched::new(self.name, handler)),
        };
        Ok(permitted(handler, &self.identity))
    }

    fn any_handler(&self, options: toml::Table) -> Result<Box<dyn Handler>, PluginError> {
        let name = || self.identity.name.clone();
        let error = |why: String| PluginError::Plugin { name: name(), why };
        let refused = |fault| PluginError::Options { name: name(), fault: Box::new(fault) };
        let root = match &self.root {
            Root::Rust(root) => root,
            Root::C(root) => return root.handler(&self.identity.name, &self.options, options).map_err(refused),
            Root::Apart(apart) => return apart.handler(&options),
        };
        let text = toml::to_string(&options).map_err(|e| error(format!("its options cannot be passed on: {e}")))?;
        let made = root.create()(RStr::from_str(&text));
        let raw = made.into_result().map_err(|fault| refused(receive_fault(fault)))?;
        Ok(Box::new(Loaded::new(raw).map_err(error)?))
    }
}

/// The options of a plugin in Rust.
fn rust_options(root: PluginRoot_Ref) -> Result<Vec<OptionInfo>, RString> {
    let options = root.options()().into_result()?;
    Ok(options.into_iter().map(option_info).collect())
}

/// An option received from the plugin.
pub(crate) fn option_info(option: AbiOption) -> OptionInfo {
    OptionInfo {
        name: option.name.into_string(),
        kind: option.kind.into_string(),
        default: option.default.map(RString::into_string).into(),
        required: option.required,
        help: option.help.into_string(),
    }
}

/// The components of a plugin in Rust; empty for an older interface without components.
fn rust_components(root: PluginRoot_Ref) -> Result<Vec<ComponentInfo>, RString> {
    let Some(components) = root.components() else { return Ok(Vec::new()) };
    let listed = components().into_result()?;
    Ok(listed.into_iter().filter_map(ComponentInfo::received).collect())
}
