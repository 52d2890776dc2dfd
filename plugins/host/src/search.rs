//! The search path of plugins: [`Search`].

use std::env;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Once;

use hearth_plugin::abi::Linked;
use hearth_registry::{explained, nearest};
use serde::Serialize;

use crate::bundled::BUNDLED;
use crate::consent;
use crate::error::PluginError;
use crate::file::{Identity, examine, inspect};
use crate::given::Given;
use crate::load::{Plugin, load, load_linked};
use crate::report::{Entry, List};
use crate::shown::shown_path;

/// The origin of a search place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// `--plugin PATH`.
    Given,
    /// The variable `HEARTH_PLUGIN_PATH`.
    Environment,
    /// The recipe.
    Recipe,
    /// The user's data folder.
    User,
    /// The folder of the program, and `lib/hearth/plugins` of its installation.
    Beside,
    /// Linked into the program: used if no file has the name.
    BuiltIn,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Origin::Given => "--plugin",
            Origin::Environment => "HEARTH_PLUGIN_PATH",
            Origin::Recipe => "recipe",
            Origin::User => "user's plugins",
            Origin::Beside => "program's folder",
            Origin::BuiltIn => "built in",
        })
    }
}

/// A library, a folder of libraries, or the program itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Place {
    /// The origin.
    pub origin: Origin,
    /// The file or folder; the program for [`Origin::BuiltIn`].
    pub path: PathBuf,
}

/// A plugin that was found, but not loaded yet.
#[derive(Clone)]
pub enum Found {
    /// A library.
    File {
        /// The file.
        path: PathBuf,
        /// The origin of the place in which it was found.
        origin: Origin,
    },
    /// A plugin that is linked into the program.
    BuiltIn(&'static Linked),
}

impl fmt::Debug for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Found::File { path, origin } => f.debug_struct("File").field("path", path).field("origin", origin).finish(),
            Found::BuiltIn(linked) => f.debug_tuple("BuiltIn").field(&Identity::of(linked.identity).name).finish(),
        }
    }
}

impl Found {
    /// The file, unless the plugin is linked into the program.
    pub fn file(&self) -> Option<&Path> {
        match self {
            Found::File { path, .. } => Some(path),
            Found::BuiltIn(_) => None,
        }
    }

    /// Where the file was found; `None` if the plugin is linked into the program.
    pub fn origin(&self) -> Option<Origin> {
        match self {
            Found::File { origin, .. } => Some(*origin),
            Found::BuiltIn(_) => None,
        }
    }

    /// The plugin's identity. None of its code runs.
    ///
    /// # Errors
    /// As [`examine`].
    pub fn identity(&self) -> Result<Identity, PluginError> {
        match self {
            Found::File { path, .. } => examine(path),
            Found::BuiltIn(linked) => Ok(Identity::of(linked.identity)),
        }
    }

    /// Fails if only a recipe names the file, and the user has not agreed to it.
    ///
    /// # Errors
    /// [`PluginError::NotAllowed`], and as [`examine`].
    pub(crate) fn require_consent(&self) -> Result<(), PluginError> {
        match self {
            Found::File { path, origin: Origin::Recipe } => consent::require(path),
            Found::File { .. } | Found::BuiltIn(_) => Ok(()),
        }
    }

    /// Loads the plugin.
    ///
    /// # Errors
    /// As [`load`]; [`PluginError::NotAllowed`] for a file that only a recipe names.
    pub fn load(&self) -> Result<Plugin, PluginError> {
        self.require_consent()?;
        match self {
            Found::File { path, .. } => load(path),
            Found::BuiltIn(linked) => load_linked(linked),
        }
    }
}

/// Places in the order they are searched. The first plugin of a name hides the others.
///
/// ```no_run
/// # fn main() -> Result<(), hearth_plugin_host::PluginError> {
/// let search = hearth_plugin_host::Search::standard(&[], &[]);
/// println!("{}", search.list());
/// let handler = search.load("checkpoint")?.handler("keep_last = 2".parse().unwrap())?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Search {
    places: Vec<Place>,
}

impl Search {
    /// A search path without places; add some with [`Search::with`].
    pub fn empty() -> Self {
        Self::default()
    }

    /// The standard order: the given paths (`--plugin`, [`Given::paths`]), the recipe's paths,
    /// `HEARTH_PLUGIN_PATH`, the user's data folder, the program's folder and installation, and last
    /// the plugins that are linked into the program.
    ///
    /// Warns, once per process, about invalid entries of `HEARTH_PLUGIN_PATH`.
    pub fn standard(given: &[PathBuf], recipe: &[PathBuf]) -> Self {
        let variable = env::var_os("HEARTH_PLUGIN_PATH");
        let program = env::current_exe().ok();
        let mut search = Self::ordered(given, variable.as_deref(), recipe, user_folder(), program.as_deref());
        search.extend(Origin::BuiltIn, [program.unwrap_or_else(|| PathBuf::from("hearth"))]);
        static TOLD: Once = Once::new();
        TOLD.call_once(|| search.idle().iter().for_each(|why| tracing::warn!("{why}")));
        search
    }

    /// The invalid entries of `HEARTH_PLUGIN_PATH`: a line for each place that is missing, or has
    /// no plugin.
    pub fn idle(&self) -> Vec<String> {
        let named = self.places.iter().filter(|place| place.origin == Origin::Environment);
        named
            .filter_map(|place| {
                let files = libraries(place);
                let why = if !place.path.exists() {
                    "it does not exist".to_owned()
                } else if files.is_empty() {
                    format!("it holds no file called {}*{}", env::consts::DLL_PREFIX, env::consts::DLL_SUFFIX)
                } else {
                    // Of several files, one that is a plugin is sufficient.
                    let mut refused = None;
                    for file in files {
                        refused = Some(inspect(&file).err()?);
                    }
                    refused?.to_string()
                };
                Some(format!("HEARTH_PLUGIN_PATH names {}, where no plugin is found: {why}", shown_path(&place.path)))
            })
            .collect()
    }

    fn ordered(
        given: &[PathBuf],
        variable: Option<&OsStr>,
        recipe: &[PathBuf],
        user: Option<PathBuf>,
        program: Option<&Path>,
    ) -> Self {
        let mut search = Self::empty();
        search.extend(Origin::Given, Given::paths(given).map(Path::to_owned));
        search.extend(Origin::Recipe, recipe.iter().cloned());
        let variable = variable.map(env::split_paths).into_iter().flatten();
        search.extend(Origin::Environment, variable.filter(|path| !path.as_os_str().is_empty()));
        search.extend(Origin::User, user);
        if let Some(folder) = program.and_then(Path::parent) {
            // In cargo's target folder, `deps` has the latest build; the copy above it may be
            // older.
            let deps = Some(folder.join("deps")).filter(|deps| deps.is_dir());
            // An installation: PREFIX/bin/hearth, PREFIX/lib/hearth/plugins.
            let installed =
                folder.parent().map(|prefix| prefix.join("lib/hearth/plugins")).filter(|path| path.is_dir());
            search.extend(Origin::Beside, deps.into_iter().chain([folder.to_owned()]).chain(installed));
        }
        search
    }

    /// Adds a place after the others.
    pub fn with(mut self, origin: Origin, path: impl Into<PathBuf>) -> Self {
        self.extend(origin, [path.into()]);
        self
    }

    fn extend(&mut self, origin: Origin, paths: impl IntoIterator<Item = PathBuf>) {
        self.places.extend(paths.into_iter().map(|path| Place { origin, path }));
    }

    /// The places, in order.
    pub fn places(&self) -> &[Place] {
        &self.places
    }

    /// Finds the first plugin of this name, without running its code.
    ///
    /// # Errors
    /// If no plugin has this name: the message lists the searched places and their plugins. A library with
    /// the plugin's file name that cannot be read is an error too: no later one silently replaces
    /// it.
    pub fn find(&self, name: &str) -> Result<Found, PluginError> {
        for place in &self.places {
            if place.origin == Origin::BuiltIn {
                let linked = BUNDLED.iter().find(|linked| Identity::of(linked.identity).name == name);
                if let Some(linked) = linked {
                    return Ok(Found::BuiltIn(linked));
                }
                continue;
            }
            let mut files = libraries(place);
            files.sort_by_key(|file| !named(file, name));
            for file in files {
                match inspect(&file) {
                    Ok(identity) if identity.name == name => {
                        return Ok(Found::File { path: file, origin: place.origin });
                    }
                    Ok(_) => {}
                    // The folder of a program may contain any libraries; in other places every
                    // error counts.
                    Err(PluginError::NotAPlugin { .. }) if place.origin != Origin::Given => {}
                    Err(error) if place.origin == Origin::Given || named(&file, name) => return Err(error),
                    Err(_) => {}
                }
            }
        }
        let list = self.list();
        let known = list.entries.iter().filter_map(|entry| Some(entry.identity.as_ref()?.name.as_str()));
        let near = nearest(name, known);
        // `EarlyStop` is a handler, and MONAI's `StatsHandler` the plugin `stats`.
        let elsewhere = explained("plugin", name).filter(|_| !near.is_some_and(|near| near.eq_ignore_ascii_case(name)));
        let near = near.map_or_else(String::new, |name| format!(" (did you mean `{name}`?)"));
        let meant = elsewhere.map_or(near, |meaning| format!(": {meaning}"));
        let looked = self.places.iter().map(|place| format!("\n  {}", list.describe(place))).collect();
        Err(PluginError::NotFound { name: name.to_owned(), meant, looked })
    }

    /// Finds and loads the plugin of this name.
    ///
    /// # Errors
    /// As [`Search::find`] and [`load`].
    pub fn load(&self, name: &str) -> Result<Plugin, PluginError> {
        self.find(name)?.load()
    }

    /// Lists every library in every place: its identity or the reason why it cannot be loaded, and
    /// the plugin that hides it. None of their code runs.
    pub fn list(&self) -> List {
        let mut entries: Vec<Entry> = Vec::new();
        for place in &self.places {
            let built_in = if place.origin == Origin::BuiltIn { &BUNDLED[..] } else { &[] };
            for linked in built_in {
                let identity = Identity::of(linked.identity);
                let first = entries.iter().find(|entry| entry.name() == Some(&identity.name));
                let hidden_by = first.and_then(|entry| entry.path.clone());
                entries.push(Entry {
                    place: place.clone(),
                    path: None,
                    identity: Some(identity),
                    problem: None,
                    hidden_by,
                });
            }
            for path in libraries(place) {
                let inspected = inspect(&path);
                // The folder of a program may contain any libraries.
                if place.origin == Origin::Beside && matches!(inspected, Err(PluginError::NotAPlugin { .. })) {
                    continue;
                }
                let (identity, problem) = match inspected {
                    Ok(identity) => {
                        let problem = examine(&path).err().map(|error| match error {
                            PluginError::Mismatch(mismatch) => mismatch.why,
                            other => other.to_string(),
                        });
                        (Some(identity), problem)
                    }
                    Err(error) => (None, Some(error.to_string())),
                };
                let name = identity.as_ref().map(|identity| identity.name.as_str());
                let first = entries.iter().find(|entry| name.is_some() && entry.name() == name);
                let hidden_by = first.and_then(|entry| entry.path.clone());
                entries.push(Entry { place: place.clone(), path: Some(path), identity, problem, hidden_by });
            }
        }
        List { places: self.places.clone(), entries }
    }
}

/// Whether a file has the name of this plugin's library: `libNAME.so`, `libhearth_NAME.so`.
fn named(file: &Path, plugin: &str) -> bool {
    let stem = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let stem = stem.strip_prefix(env::consts::DLL_PREFIX).unwrap_or(stem);
    let plugin = plugin.replace('-', "_");
    stem == plugin || stem.strip_prefix("hearth_") == Some(&plugin)
}

/// The libraries of a place: the file itself, or those in the folder, by name. A given file may
/// have any name.
fn libraries(place: &Place) -> Vec<PathBuf> {
    if place.origin == Origin::BuiltIn {
        return Vec::new();
    }
    if !place.path.is_dir() {
        let named = place.origin == Origin::Given || place.path.exists();
        return if named { vec![place.path.clone()] } else { Vec::new() };
    }
    let Ok(folder) = std::fs::read_dir(&place.path) else { return Vec::new() };
    let mut files = folder
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.file_name().and_then(|name| name.to_str()).is_some_and(is_library_name))
        .filter(|path| path.is_file())
        .collect::<Vec<_>>();
    files.sort_unstable();
    files
}

/// Whether a file has the name of a library on this system. Names that end in a hash belong to
/// cargo's procedural macros.
fn is_library_name(name: &str) -> bool {
    let Some(stem) = name.strip_prefix(env::consts::DLL_PREFIX).and_then(|n| n.strip_suffix(env::consts::DLL_SUFFIX))
    else {
        return false;
    };
    let hash = stem.rsplit_once('-').map_or("", |(_, end)| end);
    !(hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// The user's folder of plugins: `$XDG_DATA_HOME/hearth/plugins` and its equivalents on other
/// systems.
pub fn user_folder() -> Option<PathBuf> {
    user_data("plugins")
}

/// A folder of the user's data for `hearth`, such as `plugins` or `models`.
pub fn user_data(name: &str) -> Option<PathBuf> {
    user_data_from(name, |variable| env::var_os(variable))
}

fn user_data_from(name: &str, variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    // A relative path would depend on the working folder.
    let absolute = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let data = if cfg!(windows) {
        absolute("APPDATA")
    } else if cfg!(target_vendor = "apple") {
        absolute("HOME").map(|home| home.join("Library/Application Support"))
    } else {
        absolute("XDG_DATA_HOME").or_else(|| absolute("HOME").map(|home| home.join(".local/share")))
    };
    data.map(|data| data.join("hearth").join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_libraries_are_looked_at() {
        let name = |stem: &str| format!("{}{stem}{}", env::consts::DLL_PREFIX, env::consts::DLL_SUFFIX);
        assert!(is_library_name(&name("hearth_stats")));
        assert!(is_library_name(&name("my-plugin")));
        assert!(!is_library_name(&name("serde_derive-0123456789abcdef")));
        assert!(!is_library_name("hearth_stats.txt"));
        assert!(named(Path::new(&name("hearth_early_stop")), "early-stop"));
        assert!(named(Path::new(&name("early_stop")), "early-stop"));
        assert!(!named(Path::new(&name("early")), "early-stop"));
    }

    #[test]
    fn the_order_is_that_of_the_places() {
        let folder = tempfile::tempdir().expect("a folder");
        let bin = folder.path().join("bin");
        let program = bin.join("hearth");
        let given = folder.path().join("given");
        std::fs::create_dir_all(&given).expect("a folder");
        let list = env::join_paths(["/env/a", "", "/env/b"]).expect("no colon in them");
        let order = || {
            let user = Some("/user".into());
            let search =
                Search::ordered(std::slice::from_ref(&given), Some(&list), &["/recipe".into()], user, Some(&program));
            search.places().iter().map(|place| (place.origin, place.path.clone())).collect::<Vec<_>>()
        };
        let mut expected = vec![
            (Origin::Given, given.clone()),
            (Origin::Recipe, "/recipe".into()),
            (Origin::Environment, "/env/a".into()),
            (Origin::Environment, "/env/b".into()),
            (Origin::User, "/user".into()),
            (Origin::Beside, bin.clone()),
        ];
        assert_eq!(order(), expected);
        std::fs::create_dir_all(bin.join("deps")).expect("a folder");
        expected.insert(5, (Origin::Beside, bin.join("deps")));
        assert_eq!(order(), expected);
        let installed = folder.path().join("lib/hearth/plugins");
        std::fs::create_dir_all(&installed).expect("a folder");
        expected.push((Origin::Beside, installed));
        assert_eq!(order(), expected);
        assert!(Search::ordered(&[], None, &[], None, None).places().is_empty());
    }

    #[cfg(all(unix, not(target_vendor = "apple")))]
    #[test]
    fn the_user_has_a_folder() {
        let folder = |set: &[(&str, &str)]| {
            user_data_from("plugins", |name| {
                set.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value))
            })
        };
        let home = ("HOME", "/home/a");
        assert_eq!(folder(&[home]), Some("/home/a/.local/share/hearth/plugins".into()));
        assert_eq!(folder(&[home, ("XDG_DATA_HOME", "/data")]), Some("/data/hearth/plugins".into()));
        assert_eq!(folder(&[home, ("XDG_DATA_HOME", "data")]), Some("/home/a/.local/share/hearth/plugins".into()));
        assert_eq!(folder(&[]), None);
    }
}
