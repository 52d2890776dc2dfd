//! Which folders `hearth plan` takes, and what to say of another.

use std::path::{Path, PathBuf};

use crate::error::Failure;

/// What it takes.
const TAKES: &str = "hearth plan takes a data set in nnU-Net's raw layout (dataset.json, imagesTr/CASE_0000.nii.gz, \
                     labelsTr/CASE.nii.gz), or its folder in nnUNet_preprocessed (dataset.json, gt_segmentations, \
                     nnUNetPlans.json)";

/// The most folders that are named.
const NAMED: usize = 4;

/// Why a folder is neither, if it is neither: what it is instead, as far as its files say that.
pub(super) fn foreign(folder: &Path) -> Option<Failure> {
    let what = what_it_is(folder)?;
    Some(Failure::new(format!("{}: {what}; {TAKES}", folder.display())))
}

fn what_it_is(folder: &Path) -> Option<String> {
    if !folder.exists() {
        return Some("there is no such folder".to_owned());
    }
    if !folder.is_dir() {
        return Some("this is a file".to_owned());
    }
    let list = folder.join("dataset.json");
    if list.is_file() {
        // One that cannot be read is named with its fault where it is read.
        let text = std::fs::read_to_string(&list).ok()?;
        let raw: serde_json::Value = serde_json::from_str(&text).ok()?;
        let decathlon = raw.get("file_ending").is_none() && raw.get("training").is_some_and(|list| list.is_array());
        return decathlon.then(|| {
            "this is a data set of the Decathlon, which nnU-Net's nnUNetv2_convert_MSD_dataset turns into its layout \
             (hearth train takes it as it is)"
                .to_owned()
        });
    }
    if folder.join("plans.json").is_file() || folder.join("fold_0").is_dir() {
        return Some("this is a trained model, with which hearth predict predicts".to_owned());
    }
    let sets = data_sets(folder);
    if let [first, ..] = &sets[..] {
        let listed: Vec<String> = sets.iter().take(NAMED).map(|set| set.display().to_string()).collect();
        let more = if sets.len() > NAMED { ", ..." } else { "" };
        let what = format!("this folder holds data sets ({}{more}): give one of them", listed.join(", "));
        return Some(if sets.len() == 1 { format!("the data set is {}: give that", first.display()) } else { what });
    }
    Some("it has no dataset.json".to_owned())
}

/// The folders in a folder that have a `dataset.json`, by name; not hidden ones, which are somebody's copies.
fn data_sets(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let entries = entries.filter(|entry| !entry.file_name().as_encoded_bytes().starts_with(b"."));
    let mut sets: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(|path| is_set(path)).collect();
    sets.sort_unstable();
    sets
}

fn is_set(folder: &Path) -> bool {
    folder.join("dataset.json").is_file()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_folder_is_instead_is_told() {
        let dir = tempfile::tempdir().expect("a folder");
        let reported = |name: &str| foreign(&dir.path().join(name)).map(|failure| failure.line());
        let write = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            std::fs::write(path, text).expect("written");
        };
        write("some.txt", "");
        write("empty/notes.txt", "");
        write("model/fold_0/checkpoint_final.pth", "");
        write("msd/dataset.json", r#"{"modality": {"0": "CT"}, "training": []}"#);
        write("raw/Dataset001_A/dataset.json", r#"{"file_ending": ".nii.gz"}"#);
        write("raw/.Dataset000_copied/dataset.json", r#"{"file_ending": ".nii.gz"}"#);
        for (name, part) in [
            ("nowhere", "there is no such folder"),
            ("some.txt", "this is a file"),
            ("empty", "it has no dataset.json"),
            ("model", "a trained model"),
            ("msd", "data set of the Decathlon"),
            ("raw", "Dataset001_A: give that"),
        ] {
            let reported = reported(name).expect(name);
            for part in [name, part, "imagesTr/CASE_0000.nii.gz", "nnUNet_preprocessed"] {
                assert!(reported.contains(part), "{part:?} is not in {reported}");
            }
        }
        write("raw/Dataset002_B/dataset.json", r#"{"file_ending": ".nii.gz"}"#);
        assert!(reported("raw").is_some_and(|reported| reported.contains("Dataset002_B): give one of them")));
        assert_eq!(reported("raw/Dataset001_A"), None);
        // Its own fault is reported where it is read.
        write("raw/Dataset002_B/dataset.json", "{");
        assert_eq!(reported("raw/Dataset002_B"), None);
    }
}
