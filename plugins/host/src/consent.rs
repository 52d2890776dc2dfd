//! The user's consent to a plugin whose file only a recipe names. A recipe may come from others, and
//! with it a library, whose code would run with the user's rights: it is loaded only if the user has
//! agreed to this content of this file.
//!
//! Consent is `--allow-plugin` ([`allow_plugins`]), a place in a folder of installed plugins, or the
//! answer to a question ([`ask_with`]), which is recorded in the user's data folder.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::error::PluginError;
use crate::file::{Identity, examine};
use crate::linked::linked;
use crate::safety::{check_owned, files_of};
use crate::search::{Origin, Search, user_data};
use crate::shown::shown_path;

/// The largest record of answers that is read, in bytes.
const MAX_RECORD: u64 = 1 << 20;

/// Asks the user whether a plugin may be loaded: its file, and the identity that the file states.
pub type Ask = fn(&Path, &Identity) -> bool;

#[derive(Default)]
struct Consent {
    /// The values of `--allow-plugin`, and whether each was needed.
    words: Vec<(PathBuf, bool)>,
    ask: Option<Ask>,
    /// The answers in this process, by the line of the record.
    answers: HashMap<String, bool>,
}

static CONSENT: Mutex<Option<Consent>> = Mutex::new(None);

/// The state of this process. It stays locked during a question, so that several threads ask once.
fn with<T>(act: impl FnOnce(&mut Consent) -> T) -> T {
    let mut guard: MutexGuard<'_, Option<Consent>> = CONSENT.lock().unwrap_or_else(PoisonError::into_inner);
    act(guard.get_or_insert_default())
}

/// Allows plugins that recipes name, for this process: paths of libraries, or names of plugins.
///
/// # Errors
/// A path without a file.
pub fn allow_plugins(words: &[PathBuf]) -> Result<(), PluginError> {
    for word in words {
        let is_name = word.to_str().is_some_and(|text| !text.contains(['/', '\\', '.']));
        if !is_name && !word.is_file() {
            return Err(PluginError::AllowedMissing { word: word.clone() });
        }
    }
    with(|consent| consent.words.extend(words.iter().map(|word| (word.clone(), false))));
    Ok(())
}

/// The values of [`allow_plugins`] that no plugin of a recipe needed.
pub fn unused_allowances() -> Vec<PathBuf> {
    with(|consent| consent.words.iter().filter(|(_, used)| !used).map(|(word, _)| word.clone()).collect())
}

/// Sets the function that asks the user. Without it, nothing is asked, and the answer is no.
pub fn ask_with(ask: Ask) {
    with(|consent| consent.ask = Some(ask));
}

/// Whether a plugin that a recipe names may be loaded without a question.
pub fn is_allowed(path: &Path, identity: &Identity) -> bool {
    with(|consent| {
        // First, so that the option counts as used.
        consent.is_named(path, identity)
            || is_installed(path)
            || stamp(path).is_ok_and(|stamp| {
                consent.answers.get(&stamp) == Some(&true)
                    || record_file().is_some_and(|file| is_recorded(&file, &stamp))
            })
    })
}

/// Fails if a plugin that a recipe names may not be loaded; asks where that is possible.
pub(crate) fn require(path: &Path) -> Result<(), PluginError> {
    // A library that cannot be loaded is an error before the question.
    let identity = examine(path)?;
    if is_allowed(path, &identity) {
        return Ok(());
    }
    let refused = || PluginError::NotAllowed { name: identity.name.clone(), path: path.to_owned() };
    let stamp = stamp(path).map_err(|source| PluginError::File { path: path.to_owned(), source })?;
    let agreed = with(|consent| {
        let ask = consent.ask;
        *consent.answers.entry(stamp.clone()).or_insert_with(|| {
            let agreed = ask.is_some_and(|ask| ask(path, &identity));
            if agreed {
                let place = record_file().ok_or_else(|| std::io::Error::other("HOME is not set"));
                if let Err(why) = place.and_then(|file| record(&file, &stamp)) {
                    tracing::warn!("the answer is not recorded, and the question will be repeated: {why}");
                }
            }
            agreed
        })
    });
    if agreed { Ok(()) } else { Err(refused()) }
}

impl Consent {
    /// Whether `--allow-plugin` names the file or the plugin.
    fn is_named(&mut self, path: &Path, identity: &Identity) -> bool {
        let full = path.canonicalize().ok();
        let mut named = false;
        for (word, used) in &mut self.words {
            if word.to_str() == Some(&identity.name) || (full.is_some() && word.canonicalize().ok() == full) {
                (*used, named) = (true, true);
            }
        }
        named
    }
}

/// Whether the file is in a place that is searched without a recipe: the user or an installation put
/// it there.
fn is_installed(path: &Path) -> bool {
    let Ok(full) = path.canonicalize() else { return false };
    let search = Search::standard(&[], &[]);
    let places = search.places().iter().filter(|place| place.origin != Origin::BuiltIn);
    let mut places = places.filter_map(|place| place.path.canonicalize().ok());
    places.any(|place| place == full || full.parent() == Some(&*place))
}

/// The line of the record for a plugin: the hash of its files and of the libraries that it brings, and its
/// path.
fn stamp(path: &Path) -> std::io::Result<String> {
    let full = path.canonicalize()?;
    let mut hasher = blake3::Hasher::new();
    // Also the libraries that it brings: they run with it.
    let linked = linked(path)?.into_iter().map(|linked| linked.path);
    for file in files_of(&full).into_iter().chain(linked) {
        hasher.update(blake3::Hasher::new().update_reader(File::open(file)?)?.finalize().as_bytes());
    }
    // Quoted and escaped, so that it is one line.
    Ok(format!("{} {full:?}", hasher.finalize().to_hex()))
}

/// The file of recorded answers.
fn record_file() -> Option<PathBuf> {
    user_data("allowed-plugins.txt")
}

/// Whether the record has the line. A record that others can change is not used.
fn is_recorded(file: &Path, stamp: &str) -> bool {
    if !file.is_file() {
        return false;
    }
    if let Err(why) = check_owned(file) {
        tracing::warn!("{why}");
        return false;
    }
    let mut text = String::new();
    let read = File::open(file).and_then(|file| file.take(MAX_RECORD).read_to_string(&mut text));
    if let Err(why) = read {
        tracing::warn!("{}: {why}; recorded answers are not used", shown_path(file));
        return false;
    }
    text.lines().any(|line| line == stamp)
}

/// Adds a line to the record.
fn record(file: &Path, stamp: &str) -> std::io::Result<()> {
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder)?;
    }
    // One write, so that two programs do not mix their lines.
    File::options().create(true).append(true).open(file)?.write_all(format!("{stamp}\n").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_about_this_content_of_this_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::write(&path, text).expect("a file");
            path
        };
        let at = |path: &Path| stamp(path).expect("a file");
        let library = write(&format!("{}mine.so", std::env::consts::DLL_PREFIX), "code");
        let file = folder.path().join("new/record.txt");
        let first = at(&library);
        assert!(!is_recorded(&file, &first));
        record(&file, "another line").expect("a record");
        record(&file, &first).expect("a record");
        assert!(is_recorded(&file, &first) && !is_recorded(&file, &first[1..]));
        assert!(!is_recorded(&file, &at(&write("libmoved.so", "code"))), "another place");
        // A Python plugin is its modules, too.
        for (name, text) in [("mine.py", "x = 1"), ("mine.py", "x = 2"), ("hearth_plugin.py", "y = 1")] {
            let before = at(&library);
            write(name, text);
            assert_ne!(before, at(&library), "{name}: {text}");
            assert!(!is_recorded(&file, &at(&library)));
        }
        fs::remove_file(folder.path().join("mine.py")).expect("a file");
        assert_eq!(at(&library), first, "without the first module, the second is not of the plugin");
        write(&format!("{}mine.so", std::env::consts::DLL_PREFIX), "code of others");
        assert!(!is_recorded(&file, &at(&library)));
    }

    #[cfg(unix)]
    #[test]
    fn a_record_that_others_can_change_is_not_used() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("record.txt");
        record(&file, "yes").expect("a record");
        assert!(is_recorded(&file, "yes"));
        fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).expect("ours");
        assert!(!is_recorded(&file, "yes"));
    }
}
