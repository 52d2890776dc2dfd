//! Files that a command writes; they never replace files of others.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::folders;
use crate::error::{Context, Outcome, RecipeError};

/// The suffix of the record that says where a file came from.
const RECORD: &str = ".hearth.json";

/// The files of one command, claimed before its work begins.
///
/// An existing file is an error, unless `--overwrite` is given and this program wrote it: the
/// record beside it (`NAME.hearth.json`) holds the hash of its bytes. A file that was changed since
/// is never replaced.
pub struct Outputs {
    command: &'static str,
    overwrite: bool,
    claimed: Vec<PathBuf>,
}

impl Outputs {
    /// The claimed files of this command.
    pub fn new(command: &'static str, overwrite: bool) -> Self {
        Self { command, overwrite, claimed: Vec::new() }
    }

    /// Claims a file that will be written.
    pub fn claim(&mut self, path: &Path) -> Outcome {
        let real = real(path);
        if self.claimed.contains(&real) {
            let shown = path.display();
            return Err(RecipeError::new(format!(
                "two results would be written to {shown}; write them into two folders"
            )));
        }
        if path.is_dir() {
            return Err(RecipeError::new(format!("{} is a folder; give a file", path.display())));
        }
        // A link that leads nowhere is somebody's, too.
        if path.symlink_metadata().is_ok() {
            self.check_ours(path)?;
        }
        let record = beside(path);
        if record.symlink_metadata().is_ok() && recorded_sum(path).is_none() {
            let advice = "this program would write there where the result comes from; move it away";
            return Err(RecipeError::new(format!("{} exists, and is no record: {advice}", record.display())));
        }
        self.claimed.push(real);
        Ok(())
    }

    fn check_ours(&self, path: &Path) -> Outcome {
        let shown = path.display();
        let Some(recorded) = recorded_sum(path) else {
            let advice = "give another name or folder; only files that this program wrote can be replaced";
            return Err(RecipeError::new(format!("{shown} exists and would be overwritten: {advice}")));
        };
        if !self.overwrite {
            let advice = "give another name or folder, or add --overwrite to replace it";
            return Err(RecipeError::new(format!("{shown} exists, written by an earlier `hearth`: {advice}")));
        }
        if recorded != sum(path)? {
            let advice = "move it away, or give another name or folder";
            return Err(RecipeError::new(format!("{shown} was changed after this program wrote it: {advice}")));
        }
        Ok(())
    }

    /// Records where a file that is now written came from.
    ///
    /// # Errors
    /// Where the record cannot be written, as on a full disk. The file is then removed: without its
    /// record it would be in the way as somebody else's.
    pub fn record(&self, path: &Path, facts: Value) -> Outcome {
        let recorded = self.write_record(path, facts);
        if recorded.is_err() {
            // One that cannot be removed is named by the error that comes next.
            let _ = std::fs::remove_file(path);
        }
        recorded
    }

    fn write_record(&self, path: &Path, mut facts: Value) -> Outcome {
        facts["hearth"] = env!("CARGO_PKG_VERSION").into();
        facts["command"] = self.command.into();
        facts["blake3"] = sum(path)?.into();
        folders::replace(&beside(path), serde_json::to_string_pretty(&facts)? + "\n")
    }

    /// Writes a whole file that was claimed, and its record.
    pub fn write(&self, path: &Path, content: impl AsRef<[u8]>) -> Outcome {
        folders::replace(path, content)?;
        self.record(path, json!({}))
    }
}

/// The path of a file's record.
fn beside(path: &Path) -> PathBuf {
    let mut name: OsString = path.as_os_str().to_owned();
    name.push(RECORD);
    PathBuf::from(name)
}

/// Whether a file is a record rather than a result.
pub fn is_record(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().ends_with(RECORD))
}

/// What the record of a file says, where it has one.
pub fn record_of(path: &Path) -> Option<Value> {
    recorded(path)
}

/// Removes a result and its record, where there is one.
///
/// # Errors
/// Where it cannot be removed.
pub fn remove_result(path: &Path) -> Outcome {
    for file in [path.to_owned(), beside(path)] {
        match std::fs::remove_file(&file) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(RecipeError::from_error(error).context(format!("cannot remove {}", file.display())));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Whether a file's record says that this command wrote it.
pub fn written_by(path: &Path, command: &str) -> bool {
    recorded(path).is_some_and(|record| record["command"] == command)
}

fn recorded_sum(path: &Path) -> Option<String> {
    recorded(path)?["blake3"].as_str().map(str::to_owned)
}

/// The record of a file.
fn recorded(path: &Path) -> Option<Value> {
    serde_json::from_str(&std::fs::read_to_string(beside(path)).ok()?).ok()
}

/// The BLAKE3 hash of a file.
pub fn sum(path: &Path) -> Outcome<String> {
    let mut hasher = blake3::Hasher::new();
    let read = std::fs::File::open(path).and_then(|mut file| std::io::copy(&mut file, &mut hasher));
    read.while_doing(|| format!("cannot read {}", path.display()))?;
    Ok(hasher.finalize().to_hex().to_string())
}

/// The path with links resolved, as far as it exists.
fn real(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    if let Ok(real) = absolute.canonicalize() {
        return real;
    }
    match (absolute.parent(), absolute.file_name()) {
        (Some(folder), Some(name)) => real(folder).join(name),
        _ => absolute,
    }
}
