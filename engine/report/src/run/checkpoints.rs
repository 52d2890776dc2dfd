//! The checkpoints in `checkpoints/`, from the names of the folders and their manifests.

use std::path::Path;

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
    /// Whether it has a manifest, which is written last.
    pub complete: bool,
}

/// Lists the checkpoints of a folder, in the order of the run; none if there is no such folder. Hashes
/// are not checked.
pub fn list(folder: &Path) -> Result<Vec<Checkpoint>, ReportError> {
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
        found.push(Checkpoint { name, epoch, iteration, tag, value, bytes, complete: manifest.is_some() });
    }
    found.sort_by(|a, b| (a.iteration, &a.name).cmp(&(b.iteration, &b.name)));
    Ok(found)
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
    fn names_say_when_and_why() {
        assert_eq!(parts("epoch=0007-iteration=000123-best"), Some((7, 123, "best".into())));
        assert_eq!(parts("epoch=12345-iteration=1234567-my-tag~2"), Some((12345, 1234567, "my-tag".into())));
        assert_eq!([parts(".partial-x"), parts("epoch=a-iteration=1-b"), parts("notes")], [None, None, None]);
    }
}
