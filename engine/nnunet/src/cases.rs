//! The cases of a folder with nnU-Net's file names: `NAME_0000.nii.gz`, `NAME_0001.nii.gz`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{NnunetError, Result};

/// A case: its name and one file per channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// The name, without the channel number.
    pub name: String,
    /// The files, in channel order.
    pub files: Vec<PathBuf>,
}

/// The cases of a folder, sorted by name. `channels` is the number of files of each case, if known.
///
/// # Errors
/// A folder that cannot be read or holds no such file, or a case with missing channels, which
/// nnU-Net notices only inside the network, or not at all.
pub fn cases(folder: &Path, ending: &str, channels: Option<usize>) -> Result<Vec<Case>> {
    let io = |source| NnunetError::Io { path: folder.to_owned(), source };
    let mut found: BTreeMap<String, BTreeMap<u32, PathBuf>> = BTreeMap::new();
    let mut others = 0;
    for entry in fs::read_dir(folder).map_err(io)? {
        let path = entry.map_err(io)?.path();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let Some(stem) = name.strip_suffix(ending) else { continue };
        match numbered(stem) {
            Some((name, number)) => {
                found.entry(name.to_owned()).or_default().insert(number, path);
            }
            None => others += 1,
        }
    }
    let file = |what: String| NnunetError::File { path: folder.to_owned(), what };
    if found.is_empty() {
        let names = format!("NAME_0000{ending}");
        let what = match others {
            0 => format!("there is no image: expected files such as {names}"),
            _ => format!("{others} files end in {ending}, but none has the number of a channel: expected {names}"),
        };
        return Err(file(what));
    }
    let mut all = Vec::with_capacity(found.len());
    for (name, files) in found {
        if let Some(channels) = channels {
            check(&name, &files, channels, ending).map_err(file)?;
        }
        all.push(Case { name, files: files.into_values().collect() });
    }
    Ok(all)
}

/// Splits `NAME_0000` into name and number.
fn numbered(stem: &str) -> Option<(&str, u32)> {
    let (name, number) = stem.rsplit_once('_')?;
    let digits = number.len() == 4 && number.bytes().all(|byte| byte.is_ascii_digit());
    (digits && !name.is_empty()).then(|| Some((name, number.parse().ok()?)))?
}

fn check(name: &str, files: &BTreeMap<u32, PathBuf>, channels: usize, ending: &str) -> std::result::Result<(), String> {
    let file = |number: u32| format!("{name}_{number:04}{ending}");
    if let Some(number) = (0..channels as u32).find(|number| !files.contains_key(number)) {
        return Err(format!("case {name} lacks {}: the model takes {channels} channels", file(number)));
    }
    match files.keys().find(|number| **number as usize >= channels) {
        Some(number) => Err(format!("case {name} has {}, but the model takes {channels} channels", file(*number))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_gathered_by_case_and_missing_ones_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let touch = |name: &str| fs::write(folder.path().join(name), "").expect("written");
        for name in ["b_1_0000.nii.gz", "b_1_0001.nii.gz", "a_0001.nii.gz", "a_0000.nii.gz", "notes.txt"] {
            touch(name);
        }
        let found = cases(folder.path(), ".nii.gz", Some(2)).expect("two cases");
        assert_eq!(found.iter().map(|case| case.name.as_str()).collect::<Vec<_>>(), ["a", "b_1"]);
        assert!(found[0].files[1].ends_with("a_0001.nii.gz"));
        let error = cases(folder.path(), ".nii.gz", Some(3)).expect_err("two of three").to_string();
        assert!(error.contains("case a lacks a_0002.nii.gz"), "{error}");
        let error = cases(folder.path(), ".nii.gz", Some(1)).expect_err("one too many").to_string();
        assert!(error.contains("a_0001.nii.gz") && error.contains("1 channels"), "{error}");
        let error = cases(folder.path(), ".nrrd", None).expect_err("none").to_string();
        assert!(error.contains("NAME_0000.nrrd"), "{error}");
        touch("plain.nrrd");
        let error = cases(folder.path(), ".nrrd", None).expect_err("no number").to_string();
        assert!(error.contains("none has the number"), "{error}");
    }
}
