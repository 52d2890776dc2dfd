//! A folder of pictures.

use std::path::{Path, PathBuf};

use hearth_dicom::is_dicom_file;
use hearth_files::is_file_entry;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::image_folders::volumes;
use super::{CaseList, Layout, Target, Wants, title, wrong};
use crate::{DataError, Item};

/// A folder in which each picture (`.png`, `.jpg`, `.jpeg`, `.bmp`) is a case, in the order of
/// their names, for example MedNIST's folders. There is no target, so this is for `Generation`;
/// labels need a table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Pictures {}

/// Suffixes of pictures, in lower case.
const SUFFIXES: [&str; 4] = ["png", "jpg", "jpeg", "bmp"];

fn is_picture(path: &Path) -> bool {
    let hidden = path.file_name().is_none_or(|name| name.to_string_lossy().starts_with('.'));
    let suffix = path.extension().map(|suffix| suffix.to_string_lossy().to_lowercase());
    !hidden && suffix.is_some_and(|suffix| SUFFIXES.contains(&suffix.as_str())) && is_file_entry(path)
}

fn pictures(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let paths = std::fs::read_dir(folder)?.map(|entry| Ok(entry?.path()));
    let mut paths: Vec<PathBuf> =
        paths.filter(|path| path.as_ref().map_or(true, |path| is_picture(path))).collect::<std::io::Result<_>>()?;
    paths.sort_unstable();
    Ok(paths)
}

impl Layout for Pictures {
    /// Pictures alone: next to volumes, or to slices of DICOM, they are views of those.
    fn fits(&self, path: &Path) -> bool {
        let Ok(entries) = std::fs::read_dir(path) else { return false };
        let files = entries.flatten().map(|entry| entry.path());
        let (pictures, others): (Vec<_>, Vec<_>) = files.partition(|file| is_picture(file));
        let volumes = || volumes(path).is_ok_and(|found| found.len() > pictures.len());
        !pictures.is_empty() && !volumes() && !others.iter().any(|file| file.is_file() && is_dicom_file(file))
    }

    fn read(&self, path: &Path, wants: &Wants) -> Result<CaseList, DataError> {
        if wants.target != Target::Nothing {
            let what = "a folder of pictures has no labels: give a table (.csv) with the columns image and label";
            return Err(wrong(path, what.to_owned()));
        }
        if let Some(name) = wants.images.first() {
            return Err(wrong(
                path,
                format!("data.images asks for {name:?}, but a picture is a case of its own: leave it out"),
            ));
        }
        let found = pictures(path).map_err(|error| wrong(path, error.to_string()))?;
        if found.is_empty() {
            return Err(wrong(
                path,
                format!("no pictures in this folder; expected files ending in .{}", SUFFIXES.join(", .")),
            ));
        }
        let case = |file: &PathBuf| {
            let name = file.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
            Item::new(name).with("image", file)
        };
        let labelled = found.iter().map(case).collect();
        Ok(CaseList { name: title(path), labelled, ..CaseList::default() })
    }
}

hearth_registry::entry!(dyn Layout => Pictures, paper: "", example: "");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_are_cases_in_the_order_of_their_names_and_other_files_are_none() {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["b.PNG", "a.jpeg", ".hidden.png", "notes.txt"] {
            std::fs::write(folder.path().join(name), b"").expect("written");
        }
        let layout = Pictures::default();
        assert!(layout.fits(folder.path()));
        let cases = layout.read(folder.path(), &Wants::default()).expect("cases").labelled;
        assert_eq!(cases.iter().map(|case| case.case.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        let labels = Wants { target: Target::label(), ..Wants::default() };
        let error = layout.read(folder.path(), &labels).expect_err("no labels").to_string();
        assert!(error.contains("table"), "{error}");
        let mut slice = vec![0; 128];
        slice.extend(b"DICM");
        for (name, content) in [("volume.nii.gz", &b""[..]), ("slice", &slice)] {
            std::fs::write(folder.path().join(name), content).expect("written");
            assert!(!layout.fits(folder.path()), "{name}");
            std::fs::remove_file(folder.path().join(name)).expect("removed");
        }
        let empty = tempfile::tempdir().expect("a folder");
        assert!(!layout.fits(empty.path()));
        assert!(layout.read(empty.path(), &Wants::default()).expect_err("empty").to_string().contains(".png"));
    }
}
