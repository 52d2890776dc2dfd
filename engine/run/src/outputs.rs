//! Output files of a command; they never replace files of other programs.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::folders;
use hearth_recipe::{Context, Outcome, RecipeError};

/// The suffix of the record of a file's origin.
const RECORD: &str = ".hearth.json";

/// The folder of records, next to the files.
const FOLDER: &str = "records";

/// The key of a record with the source of the result.
pub const KEY: &str = "result_of";

/// The files of one command, claimed before its work begins.
///
/// An existing file is an error, unless `--overwrite` is given and this program wrote it: the
/// record (`records/NAME.hearth.json`) holds the hash of its bytes. A file that was changed
/// since then is never replaced. An unfinished file of a process that was killed while writing is
/// replaced without `--overwrite`, because its record marks it as unfinished.
pub struct Outputs {
    command: &'static str,
    overwrite: bool,
    beside: bool,
    /// Each with the image that it comes from, if it comes from one.
    claimed: HashMap<PathBuf, Option<PathBuf>>,
    /// The folders in which a file could be made.
    writable: HashSet<PathBuf>,
}

impl Outputs {
    /// Starts without claimed files.
    pub fn new(command: &'static str, overwrite: bool) -> Self {
        Self { command, overwrite, beside: false, claimed: HashMap::new(), writable: HashSet::new() }
    }

    /// Writes records beside their files (`NAME.hearth.json`) instead of into a folder.
    #[must_use]
    pub fn records_beside(self, beside: bool) -> Self {
        Self { beside, ..self }
    }

    /// Where the record of a file is written.
    fn record(&self, path: &Path) -> PathBuf {
        if self.beside { beside(path) } else { in_folder(path) }
    }

    /// Claims a file that will be written.
    pub fn claim(&mut self, path: &Path) -> Outcome {
        self.claim_for(path, None, &Value::Null)
    }

    /// Claims one of several files that come from `key`, of which `image` is the image. If an earlier call was
    /// killed among them, its files are replaced without `--overwrite`.
    pub fn claim_for(&mut self, path: &Path, image: Option<&Path>, key: &Value) -> Outcome {
        let real = real(path);
        if let Some(other) = self.claimed.get(&real) {
            let of = match (other, image) {
                (Some(a), Some(b)) => format!(", of {} and {}", a.display(), b.display()),
                _ => String::new(),
            };
            return Err(RecipeError::new(format!(
                "two results would be written to {}{of}; write them into two folders",
                path.display()
            )));
        }
        if path.is_dir() {
            return Err(RecipeError::new(format!("{} is a folder; give a file", path.display())));
        }
        let recorded = recorded(path);
        // A broken link may belong to the user as well.
        if path.symlink_metadata().is_ok() {
            self.check_ours(path, recorded.as_ref(), key)?;
        }
        let record = self.record(path);
        let is_ours = recorded.as_ref().is_some_and(|recorded| is_unfinished(recorded) || sum_in(recorded).is_some());
        if record.symlink_metadata().is_ok() && !is_ours {
            let advice = "this program would write there where the result comes from; move it away";
            return Err(RecipeError::new(format!("{} exists, and is no record: {advice}", record.display())));
        }
        if let Some(folder) = record.parent().filter(|folder| folder.symlink_metadata().is_ok_and(|at| !at.is_dir())) {
            let advice = "this program would write records there; move it away, or give --records-beside";
            return Err(RecipeError::new(format!("{} exists, and is no folder: {advice}", folder.display())));
        }
        // A device is written to directly.
        if path.symlink_metadata().map_or(true, |at| at.is_file()) {
            self.check_folder(&real)?;
        }
        self.claimed.insert(real, image.map(Path::to_owned));
        Ok(())
    }

    /// Fails if no file can be made in the folder of a file, or in the one above it that exists: not only
    /// after the work.
    fn check_folder(&mut self, file: &Path) -> Outcome {
        let Some(folder) = file.ancestors().skip(1).find(|folder| folder.is_dir()) else { return Ok(()) };
        if self.writable.insert(folder.to_owned()) {
            let doing = || format!("cannot write into the folder {}", folder.display());
            hearth_files::check_can_write(folder).while_doing(doing)?;
        }
        Ok(())
    }

    /// Checks a file that was not claimed, since it was not known before the work.
    ///
    /// # Errors
    /// An existing file that this command may not replace.
    pub fn check(&self, path: &Path, key: &Value) -> Outcome {
        match path.symlink_metadata() {
            Ok(_) => self.check_ours(path, recorded(path).as_ref(), key),
            Err(_) => Ok(()),
        }
    }

    fn check_ours(&self, path: &Path, recorded: Option<&Value>, key: &Value) -> Outcome {
        let shown = path.display();
        if recorded.is_some_and(is_unfinished) {
            return Ok(());
        }
        let Some((record, recorded)) = recorded.and_then(|record| Some((record, sum_in(record)?))) else {
            let advice = "give another name or folder; only files that this program wrote can be replaced";
            return Err(RecipeError::new(format!("{shown} exists and would be overwritten: {advice}")));
        };
        if !self.overwrite && !is_of(record, key) {
            let advice = "give another name or folder, or add --overwrite to replace it";
            return Err(RecipeError::new(format!("{shown} exists, written by an earlier `hearth`: {advice}")));
        }
        if recorded != sum(path)? {
            let advice = "move it away, or give another name or folder";
            return Err(RecipeError::new(format!("{shown} was changed after this program wrote it: {advice}")));
        }
        Ok(())
    }

    /// Writes a claimed file, and the record of its origin. Until then the record marks the file as
    /// being written, so that a killed process leaves nothing that blocks the next one.
    ///
    /// # Errors
    /// The error of `write`; the record of an earlier file then stays. Or an error of writing the
    /// record, such as a full disk: a finished file is then removed.
    pub fn make<T, E: From<RecipeError>>(
        &self,
        path: &Path,
        facts: Value,
        write: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        let record = self.record(path);
        let before = hearth_files::read(&record).ok();
        if let Err(error) = self.write_record(path, json!({ UNFINISHED: true })) {
            if before.is_none() {
                remove_record(&record);
            }
            return Err(error.into());
        }
        let made = match write() {
            Ok(made) => made,
            Err(error) => {
                // The first error is the one to report.
                match before {
                    Some(bytes) => drop(folders::replace(&record, bytes)),
                    None => remove_record(&record),
                }
                return Err(error);
            }
        };
        let recorded = sum(path).and_then(|sum| {
            let mut facts = facts;
            facts[SUM] = sum.into();
            self.write_record(path, facts)
        });
        if recorded.is_err() {
            // The next error names a file that cannot be removed.
            let _ = std::fs::remove_file(path);
            remove_record(&record);
        }
        recorded?;
        // Of an earlier call that wrote its records to the other place.
        let other = if self.beside { in_folder(path) } else { beside(path) };
        if other.is_file() {
            remove_record(&other);
        }
        Ok(made)
    }

    fn write_record(&self, path: &Path, mut facts: Value) -> Outcome {
        facts["hearth"] = env!("CARGO_PKG_VERSION").into();
        facts["command"] = self.command.into();
        let record = self.record(path);
        if let Some(folder) = record.parent().filter(|_| !self.beside) {
            std::fs::create_dir_all(folder).while_doing(|| format!("cannot make the folder {}", folder.display()))?;
        }
        folders::replace(&record, serde_json::to_string_pretty(&facts)? + "\n")
    }

    /// Writes a whole claimed file, and its record.
    pub fn write(&self, path: &Path, content: impl AsRef<[u8]>) -> Outcome {
        self.make(path, json!({}), || folders::replace(path, content))
    }
}

/// The key of a record whose file is being written.
const UNFINISHED: &str = "unfinished";
/// The key of the hash of the file's bytes in a record.
const SUM: &str = "blake3";

/// The path of a file's record in the folder of records.
fn in_folder(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(RECORD);
    path.parent().unwrap_or(Path::new("")).join(FOLDER).join(name)
}

/// Removes a record, and its folder if it was the last one. The file that it belongs to tells more.
fn remove_record(record: &Path) {
    let _ = std::fs::remove_file(record);
    if let Some(folder) = record.parent().filter(|folder| folder.file_name().is_some_and(|name| name == FOLDER)) {
        // Fails for a folder with other records.
        let _ = std::fs::remove_dir(folder);
    }
}

/// The path of a file's record next to it, as earlier versions wrote it.
fn beside(path: &Path) -> PathBuf {
    let mut name: OsString = path.as_os_str().to_owned();
    name.push(RECORD);
    PathBuf::from(name)
}

/// Whether a file is a record rather than a result.
pub fn is_record(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().ends_with(RECORD))
}

/// The content of a file's record, if it has one.
pub fn record_of(path: &Path) -> Option<Value> {
    recorded(path)
}

/// Removes a result and its record, if there is one.
///
/// # Errors
/// A file that cannot be removed.
pub fn remove_result(path: &Path) -> Outcome {
    for file in [path.to_owned(), beside(path), in_folder(path)] {
        match std::fs::remove_file(&file) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(RecipeError::from_error(error).context(format!("cannot remove {}", file.display())));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Whether a file's record shows that this command wrote it or was killed while writing it.
pub fn written_by(path: &Path, command: &str) -> bool {
    recorded(path).is_some_and(|record| record["command"] == command)
}

/// Whether a file exists that this command has written completely.
pub fn is_whole(path: &Path, command: &str) -> bool {
    let whole = |record: Value| record["command"] == command && sum_in(&record).is_some();
    path.is_file() && recorded(path).is_some_and(whole)
}

/// Whether a file's record shows that it comes from `key`.
pub fn is_made_of(path: &Path, key: &Value) -> bool {
    recorded(path).is_some_and(|record| is_of(&record, key))
}

fn is_of(record: &Value, key: &Value) -> bool {
    !key.is_null() && record[KEY] == *key
}

fn is_unfinished(record: &Value) -> bool {
    record[UNFINISHED] == true
}

/// The hash of the file in its record.
fn sum_in(record: &Value) -> Option<&str> {
    record[SUM].as_str()
}

/// The record of a file.
fn recorded(path: &Path) -> Option<Value> {
    let text = hearth_files::read_to_string(in_folder(path)).or_else(|_| hearth_files::read_to_string(beside(path)));
    serde_json::from_str(&text.ok()?).ok()
}

/// Computes the BLAKE3 hash of a file.
pub fn sum(path: &Path) -> Outcome<String> {
    let mut hasher = blake3::Hasher::new();
    let read = hearth_files::open(path).and_then(|mut file| std::io::copy(&mut file, &mut hasher));
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The state after a process was killed while writing a file: it does not block the next one.
    #[test]
    fn what_was_being_written_is_replaced() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("labels.nii.gz");
        let key = json!({ "image": 1 });
        let killed = |outputs: &Outputs, content: Option<&str>| {
            let write = || {
                if let Some(content) = content {
                    std::fs::write(&path, content).expect("written");
                }
                panic!("killed")
            };
            let call = || outputs.make::<(), RecipeError>(&path, json!({ KEY: &key }), write);
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(call)).expect_err("it was killed");
            assert!(written_by(&path, "predict") && !is_whole(&path, "predict") && !is_made_of(&path, &key));
        };
        for content in [None, Some("new")] {
            let mut outputs = Outputs::new("predict", false);
            outputs.claim(&path).expect("nothing is in the way");
            killed(&outputs, content);
        }
        let mut outputs = Outputs::new("predict", false);
        outputs.claim(&path).expect("it was not finished");
        outputs
            .make::<_, RecipeError>(&path, json!({ KEY: &key }), || Ok(std::fs::write(&path, "whole")?))
            .expect("made");
        assert!(is_whole(&path, "predict") && is_made_of(&path, &key) && !is_made_of(&path, &json!({ "image": 2 })));
        // Now complete: replaced only by a result from the same source, or with `--overwrite`.
        let refused = Outputs::new("predict", false).claim(&path).expect_err("it is there").to_string();
        assert!(refused.contains("add --overwrite"), "{refused}");
        Outputs::new("predict", false).claim_for(&path, None, &key).expect("of the same");
        let mut outputs = Outputs::new("predict", true);
        outputs.claim(&path).expect("asked for");
        // Killed before or after the old file was replaced.
        for content in [None, Some("newer")] {
            killed(&outputs, content);
            Outputs::new("predict", false).claim(&path).expect("it was not finished");
        }
    }

    #[test]
    fn what_cannot_be_written_leaves_all_as_it_was() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("labels.nii.gz");
        let outputs = Outputs::new("predict", true);
        let fail = || {
            outputs.make(&path, json!({}), || Err::<(), _>(RecipeError::new("no"))).expect_err("it fails").to_string()
        };
        assert_eq!(fail(), "no");
        assert_eq!(std::fs::read_dir(dir.path()).expect("it").count(), 0);
        outputs.write(&path, "old").expect("written");
        let record = std::fs::read(in_folder(&path)).expect("a record");
        assert_eq!(fail(), "no");
        assert_eq!(std::fs::read(in_folder(&path)).expect("a record"), record);
        assert!(is_whole(&path, "predict"));
    }

    /// Records of an earlier version, or of a call with the option, are found and replaced.
    #[test]
    fn a_record_is_in_one_place() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("labels.nii.gz");
        let places = || [beside(&path).is_file(), in_folder(&path).is_file(), dir.path().join(FOLDER).exists()];
        let asked = [(true, [true, false, false]), (false, [false, true, true]), (true, [true, false, false])];
        for (beside, expected) in asked {
            let mut outputs = Outputs::new("predict", true).records_beside(beside);
            outputs.claim(&path).expect("ours");
            outputs.write(&path, "labels").expect("written");
            assert_eq!(places(), expected, "{beside}");
            assert!(is_whole(&path, "predict"));
        }
        remove_result(&path).expect("removed");
        assert_eq!(places(), [false; 3]);
        // A file of the user with the name of the folder.
        std::fs::write(dir.path().join(FOLDER), "mine").expect("written");
        let error = Outputs::new("predict", true).claim(&path).expect_err("it is no folder").to_string();
        assert!(error.contains("records exists, and is no folder"), "{error}");
    }
}
