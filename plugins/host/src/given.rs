//! The value of `--plugin`: a library, a folder of libraries, or the name of a known plugin.

use std::path::{Path, PathBuf};

use hearth_registry::nearest;

use crate::error::PluginError;
use crate::search::Search;

/// The value of one `--plugin`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Given<'a> {
    /// A file or folder.
    Path(&'a Path),
    /// The name of a plugin: bundled, installed, or in another searched place.
    Name(&'a str),
}

impl<'a> Given<'a> {
    /// An existing file or folder is a path; any other UTF-8 text is a name.
    pub fn of(word: &'a Path) -> Self {
        match word.to_str() {
            Some(name) if !word.exists() => Given::Name(name),
            _ => Given::Path(word),
        }
    }

    /// The paths among several values.
    pub fn paths(given: &[PathBuf]) -> impl Iterator<Item = &Path> {
        given.iter().filter_map(|word| match Given::of(word) {
            Given::Path(path) => Some(path),
            Given::Name(_) => None,
        })
    }

    /// Checks that each file, folder or plugin exists.
    ///
    /// # Errors
    /// If a value is neither a file, nor a folder, nor the name of a known plugin.
    pub fn check(given: &[PathBuf]) -> Result<(), PluginError> {
        if given.iter().all(|word| word.exists()) {
            return Ok(());
        }
        let known = Search::standard(given, &[]).list().names();
        let is_known = |word: &Path| known.iter().any(|known| word.to_str() == Some(known));
        let Some(word) = given.iter().find(|word| !word.exists() && !is_known(word)) else { return Ok(()) };
        let word = word.display().to_string();
        let meant = nearest(&word, known.iter().map(String::as_str));
        let meant = meant.map_or_else(String::new, |near| format!(" (did you mean {near}?)"));
        Err(PluginError::NotGiven { word, meant, known: known.join(", ") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_paths_where_something_is_there_and_names_elsewhere() {
        let folder = tempfile::tempdir().expect("a folder");
        let given = [folder.path().to_owned(), PathBuf::from("nvtx"), folder.path().join("none.so")];
        assert_eq!(Given::of(&given[0]), Given::Path(folder.path()));
        assert_eq!(Given::of(&given[1]), Given::Name("nvtx"));
        assert_eq!(Given::paths(&given).count(), 1);
        assert!(Given::check(&given[..2]).is_ok());
        let error = Given::check(&given).expect_err("no such file").to_string();
        for part in ["none.so: there is no such file or folder", "checkpoint, ensemble, nvtx, stats, validation"] {
            assert!(error.contains(part), "{part:?} is not in {error}");
        }
        let error = Given::check(&[PathBuf::from("nvtz")]).expect_err("no such plugin").to_string();
        assert!(error.contains("did you mean nvtx?"), "{error}");
    }
}
