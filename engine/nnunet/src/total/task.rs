//! [`Task`]: the steps of one of TotalSegmentator's tasks.

use std::fmt;

use crate::volume::Axes3;

/// The modality of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Modality {
    /// Computed tomography.
    Ct,
    /// Magnetic resonance.
    Mr,
}

impl fmt::Display for Modality {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Modality::Ct => "CT",
            Modality::Mr => "MR",
        })
    }
}

/// A resolution of a task, as selected by TotalSegmentator's options `--fast` and `--fastest`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// No option: the finest.
    Default,
    /// `--fast`
    Fast,
    /// `--fastest`
    Fastest,
}

impl Mode {
    /// The name: `default`, `fast` or `fastest`.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Default => "default",
            Mode::Fast => "fast",
            Mode::Fastest => "fastest",
        }
    }
}

/// The models of a task in one mode.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Models {
    /// The resolution.
    pub mode: Mode,
    /// The data set folder of each model, in the order in which their labels are merged.
    pub folders: &'static [&'static str],
    /// The voxel size in mm (z y x) to which images are resampled before nnU-Net; `None`: no
    /// resampling.
    pub voxels: Option<Axes3<f64>>,
    /// The trainer of the model that is used.
    pub trainer: &'static str,
    /// The configuration of the model that is used.
    pub configuration: &'static str,
    /// Whether all folds are averaged, instead of using only fold 0.
    pub all_folds: bool,
}

impl Models {
    pub(super) const fn new(
        folders: &'static [&'static str],
        voxels: Option<Axes3<f64>>,
        trainer: &'static str,
    ) -> Self {
        let (mode, configuration, all_folds) = (Mode::Default, "3d_fullres", false);
        Models { mode, folders, voxels, trainer, configuration, all_folds }
    }

    pub(super) const fn mode(self, mode: Mode) -> Self {
        Models { mode, ..self }
    }

    pub(super) const fn configuration(self, configuration: &'static str) -> Self {
        Models { configuration, ..self }
    }

    pub(super) const fn all_folds(self) -> Self {
        Models { all_folds: true, ..self }
    }
}

/// The rough models that find the region to which a task crops an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rough {
    /// The models of another task in one mode.
    Mode(&'static str, Mode),
    /// The models of `total` with 6 mm or 3 mm.
    Total,
}

/// Cropping to the box of some classes that a rough model finds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Crop {
    /// The rough model.
    pub rough: Rough,
    /// Its classes.
    pub classes: &'static [&'static str],
    /// The margin added on each side of the box, in mm.
    pub margin: f64,
}

/// The cleaning of labels before they are mapped back to the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cleaning {
    /// Nothing.
    None,
    /// Keeps the largest component of class 1, and removes components of at most 50,000 mm³ of class 2.
    Body,
    /// Numbers touching vertebrae again, and dilates all by 3 mm.
    Vertebrae,
}

/// A task of TotalSegmentator.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Task {
    /// The name: `total`.
    pub name: &'static str,
    /// The modality of its images.
    pub modality: Modality,
    /// The names of the labels 1, 2, ..., separated by white space.
    pub(super) classes: &'static str,
    /// The names of the following labels, which are removed.
    pub(super) auxiliary: &'static str,
    /// The number of classes of each model of [`Mode::Default`]; empty if one model has all.
    pub(super) split: &'static [usize],
    /// The models per mode, the default first.
    pub models: &'static [Models],
    /// The crop of images.
    pub crop: Option<Crop>,
    /// The distance between two tiles as a share of the patch.
    pub step: f64,
    /// The cleaning of its labels.
    pub cleaning: Cleaning,
}

impl Task {
    pub(super) const fn new(name: &'static str, classes: &'static str, models: &'static [Models]) -> Self {
        Task {
            name,
            modality: Modality::Ct,
            classes,
            auxiliary: "",
            split: &[],
            models,
            crop: None,
            step: 0.5,
            cleaning: Cleaning::None,
        }
    }

    pub(super) const fn mr(self) -> Self {
        Task { modality: Modality::Mr, ..self }
    }

    pub(super) const fn crop(self, rough: Rough, classes: &'static [&'static str], margin: f64) -> Self {
        Task { crop: Some(Crop { rough, classes, margin }), ..self }
    }

    /// The classes, whose labels are 1, 2, ... in this order.
    pub fn classes(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.classes.split_whitespace()
    }

    /// The labels of the outputs of part `index` of a mode's models: the name of each of its labels
    /// 1, 2, ... and the task's label, or 0 for labels that are removed.
    pub fn part(&self, mode: Mode, index: usize) -> Vec<(&'static str, u16)> {
        let split = if mode == Mode::Default { self.split } else { &[] };
        let numbered = self.classes().zip(1..);
        match split.get(index) {
            Some(count) => numbered.skip(split[..index].iter().sum()).take(*count).collect(),
            None => numbered.chain(self.auxiliary.split_whitespace().map(|name| (name, 0))).collect(),
        }
    }

    /// Whether its images may be cropped to a subset of its classes that a rough model finds.
    pub fn crops_to_subsets(&self) -> bool {
        self.name.starts_with("total")
    }
}

/// The number in a data set's folder or name: 291 of
/// `Dataset291_TotalSegmentator_part1_organs_1559subj`.
pub fn number(dataset: &str) -> Option<u32> {
    let digits = dataset.strip_prefix("Dataset")?;
    digits.split('_').next()?.parse().ok()
}
