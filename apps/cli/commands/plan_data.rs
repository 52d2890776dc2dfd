//! The data sets of `hearth plan`: which folders and lists it takes, and what to say of another.

use std::path::{Path, PathBuf};

use hearth_data::Progress;
use hearth_data::layouts::{Layout, NnUnetRaw};
use hearth_models::nnunet::planner::Fingerprint;
use hearth_models::nnunet::{DatasetJson, ListedSet, Listing, NnunetRaw, training_recipe};
use hearth_registry::{Named, Node};
use serde_json::Value;

use crate::error::{Context, Failure, Outcome};

/// What it takes.
const TAKES: &str = "hearth plan takes a data set of label maps as hearth train does (nnU-Net's or the Decathlon's \
                     dataset.json, a table .csv, a list .json, BIDS, BraTS, DICOM), or a folder of \
                     nnUNet_preprocessed (dataset.json, gt_segmentations, nnUNetPlans.json)";

/// The most folders that are named.
const NAMED: usize = 4;

/// What the files of a data set do not say.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct SetArgs {
    /// The layout: a name, or a table as in a recipe, '{ name = "Dicom", prefer = "RTSTRUCT" }' [default: recognised]
    #[arg(long, value_name = "LAYOUT")]
    pub layout: Option<String>,
    /// The modalities that make up an image: columns of a table, keys of a list, suffixes of files, channels
    #[arg(long, value_name = "NAME", num_args = 1..)]
    pub images: Vec<String>,
    /// The column, key or suffix of the label map
    #[arg(long, value_name = "NAME")]
    pub label: Option<String>,
    /// Names of the channels, which say how they are normalised: CT, MRI, ... [default: those of the data set]
    #[arg(long, value_name = "NAME", num_args = 1..)]
    pub channels: Vec<String>,
    /// Names of the labels 1, 2, ...; of DICOM the regions that become them [default: those of the data set]
    #[arg(long, value_name = "NAME", num_args = 1..)]
    pub labels: Vec<String>,
}

impl SetArgs {
    /// Refuses each option that was given.
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

/// A layout by its name, or of its table.
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

/// A data set that is planned.
pub(super) enum Set {
    /// As nnU-Net reads it.
    Raw(NnunetRaw),
    /// As training reads it.
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
        SetArgs { layout: None, ..args.clone() }.refuse_all("a raw data set of nnU-Net says it in dataset.json")?;
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

    /// Its fingerprint, of all cases, and what its `dataset.json` says or would say.
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
    /// What of the plans no recipe can say.
    pub fn recipe(&self, plans: &Value, dataset: &DatasetJson, configuration: &str) -> Outcome<String> {
        match self {
            Set::Raw(_) => Ok(training_recipe(plans, dataset, configuration)?),
            Set::Listed(set) => Ok(set.recipe(plans, dataset, configuration)?),
        }
    }
}

/// Why a path is no data set, where its files say what it is instead.
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
        // Its own fault is reported where it is read.
        write("raw/Dataset002_B/dataset.json", "{");
        assert_eq!(reported("raw/Dataset002_B"), None);
    }
}
