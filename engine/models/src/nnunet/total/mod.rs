//! TotalSegmentator's tasks, and other folders of several models whose label maps are merged.
//!
//! A task has three steps: [`TotalSegmentator::read`] an image, [`TotalSegmentator::prepare`] it,
//! which runs no network, and [`TotalSegmentator::compute`] its labels. A task that crops images
//! contains another one, the rough model, which finds the region.

mod as_model;
mod choose;
mod crop;
mod measure;
mod model;
mod open;
mod predict;
mod variant;

use std::collections::BTreeMap;
use std::path::Path;

use hearth_nnunet::Axes3;
use hearth_nnunet::total::{Modality, Mode, Task};
use hearth_run::Fingerprint;

pub use self::as_model::TotalModel;
use self::crop::CropBy;
pub use self::measure::TotalLabels;
pub(crate) use self::model::{lone_model, models_below};
pub use self::predict::TotalPrepared;
use super::facts::{fingerprint_of, fingerprint_of_all};
use super::predict::{NnunetOptions, NnunetPredictor};

/// The options of several models in one folder.
#[derive(Clone, Debug, Default)]
pub struct TotalOptions {
    /// Only these classes, by the models that have them; empty for all.
    pub subset: Vec<String>,
    /// The distance between two tiles as a share of the patch, instead of the task's: 0.8 for
    /// `total`, `total_v3` and `total_mr`, 0.5 for others.
    pub step: Option<f64>,
    /// The task of TotalSegmentator, if the folder has the models of several.
    pub task: Option<String>,
    /// The models of the task: `fast`, `fastest` or `default`, `small` or `big`, or two of them as
    /// in `fast-small`. By default the finest existing ones, and big rather than small ones.
    pub variant: Option<String>,
    /// Components of at most this volume in mm³ are removed from each class, as with
    /// TotalSegmentator's `--remove_small_blobs`.
    pub small_components: Option<f64>,
    /// The options of each model; `step` replaces its step size. Models of a task use fold 0 unless
    /// folds are given, as in TotalSegmentator, and images are not mirrored.
    pub models: NnunetOptions,
}

/// Several nnU-Net models in folders `Dataset291_...` of one folder.
///
/// They are either the models of a TotalSegmentator task, recognised by their labels, their voxel
/// sizes and the names of their data sets; or other models, whose classes get the labels 1, 2, ...
/// in the order of the folders, or those of `total` if it has all names.
///
/// The image is reordered to RAS and resampled to the task's voxel size, or to that of the models
/// if their voxels are cubes: linearly, with coinciding ends and truncated to integers. Labels are
/// mapped back by the nearest voxel.
pub struct TotalSegmentator {
    parts: Vec<Part>,
    /// The names of the requested classes.
    names: BTreeMap<u16, String>,
    /// The voxel size in mm, z y x, to which the image is resampled first, if any.
    voxels: Option<Axes3<f64>>,
    /// The task and its mode; `None` for other models.
    task: Option<(&'static Task, Mode)>,
    modality: Modality,
    crop: Option<CropBy>,
    /// Components of at most this volume in mm³ are removed.
    small: Option<f64>,
}

/// A model, and the final label of each of its own labels, with 0 for removed ones.
struct Part {
    predictor: NnunetPredictor,
    labels: Vec<u16>,
}

/// The output of several models in one folder.
#[derive(Clone, Debug, PartialEq)]
pub struct TotalCard {
    /// The task of TotalSegmentator; `None` for other models.
    pub task: Option<&'static str>,
    /// The mode of a task: `default`, `fast` or `fastest`.
    pub mode: Option<&'static str>,
    /// The modality of images.
    pub modality: Modality,
    /// The classes, in the order of their labels.
    pub classes: Vec<String>,
}

impl TotalSegmentator {
    /// Whether a folder holds nnU-Net models in `Dataset...` folders: those of a task, or several others.
    pub fn is_one(path: &Path) -> bool {
        let named = |entry: std::fs::DirEntry| entry.file_name().to_string_lossy().starts_with("Dataset");
        let any = std::fs::read_dir(path).is_ok_and(|entries| entries.flatten().any(named));
        let mut found = Vec::new();
        if any && lone_model(path).is_none() {
            models_below(path, 1, &mut found);
        }
        !found.is_empty()
    }

    /// The models in use, those of the rough model last.
    pub fn models(&self) -> impl Iterator<Item = &NnunetPredictor> {
        let mut all: Vec<&NnunetPredictor> = Vec::new();
        let mut next = Some(self);
        while let Some(one) = next {
            all.extend(one.parts.iter().map(|part| &part.predictor));
            next = one.crop.as_ref().map(|crop| &*crop.rough);
        }
        all.into_iter()
    }

    /// What the data sets of its models look like, if it has any; that of the rough model, which sees larger
    /// voxels, does not count.
    pub(crate) fn fingerprint(&self) -> Option<Fingerprint> {
        let models = self.parts.iter().map(|part| &part.predictor);
        fingerprint_of_all(models.map(|model| fingerprint_of(&model.folder, &model.configuration)), self.voxels)
    }

    /// The name of each label.
    pub fn names(&self) -> &BTreeMap<u16, String> {
        &self.names
    }

    /// The task, the modality and the classes.
    pub fn card(&self) -> TotalCard {
        TotalCard {
            task: self.task.map(|(task, _)| task.name),
            mode: self.task.map(|(_, mode)| mode.name()),
            modality: self.modality,
            classes: self.names.values().cloned().collect(),
        }
    }
}
