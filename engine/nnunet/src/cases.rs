//! The cases of a folder with nnU-Net's file names: `NAME_0000.nii.gz`, `NAME_0001.nii.gz`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use hearth_files::is_file_entry;

use crate::error::{NnunetError, Result};

/// A case: its name and one file per channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// The name, without the channel number.
    pub name: String,
    /// The files, in channel order.
    pub files: Vec<PathBuf>,
}

/// The cases of a folder, and its images that belong to none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listed {
    /// The complete cases, sorted by name.
    pub cases: Vec<Case>,
    /// Images of other names and endings, and the first file of each incomplete case, with the
    /// reason.
    pub refused: Vec<(PathBuf, String)>,
}

impl Listed {
    /// The cases.
    ///
    /// # Errors
    /// The first image that belongs to no complete case.
    pub fn complete(self) -> Result<Vec<Case>> {
        match self.refused.into_iter().next() {
            None => Ok(self.cases),
            Some((path, what)) => Err(NnunetError::File { path, what }),
        }
    }
}

/// Endings of images, which a folder of cases may hold by mistake.
const IMAGES: [&str; 11] =
    [".nii.gz", ".nii", ".nrrd", ".nhdr", ".mha", ".mhd", ".png", ".bmp", ".tif", ".tiff", ".gipl"];

/// The cases of a folder, sorted by name. `channels` is the number of files of each, where it is
/// known.
///
/// # Errors
/// A folder that cannot be read or holds no such file, and an image that belongs to no complete
/// case: nnU-Net notices that only inside the network, or not at all.
pub fn cases(folder: &Path, ending: &str, channels: Option<usize>) -> Result<Vec<Case>> {
    listed(folder, ending, channels)?.complete()
}

/// Lists the complete cases, and separately the images that belong to none.
///
/// # Errors
/// A folder that cannot be read, or has no image by nnU-Net's names.
pub fn listed(folder: &Path, ending: &str, channels: Option<usize>) -> Result<Listed> {
    let io = |source| NnunetError::Io { path: folder.to_owned(), source };
    let mut found: BTreeMap<String, BTreeMap<u32, PathBuf>> = BTreeMap::new();
    let (mut refused, mut unnumbered) = (Vec::new(), 0);
    for entry in fs::read_dir(folder).map_err(io)? {
        let path = entry.map_err(io)?.path();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let stem = name.strip_suffix(ending);
        if let Some((case, number)) = stem.and_then(numbered) {
            found.entry(case.to_owned()).or_default().insert(number, path);
            continue;
        }
        let lower = name.to_lowercase();
        if !is_file_entry(&path) || name.starts_with('.') || !IMAGES.iter().any(|end| lower.ends_with(end)) {
            continue;
        }
        unnumbered += usize::from(stem.is_some());
        let what = match stem {
            Some(stem) => format!("has no number of a channel: expected {stem}_0000{ending}"),
            None => format!("ends differently: expected NAME_0000{ending}"),
        };
        refused.push((path, what));
    }
    if found.is_empty() {
        let names = format!("NAME_0000{ending}");
        let what = match unnumbered {
            0 => format!("there is no image: expected files such as {names}"),
            count => format!("{count} files end in {ending}, but none has the number of a channel: expected {names}"),
        };
        return Err(NnunetError::File { path: folder.to_owned(), what });
    }
    let mut cases = Vec::with_capacity(found.len());
    for (name, files) in found {
        let checked = channels.map_or(Ok(()), |channels| check(&name, &files, channels, ending));
        let mut files: Vec<PathBuf> = files.into_values().collect();
        match checked {
            Ok(()) => cases.push(Case { name, files }),
            Err(what) => refused.push((files.swap_remove(0), what)),
        }
    }
    refused.sort();
    Ok(Listed { cases, refused })
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
        let Listed { cases: found, refused } = listed(folder.path(), ".nii.gz", Some(2)).expect("cases");
        assert_eq!((found.len(), refused.len()), (2, 0));
        touch("c.nii.gz");
        touch("d_0000.nrrd");
        touch("._a_0000.mha");
        touch("e_0001.nii.gz");
        let Listed { cases: found, refused } = listed(folder.path(), ".nii.gz", Some(2)).expect("cases");
        let said: Vec<String> = refused
            .iter()
            .map(|(path, why)| format!("{}: {why}", path.file_name().expect("a name").to_string_lossy()))
            .collect();
        assert_eq!(found.len(), 2);
        assert!(said[0].starts_with("c.nii.gz: ") && said[0].contains("c_0000.nii.gz"), "{said:?}");
        assert!(said[1].starts_with("d_0000.nrrd: ") && said[1].contains("NAME_0000.nii.gz"), "{said:?}");
        assert!(said[2].starts_with("e_0001.nii.gz: ") && said[2].contains("lacks e_0000.nii.gz"), "{said:?}");
        let error = cases(folder.path(), ".nii.gz", Some(2)).expect_err("images of no case").to_string();
        assert!(error.contains("c.nii.gz"), "{error}");
        fs::remove_file(folder.path().join("d_0000.nrrd")).expect("removed");
        touch("plain.nrrd");
        let error = cases(folder.path(), ".nrrd", None).expect_err("no number").to_string();
        assert!(error.contains("none has the number"), "{error}");
    }
}
