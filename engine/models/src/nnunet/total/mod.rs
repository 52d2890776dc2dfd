//! TotalSegmentator's tasks, and other models side by side whose label maps become one.
//!
//! A task takes three steps: [`TotalSegmentator::read`] an image, [`TotalSegmentator::prepare`] it, which
//! runs no network, and [`TotalSegmentator::compute`] its labels. A task that crops images has another
//! one within it, the rough model, which finds the region.

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

use hearth_nnunet::total::{Modality, Mode, Task};
use hearth_nnunet::{Axes3, ModelFolder};

pub use self::as_model::TotalModel;
use self::crop::CropBy;
pub use self::measure::TotalLabels;
pub(crate) use self::model::models_below;
pub use self::predict::TotalPrepared;
use super::predict::{NnunetOptions, NnunetPredictor};

/// How several models side by side predict.
#[derive(Clone, Debug, Default)]
pub struct TotalOptions {
    /// Only these classes, by the models that have them; empty: all.
    pub subset: Vec<String>,
    /// Distance of two tiles as a share of the patch, in place of the task's: 0.8 of `total`,
    /// `total_v3` and `total_mr`, 0.5 of others.
    pub step: Option<f64>,
    /// The task of TotalSegmentator, where the models of several lie in the folder.
    pub task: Option<String>,
    /// Which models of the task: `fast`, `fastest` or `default`, `small` or `big`, or two of them as
    /// `fast-small`. Else the finest that are there, and big ones where there are both.
    pub variant: Option<String>,
    /// Components of at most so many mm³ are removed from each class, as by TotalSegmentator's
    /// `--remove_small_blobs`.
    pub small_components: Option<f64>,
    /// How each model predicts; `step` takes the place of its step size. Models of a task use fold 0
    /// unless folds are given, as TotalSegmentator does, and images are not mirrored.
    pub models: NnunetOptions,
}

/// Models of nnU-Net that lie in folders `Dataset291_...` side by side.
///
/// They are those of a task of TotalSegmentator, which are found by their labels, their voxels and the
/// names of their data sets; or others, whose classes have the labels 1, 2, ... in the order of the
/// folders, or those of `total` where all names are known there.
///
/// The image is turned to RAS and resampled to the task's voxels, or to the models' where those are
/// cubes, linearly with ends on ends and truncated to whole numbers; labels are mapped back by the
/// nearest voxel.
pub struct TotalSegmentator {
    parts: Vec<Part>,
    /// Of the classes that are wanted.
    names: BTreeMap<u16, String>,
    /// Size of the voxels, z y x in mm, that the image is resampled to beforehand, if it is.
    voxels: Option<Axes3<f64>>,
    /// The task and its mode; `None` of other models.
    task: Option<(&'static Task, Mode)>,
    modality: Modality,
    crop: Option<CropBy>,
    /// Components of at most so many mm³ are removed.
    small: Option<f64>,
}

/// A model, and the label of each of its own labels: 0 where it is removed.
struct Part {
    predictor: NnunetPredictor,
    labels: Vec<u16>,
}

/// What several models side by side predict.
#[derive(Clone, Debug, PartialEq)]
pub struct TotalCard {
    /// The task of TotalSegmentator; `None` of other models.
    pub task: Option<&'static str>,
    /// `default`, `fast` or `fastest`, of a task.
    pub mode: Option<&'static str>,
    /// What images are made by.
    pub modality: Modality,
    /// The classes, in the order of their labels.
    pub classes: Vec<String>,
}

impl TotalSegmentator {
    /// Whether a folder holds models of nnU-Net in `Dataset...` folders, and is none itself.
    pub fn is_one(path: &Path) -> bool {
        let named = |entry: std::fs::DirEntry| entry.file_name().to_string_lossy().starts_with("Dataset");
        let any = std::fs::read_dir(path).is_ok_and(|entries| entries.flatten().any(named));
        let mut found = Vec::new();
        if any && !ModelFolder::is_one(path) {
            models_below(path, 1, &mut found);
        }
        !found.is_empty()
    }

    /// The models that are used, those of the rough model last.
    pub fn models(&self) -> impl Iterator<Item = &NnunetPredictor> {
        let mut all: Vec<&NnunetPredictor> = Vec::new();
        let mut next = Some(self);
        while let Some(one) = next {
            all.extend(one.parts.iter().map(|part| &part.predictor));
            next = one.crop.as_ref().map(|crop| &*crop.rough);
        }
        all.into_iter()
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
