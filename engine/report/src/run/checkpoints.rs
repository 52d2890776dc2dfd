//! The checkpoints in `checkpoints/`, from the names of the folders and their manifests.

use std::path::Path;

use serde_json::Value;

use super::files::{number, object};
use crate::error::ReportError;

/// A checkpoint that a run kept.
#[derive(Clone, Debug, PartialEq)]
pub struct Checkpoint {
    /// The folder's name.
    pub name: String,
    /// The epoch in which it was written.
    pub epoch: u64,
    /// The number of steps until then.
    pub iteration: u64,
    /// The reason for writing it: `epoch`, `best`, `interrupted`, `final`, ...
    pub tag: String,
    /// The key metric at the time.
    pub value: Option<f64>,
    /// The total size of its files.
    pub bytes: Option<u64>,
    /// Why it cannot be used, in words.
    pub fault: Option<&'static str>,
}

/// Lists the checkpoints of a folder, in the order of the run; none if there is no such folder. Files are
/// compared by length alone. `run`: the run's name, if it has one.
pub fn list(folder: &Path, run: Option<&str>) -> Result<Vec<Checkpoint>, ReportError> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(ReportError::io(folder, error)),
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|error| ReportError::io(folder, error))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some((epoch, iteration, tag)) = parts(&name) else { continue };
        let manifest = object(&entry.path().join("manifest.json"), "").ok().flatten();
        let files = manifest.as_ref().and_then(|manifest| manifest["files"].as_object());
        let bytes = files.map(|files| files.values().filter_map(|file| file["bytes"].as_u64()).sum());
        let value = manifest.as_ref().and_then(|manifest| number(&manifest["value"]));
        let fault = fault(&entry.path(), manifest.as_ref(), run);
        found.push(Checkpoint { name, epoch, iteration, tag, value, bytes, fault });
    }
    found.sort_by(|a, b| (a.iteration, &a.name).cmp(&(b.iteration, &b.name)));
    Ok(found)
}

fn fault(folder: &Path, manifest: Option<&Value>, run: Option<&str>) -> Option<&'static str> {
    let Some(manifest) = manifest else { return Some("without a manifest: not complete") };
    if run.is_some() && manifest["run"].as_str() != run {
        return Some("of another run");
    }
    let length = |name: &str| folder.join(name).metadata().ok().map(|found| found.len());
    let mut files = manifest["files"].as_object().into_iter().flatten();
    let damaged = files.any(|(name, file)| length(name) != file["bytes"].as_u64());
    damaged.then_some("damaged: a file is missing or has another length")
}

/// Epoch, iteration and tag of `epoch=0007-iteration=000123-best`.
fn parts(name: &str) -> Option<(u64, u64, String)> {
    let (epoch, rest) = name.strip_prefix("epoch=")?.split_once("-iteration=")?;
    let (iteration, tag) = rest.split_once('-')?;
    // The name of the second checkpoint of an iteration ends in `~2`.
    let tag = tag.split('~').next().unwrap_or(tag);
    Some((epoch.parse().ok()?, iteration.parse().ok()?, tag.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_checkpoint_and_one_of_another_run_are_marked() {
        let dir = tempfile::tempdir().expect("a folder");
        for (epoch, run, bytes) in [(1, "a", 3), (2, "b", 3), (3, "a", 4)] {
            let folder = dir.path().join(format!("epoch=000{epoch}-iteration=00000{epoch}-epoch"));
            std::fs::create_dir(&folder).expect("made");
            std::fs::write(folder.join("x"), "123").expect("written");
            let manifest = serde_json::json!({ "run": run, "files": { "x": { "bytes": bytes } } });
            std::fs::write(folder.join("manifest.json"), manifest.to_string()).expect("written");
        }
        let faults = |run| list(dir.path(), run).expect("listed").into_iter().map(|one| one.fault).collect::<Vec<_>>();
        let damaged = Some("damaged: a file is missing or has another length");
        assert_eq!(faults(Some("a")), [None, Some("of another run"), damaged]);
        assert_eq!(faults(None), [None, None, damaged]);
    }

    #[test]
    fn names_say_when_and_why() {
        assert_eq!(parts("epoch=0007-iteration=000123-best"), Some((7, 123, "best".into())));
        assert_eq!(parts("epoch=12345-iteration=1234567-my-tag~2"), Some((12345, 1234567, "my-tag".into())));
        assert_eq!([parts(".partial-x"), parts("epoch=a-iteration=1-b"), parts("notes")], [None, None, None]);
    }
}
