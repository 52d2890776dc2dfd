//! The layout of a folder of images next to a folder of labels.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use hearth_files::is_file_entry;
use hearth_io::Parts;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CaseList, Layout, Target, Wants, channels, some, title, with_image, wrong};
use crate::{DataError, Item};

/// The folders of images that are recognized, with those of their labels.
const FOLDERS: [(&str, &[&str]); 3] = [
    ("images", &["labels", "masks", "segmentations"]),
    ("image", &["label", "mask", "segmentation"]),
    ("imagesTr", &["labelsTr"]),
];

/// Suffixes of the label of an image: `p1_seg.nii.gz` of `p1.nii.gz`.
const SUFFIXES: [&str; 7] = ["", "_seg", "_label", "_labels", "_mask", "-seg", "-label"];

/// Endings of volumes and pictures.
const ENDINGS: [&str; 17] = [
    ".seg.nrrd",
    ".nii.gz",
    ".nii",
    ".nrrd",
    ".nhdr",
    ".mha",
    ".mhd",
    ".mgz",
    ".mgh",
    ".hdr.gz",
    ".hdr",
    ".tif",
    ".tiff",
    ".png",
    ".jpg",
    ".jpeg",
    ".bmp",
];

/// A folder with the subfolders `images` and `labels` (or `masks`, `segmentations`; `image` and
/// `label`; `imagesTr` and `labelsTr` without a `dataset.json`). A label has the name of its image, or
/// that name with `_seg`, `_label` or `_mask`. Images named `CASE_0000`, `CASE_0001`, ... are the
/// channels of one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ImageFolders {
    /// The folder of the images, if it has another name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub images: Option<String>,
    /// The folder of the labels, if it has another name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<String>,
}

/// The images of a folder by their names without ending; of two with one name, both.
pub(super) fn volumes(folder: &Path) -> std::io::Result<Vec<(String, PathBuf)>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let lower = name.to_lowercase();
        let end = ENDINGS.iter().find(|end| lower.ends_with(*end));
        if let Some(end) = end.filter(|end| !name.starts_with('.') && name.len() > end.len() && is_file_entry(&path)) {
            found.push((name[..name.len() - end.len()].to_owned(), path));
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// Adds the labels to images of the same names, and sorts the cases. What is left over is named.
pub(super) fn paired(
    list: &mut CaseList,
    images: Vec<Item>,
    labels: Vec<(String, PathBuf)>,
    wants: &Wants,
    at: &Path,
) -> Result<(), DataError> {
    let mut by_name: BTreeMap<String, PathBuf> = BTreeMap::new();
    for (name, path) in labels {
        if let Some(other) = by_name.insert(name.clone(), path) {
            let what = format!("{} and another file are both the label {name}: remove one", other.display());
            return Err(wrong(at, what));
        }
    }
    let wanted = matches!(wants.target, Target::Image { .. });
    let (mut cases, mut without) = (Vec::new(), Vec::new());
    for item in images {
        let label = SUFFIXES.iter().find_map(|suffix| by_name.remove(&format!("{}{suffix}", item.case)));
        match label {
            Some(label) if wanted => cases.push(item.with("label", label)),
            Some(_) => cases.push(item),
            None => {
                without.push(item.case.clone());
                cases.push(item);
            }
        }
    }
    let place = at.display();
    if wanted && !without.is_empty() && without.len() < cases.len() {
        let count = hearth_registry::counted(without.len(), "image");
        tracing::warn!("{place}: {count} without a label, not used for training:\n  {}", some(&without));
    }
    if !by_name.is_empty() {
        let names: Vec<String> = by_name.into_keys().collect();
        let count = hearth_registry::counted(names.len(), "label");
        tracing::warn!("{place}: {count} without an image, not used:\n  {}", some(&names));
    }
    list.sort(cases, wants);
    Ok(())
}

impl ImageFolders {
    /// The folders of images and labels, if they are there and hold images.
    fn folders(&self, path: &Path) -> Option<(PathBuf, PathBuf)> {
        let filled = |name: &str| {
            let folder = path.join(name);
            volumes(&folder).is_ok_and(|found| !found.is_empty()).then_some(folder)
        };
        let pair = |images: &str, labels: &[&str]| {
            let labels = self.labels.as_ref().map_or_else(|| labels.to_vec(), |own| vec![own.as_str()]);
            Some((filled(self.images.as_deref().unwrap_or(images))?, labels.into_iter().find_map(filled)?))
        };
        FOLDERS.iter().find_map(|(images, labels)| pair(images, labels))
    }
}

impl Layout for ImageFolders {
    fn fits(&self, path: &Path) -> bool {
        !path.join("dataset.json").exists() && self.folders(path).is_some()
    }

    fn read(&self, path: &Path, wants: &Wants) -> Result<CaseList, DataError> {
        let own = match &wants.target {
            Target::Image { name: Some(name) } => Self { labels: Some(name.clone()), ..self.clone() },
            _ => self.clone(),
        };
        let Some((images, labels)) = own.folders(path) else {
            let names = FOLDERS.map(|(images, labels)| format!("{images} and {}", labels.join(" or "))).join("; ");
            return Err(wrong(path, format!("no folders of images and labels with files in both; expected {names}")));
        };
        let listed = |folder: &Path| volumes(folder).map_err(|error| wrong(folder, error.to_string()));
        let (items, modalities) = items(&images, listed(&images)?, &wants.images)?;
        let mut list = CaseList { name: title(path), modalities, ..CaseList::default() };
        paired(&mut list, items, listed(&labels)?, wants, path)?;
        Ok(list)
    }
}

/// The images as cases, and the names of their channels.
fn items(
    folder: &Path,
    images: Vec<(String, PathBuf)>,
    wanted: &[String],
) -> Result<(Vec<Item>, Vec<String>), DataError> {
    let numbered = |name: &str| {
        let (case, number) = name.rsplit_once('_')?;
        let digits = number.len() == 4 && number.bytes().all(|byte| byte.is_ascii_digit()) && !case.is_empty();
        digits.then(|| (case.to_owned(), number.to_owned()))
    };
    let several = images.iter().any(|(name, _)| numbered(name).is_some_and(|(_, number)| number != "0000"));
    if !several {
        if let Some(name) = wanted.first() {
            let what = format!("data.images asks for {name:?}, but an image is one file without named channels");
            return Err(wrong(folder, format!("{what}: leave it out")));
        }
        let mut cases: BTreeMap<String, PathBuf> = BTreeMap::new();
        for (name, path) in images {
            let case = numbered(&name).map_or(name, |(case, _)| case);
            if let Some(other) = cases.insert(case.clone(), path) {
                let what = format!("{} and another file are both the image {case}: remove one", other.display());
                return Err(wrong(folder, what));
            }
        }
        return Ok((cases.into_iter().map(|(case, path)| Item::new(case).with("image", path)).collect(), Vec::new()));
    }
    let mut cases: BTreeMap<String, BTreeMap<String, PathBuf>> = BTreeMap::new();
    for (name, path) in images {
        let Some((case, number)) = numbered(&name) else {
            return Err(wrong(folder, format!("{name} has no number of a channel, as CASE_0000 of other images here")));
        };
        cases.entry(case).or_default().insert(number, path);
    }
    let known: Vec<String> = cases.values().next().map(|files| files.keys().cloned().collect()).unwrap_or_default();
    if let Some((case, files)) = cases.iter().find(|(_, files)| !files.keys().eq(&known)) {
        let has: Vec<&str> = files.keys().map(String::as_str).collect();
        let what = format!("{case} has the channels {}, others have {}", has.join(", "), known.join(", "));
        return Err(wrong(folder, what));
    }
    let chosen = channels(&known, wanted).map_err(|what| wrong(folder, what))?;
    let item = |(case, files): (String, BTreeMap<String, PathBuf>)| {
        let files: Vec<PathBuf> = files.into_values().collect();
        let files = match &chosen {
            Some(chosen) => chosen.iter().filter_map(|at| files.get(*at).cloned()).collect(),
            None => files,
        };
        with_image(Item::new(case), "image", Parts::new(files))
    };
    let names = match (&chosen, wanted) {
        (Some(_), wanted) => wanted.to_vec(),
        (None, []) => known.clone(),
        (None, wanted) => wanted.to_vec(),
    };
    Ok((cases.into_iter().map(item).collect(), names))
}

hearth_registry::entry!(dyn Layout => ImageFolders, paper: "", example: "");

#[cfg(test)]
mod tests {
    use super::*;

    fn set(files: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        for file in files {
            let path = folder.path().join(file);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            std::fs::write(path, b"").expect("written");
        }
        folder
    }

    fn label() -> Wants {
        Wants { target: Target::label(), ..Wants::default() }
    }

    #[test]
    fn images_and_labels_of_the_same_names_are_cases() {
        let files = ["images/b.nii.gz", "images/a.nii.gz", "images/c.mha", "labels/a.nii.gz", "labels/b_seg.nrrd"];
        let folder = set(&[&files[..], &["images/notes.txt", "labels/.hidden.nii"]].concat());
        let layout = ImageFolders::default();
        assert!(layout.fits(folder.path()));
        let list = layout.read(folder.path(), &label()).expect("cases");
        let names = |items: &[Item]| items.iter().map(|item| item.case.clone()).collect::<Vec<_>>();
        assert_eq!((names(&list.labelled), names(&list.unlabelled)), (vec!["a".into(), "b".into()], vec!["c".into()]));
        assert!(list.labelled[1].files["label"].ends_with("labels/b_seg.nrrd"));
        // Without a target, all are cases.
        assert_eq!(layout.read(folder.path(), &Wants::default()).expect("cases").labelled.len(), 3);
    }

    #[test]
    fn other_names_are_options_and_numbers_are_channels() {
        let folder = set(&["ct/p_0000.nii", "ct/p_0001.nii", "ct/q_0000.nii", "ct/q_0001.nii", "gt/p.nii", "gt/q.nii"]);
        assert!(!ImageFolders::default().fits(folder.path()));
        let layout = ImageFolders { images: Some("ct".into()), labels: Some("gt".into()) };
        let list = layout.read(folder.path(), &label()).expect("cases");
        assert_eq!((list.labelled.len(), list.modalities), (2, vec!["0000".to_owned(), "0001".to_owned()]));
        assert_eq!(list.labelled[0].parts["image"].files.len(), 2);
        std::fs::remove_file(folder.path().join("ct/q_0001.nii")).expect("removed");
        let error = layout.read(folder.path(), &label()).expect_err("a channel is missing").to_string();
        assert!(error.contains("q has the channels 0000, others have 0000, 0001"), "{error}");
    }

    #[test]
    fn two_files_of_one_name_and_empty_folders_are_refused() {
        let folder = set(&["images/a.nii", "images/a.nrrd", "labels/a.nii"]);
        let error = ImageFolders::default().read(folder.path(), &label()).expect_err("twice").to_string();
        assert!(error.contains("both the image a"), "{error}");
        let folder = set(&["images/a.nii", "labels/notes.txt"]);
        assert!(!ImageFolders::default().fits(folder.path()));
        let error = ImageFolders::default().read(folder.path(), &label()).expect_err("no labels").to_string();
        assert!(error.contains("images and labels or masks"), "{error}");
    }
}
