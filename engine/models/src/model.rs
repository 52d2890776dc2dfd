//! [`Model`]: what every trained model can do, whatever made it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hearth_data::Image;
use hearth_data::dicom::write::Coding;
use hearth_recipe::Outcome;
use serde_json::{Map as Facts, Value};

use crate::cases::Case;

/// A trained model: a run, an ensemble of runs, models of nnU-Net and TotalSegmentator, a MONAI bundle.
///
/// A prediction passes three stages: a [`Prepare`] reads a case, on any thread; [`predict`](Self::predict)
/// computes, on one thread; writers take the [`Prediction`]. [`Job`](crate::job::Job) overlaps them over
/// cases.
///
/// A new family implements this trait in a folder of its own and is registered in
/// [`open`](crate::open::open).
pub trait Model {
    /// What it is.
    fn card(&self) -> &Card;

    /// What can be asked of it.
    fn abilities(&self) -> Abilities;

    /// The cases that an argument of `-i` names. `series` selects one DICOM series of each study.
    ///
    /// # Errors
    /// A path without a case that the model takes, a data set that lacks a channel.
    fn cases(&self, given: &Path, series: Option<&str>) -> Outcome<Vec<Case>>;

    /// What reads its cases. It can be shared by threads, unlike a model.
    fn preparer(&self) -> Arc<dyn Prepare>;

    /// Predicts a prepared case.
    ///
    /// # Errors
    /// A case that does not suit the network; a device that fails.
    fn predict(&self, prepared: Prepared, asked: Asked) -> Outcome<Prediction>;

    /// What its results come from besides the case: weights and settings. Results of another key are
    /// other results.
    ///
    /// # Errors
    /// Files of the model that cannot be read.
    fn key(&self) -> Outcome<Value>;

    /// What the record of each result says of the model.
    fn record(&self) -> Facts<String, Value>;

    /// The labels of an earlier stage of a cascade for a case; none where the model needs none.
    ///
    /// # Errors
    /// A model that needs them where there are none.
    fn previous_stage(&self, _case: &Case) -> Outcome<Option<PathBuf>> {
        Ok(None)
    }

    /// Files that are written once for all results, by name and content.
    ///
    /// # Errors
    /// A model that cannot be described.
    fn companions(&self, _asked: Asked) -> Outcome<Vec<(String, String)>> {
        Ok(Vec::new())
    }

    /// The recipe's view of the model, where it has one: pictures with the truth need it.
    fn as_run(&self) -> Option<&crate::run::Trained> {
        None
    }

    /// The bundle, where the model is one.
    fn as_bundle(&self) -> Option<&crate::bundle::OpenedBundle> {
        None
    }
}

/// Reads cases for a model. Shared by the threads that read.
pub trait Prepare: Send + Sync {
    /// Reads a case, with the labels of an earlier stage where the model needs them, and does all that
    /// needs no network.
    ///
    /// # Errors
    /// Images that cannot be read or do not suit the model.
    fn prepare(&self, case: &Case, previous: Option<&Path>) -> Outcome<Prepared>;
}

/// A case that was read, on its way to the network.
pub struct Prepared {
    /// What the family made of it.
    pub content: Box<dyn std::any::Any + Send>,
    /// About as many bytes as it takes until its results are written.
    pub bytes: u64,
}

impl Prepared {
    /// A prepared case of a family's own type.
    pub fn new(content: impl std::any::Any + Send, bytes: u64) -> Self {
        Self { content: Box::new(content), bytes }
    }

    /// The family's own type.
    ///
    /// # Errors
    /// A case that another model prepared.
    pub fn take<T: 'static>(self) -> Outcome<T> {
        let other = |_| hearth_recipe::RecipeError::new("the case was prepared by another model");
        self.content.downcast::<T>().map(|content| *content).map_err(other)
    }
}

/// What is asked of a prediction besides the result itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// A probability of each label or region.
    pub probabilities: bool,
    /// How much augmented predictions differ.
    pub uncertainty: bool,
}

/// What a model gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A class for each voxel.
    Labels,
    /// Regions that may overlap, a channel for each.
    Regions,
    /// Numbers of the whole image: classes or a regression.
    Scores,
    /// Another image.
    Image,
    /// A map of a whole slide.
    SlideMap,
    /// Images of random numbers alone.
    Generated,
    /// Whatever the config of a bundle writes.
    Config,
}

impl Kind {
    /// Whether it is labels or regions of a volume.
    pub fn is_map(self) -> bool {
        matches!(self, Kind::Labels | Kind::Regions)
    }

    /// The kind in words, as messages have it.
    pub fn words(self) -> &'static str {
        match self {
            Kind::Labels => "labels",
            Kind::Regions => "regions",
            Kind::Scores => "numbers of the whole image",
            Kind::Image => "an image",
            Kind::SlideMap => "maps of whole slides",
            Kind::Generated => "images of random numbers alone",
            Kind::Config => "what its config says",
        }
    }
}

/// What can be asked of a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Abilities {
    /// `--probabilities`, and fractional DICOM segmentations.
    pub probabilities: bool,
    /// `--uncertainty`.
    pub uncertainty: bool,
    /// Whether test-time augmentation can be chosen by `--tta`.
    pub augmentation: bool,
}

/// What people and servers see of a model.
#[derive(Clone, Debug)]
pub struct Card {
    /// The family in words: "run", "model of nnU-Net".
    pub family: &'static str,
    /// Its title: of the recipe, the data set, the bundle.
    pub title: String,
    /// What it is, in a line.
    pub description: String,
    /// Program, model and weights, for headers of results.
    pub made_by: String,
    /// What it gives.
    pub kind: Kind,
    /// Its labels or regions, or the numbers that it gives.
    pub labels: Vec<ClassLabel>,
    /// Names of labels with their values in the label map that is written; of regions without labels the
    /// numbers of their channels.
    pub file_labels: Vec<(String, u32)>,
    /// Its input channels, in order.
    pub channels: Vec<String>,
    /// DICOM modalities of its images; none: any.
    pub modalities: Vec<String>,
    /// A checksum of its weights.
    pub checksum: Option<String>,
    /// What follows a case's name in that of the result.
    pub ending: String,
    /// The same of its probabilities.
    pub probability_endings: Vec<&'static str>,
    /// Whether the likeliest of its scores wins.
    pub names_a_winner: bool,
    /// The maps that an ensemble gives of how its members differ, by name.
    pub maps: Vec<&'static str>,
}

/// A label, a region or a class.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassLabel {
    /// Its value in the label map that is written; of regions the number of the channel, from 1.
    pub value: u32,
    /// Its name.
    pub name: String,
    /// Its colour, red, green, blue.
    pub color: Option<[u8; 3]>,
    /// Its coded terms.
    pub coding: Option<Coding>,
}

impl ClassLabel {
    /// A label without colour and code.
    pub fn new(value: u32, name: impl Into<String>) -> Self {
        Self { value, name: name.into(), color: None, coding: None }
    }
}

/// What a model says of a case.
pub enum Prediction {
    /// Labels, regions or an image, on the grid of the case's image.
    Map(Box<dyn PredictedMap>),
    /// A number for each of the card's labels.
    Scores(Vec<f32>),
}

/// A prediction on the grid of an image.
pub trait PredictedMap: Send {
    /// The label of each voxel `[1, X, Y, Z]`, 0 or 1 for each region `[C, X, Y, Z]`, or the image, in
    /// host memory.
    ///
    /// # Errors
    /// What the device did not compute.
    fn image(&self) -> Outcome<Image>;

    /// The image as it is written: regions as one label map where the model has labels for them.
    ///
    /// # Errors
    /// As [`image`](Self::image).
    fn file_image(&self) -> Outcome<Image> {
        self.image()
    }

    /// Writes the result as the family does.
    ///
    /// # Errors
    /// Those of the file system.
    fn write(&self, path: &Path) -> Outcome;

    /// The probability of each label or region, `[C, X, Y, Z]`, the background of labels first.
    fn probabilities(&self) -> Outcome<Option<Image>> {
        Ok(None)
    }

    /// Writes the probabilities to files with the card's endings.
    ///
    /// # Errors
    /// Those of the file system.
    fn write_probabilities(&self, _paths: &[PathBuf]) -> Outcome {
        Ok(())
    }

    /// The standard deviation of the foreground's probability over augmented images, and the volume
    /// variation coefficient.
    fn uncertainty(&self) -> Option<(&Image, f64)> {
        None
    }

    /// Maps of how much the members of an ensemble differ, by name.
    fn disagreement(&self) -> &[(&'static str, Image)] {
        &[]
    }

    /// What was measured of each label while it was predicted, where the family has rules of its own.
    fn statistics(&self, _incomplete: bool) -> Option<Value> {
        None
    }

    /// Labels that the image's border may cut, where the family measures that.
    fn incomplete(&self) -> Vec<String> {
        Vec::new()
    }
}
