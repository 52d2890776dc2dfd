//! The data sets of `hearth plan`: which folders and lists it supports, and the errors for others.

use std::path::{Path, PathBuf};

use hearth_data::Progress;
use hearth_data::layouts::{Layout, NnUnetRaw};
use hearth_models::nnunet::planner::Fingerprint;
use hearth_models::nnunet::{DatasetJson, ListedSet, Listing, NnunetRaw, training_recipe};
use hearth_registry::{Named, Node};
use serde_json::Value;

use crate::error::{Context, Failure, Outcome};

/// What the command supports.
const TAKES: &str = "hearth plan takes a data set of label maps as hearth train does (nnU-Net's or the Decathlon's \
                     dataset.json, a table .csv, a list .json, BIDS, BraTS, DICOM), or a folder of \
                     nnUNet_preprocessed (dataset.json, gt_segmentations, nnUNetPlans.json)";

/// The maximum number of folders that an error lists.
const NAMED: usize = 4;

/// Facts about a data set that its files do not contain.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct SetArgs {
    /// The layout: a name, or a table as in a recipe, '{ name = "Dicom", prefer = "RTSTRUCT" }'
    /// [default: detected]
    #[arg(long, value_name = "LAYOUT")]
    pub layout: Option<String>,
    /// The modalities of an image: columns of a table, keys of a list, suffixes of files, channels
    #[arg(long, value_name = "NAME", num_args = 1..)]
    pub images: Vec<String>,
    /// The label map: a column, key or suffix
    #[arg(long, value_name = "NAME")]
    pub label: Option<String>,
    /// The channels' names, which set how they are normalised: CT, MRI, ... [default: from the data
    /// set]
    #[arg(long, value_name = "NAME", num_args = 1..)]
    pub channels: Vec<String>,
    /// The names of the labels 1, 2, ...; for DICOM the regions that become them [default: from the
    /// data set]
    #[arg(long, value_name = "NAME", num_args = 1..)]
    pub labels: Vec<String>,
}

impl SetArgs {
    /// Returns an error for the first given option.
    pub fn refuse_all(&self, why: &str) -> Outcome {
        let given = [
            ("--layout", self.layout.is_some()),
            ("--images", !self.images.is_empty()),
            ("--label", self.label.is_some()),
            ("--channels", !self.channels.is_empty()),
            ("--labels", !self.labels.is_empty()),
        ];
        match given.iter().find(|(_, given)| *given) {
            Some((option, _)) => Err(Failure::new(format!("{option}: {why}; remove it"))),
            None => Ok(()),
        }
    }

    fn listing(&self) -> Outcome<Listing> {
        let layout = self.layout.as_deref().map(layout).transpose().while_doing(|| "--layout".to_owned())?;
        let SetArgs { images, label, channels, labels, .. } = self;
        let (images, label) = (images.clone(), label.clone());
        Ok(Listing { layout, images, label, channels: channels.clone(), labels: labels.clone() })
    }
}

/// Parses a layout from its name or its table.
fn layout(text: &str) -> Outcome<Named<dyn Layout>> {
    if !text.trim_start().starts_with('{') {
        return Ok(Named::new(&Node::named(text))?);
    }
    #[derive(serde::Deserialize)]
    struct Table {
        layout: Named<dyn Layout>,
    }
    let table: Table = toml::from_str(&format!("layout = {text}"))?;
    Ok(table.layout)
}

/// A data set to plan.
pub(super) enum Set {
    /// Read as nnU-Net reads it.
    Raw(NnunetRaw),
    /// Read as training reads it.
    Listed(ListedSet),
}

impl Set {
    /// Finds the cases of a data set.
    ///
    /// # Errors
    /// A data set that cannot be read, or whose cases have no label maps.
    pub fn open(path: &Path, args: &SetArgs) -> Outcome<Self> {
        let listing = args.listing()?;
        let raw = match &listing.layout {
            Some(layout) => layout.name() == "NnUnetRaw",
            None => NnUnetRaw::default().fits(path),
        };
        if !raw {
            return Ok(Set::Listed(ListedSet::open(path, &listing)?));
        }
        SetArgs { layout: None, ..args.clone() }.refuse_all("a raw data set of nnU-Net has it in dataset.json")?;
        Ok(Set::Raw(NnunetRaw::open(path)?))
    }

    /// Its name.
    pub fn name(&self) -> &str {
        match self {
            Set::Raw(set) => &set.name,
            Set::Listed(set) => &set.name,
        }
    }

    /// nnU-Net's class that reads its images.
    pub fn reader(&self) -> &str {
        match self {
            Set::Raw(set) => &set.reader,
            Set::Listed(set) => &set.reader,
        }
    }

    /// Names of its cases.
    pub fn names(&self) -> Vec<String> {
        match self {
            Set::Raw(set) => set.names(),
            Set::Listed(set) => set.names(),
        }
    }

    /// Its fingerprint over all cases, and its `dataset.json` as it is or would be.
    ///
    /// # Errors
    /// The first case that cannot be read.
    pub fn fingerprint(&self, progress: Progress) -> Outcome<(Fingerprint, DatasetJson)> {
        match self {
            Set::Raw(set) => Ok((set.fingerprint(progress)?, set.dataset.clone())),
            Set::Listed(set) => Ok(set.fingerprint(progress)?),
        }
    }

    /// The recipe of a configuration.
    ///
    /// # Errors
    /// A part of the plans that recipes do not support.
    pub fn recipe(&self, plans: &Value, dataset: &DatasetJson, configuration: &str) -> Outcome<String> {
        match self {
            Set::Raw(_) => Ok(training_recipe(plans, dataset, configuration)?),
            Set::Listed(set) => Ok(set.recipe(plans, dataset, configuration)?),
        }
    }
}

/// The error for a path that is not a data set, if its files show what it is.
pub(super) fn foreign(path: &Path) -> Option<Failure> {
    let what = what_it_is(path)?;
    Some(Failure::new(format!("{}: {what}; {TAKES}", path.display())))
}

fn what_it_is(path: &Path) -> Option<String> {
    if !path.exists() {
        return Some("no such file or folder".to_owned());
    }
    if path.is_file() || is_set(path) {
        return None;
    }
    if path.join("plans.json").is_file() || path.join("fold_0").is_dir() {
        return Some("this is a trained model, with which hearth predict predicts".to_owned());
    }
    let sets = data_sets(path);
    if let [first, ..] = &sets[..] {
        let listed: Vec<String> = sets.iter().take(NAMED).map(|set| set.display().to_string()).collect();
        let more = if sets.len() > NAMED { ", ..." } else { "" };
        let what = format!("this folder holds data sets ({}{more}): give one of them", listed.join(", "));
        return Some(if sets.len() == 1 { format!("the data set is {}: give that", first.display()) } else { what });
    }
    let empty = std::fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none());
    empty.then(|| "this folder is empty".to_owned())
}

/// The folders with a `dataset.json` in a folder, by name; hidden ones are skipped, as they are copies.
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
        std::fs::create_dir(dir.path().join("empty")).expect("made");
        write("model/fold_0/checkpoint_final.pth", "");
        write("msd/dataset.json", r#"{"modality": {"0": "CT"}, "training": []}"#);
        write("raw/Dataset001_A/dataset.json", r#"{"file_ending": ".nii.gz"}"#);
        write("raw/.Dataset000_copied/dataset.json", r#"{"file_ending": ".nii.gz"}"#);
        for (name, part) in [
            ("nowhere", "no such file or folder"),
            ("empty", "this folder is empty"),
            ("model", "a trained model"),
            ("raw", "Dataset001_A: give that"),
        ] {
            let reported = reported(name).expect(name);
            for part in [name, part, "the Decathlon's dataset.json", "nnUNet_preprocessed"] {
                assert!(reported.contains(part), "{part:?} is not in {reported}");
            }
        }
        write("raw/Dataset002_B/dataset.json", r#"{"file_ending": ".nii.gz"}"#);
        assert!(reported("raw").is_some_and(|reported| reported.contains("Dataset002_B): give one of them")));
        assert_eq!(reported("raw/Dataset001_A"), None);
        assert_eq!(reported("msd"), None);
        // A fault in its own files is reported where they are read.
        write("raw/Dataset002_B/dataset.json", "{");
        assert_eq!(reported("raw/Dataset002_B"), None);
    }
}
