//! [`Model`]: the interface of every trained model.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hearth_data::Image;
use hearth_data::dicom::write::Coding;
use hearth_recipe::Outcome;
use hearth_run::{Fingerprint, ImageFacts};
use serde_json::{Map as Facts, Value};

use crate::cases::{Case, Sought};
use crate::saliency::{Saliency, SaliencyMap};
use crate::slides::SlideMap;

/// A trained model: a run, an ensemble of runs, models of nnU-Net and TotalSegmentator, a MONAI bundle.
///
/// A prediction has three stages: a [`Prepare`] reads a case, on any thread;
/// [`predict`](Self::predict) computes it, on one thread; writers take the [`Prediction`].
/// [`Job`](crate::job::Job) overlaps the stages of different cases.
///
/// A new family implements this trait in its own folder and is registered in
/// [`open`](crate::open::open).
pub trait Model {
    /// The description of the model.
    fn card(&self) -> &Card;

    /// The supported options.
    fn abilities(&self) -> Abilities;

    /// Checks requested outputs as far as the model alone decides, before a case is read.
    ///
    /// # Errors
    /// A class or a layer that the model lacks.
    fn check(&self, _asked: &Asked) -> Outcome {
        Ok(())
    }

    /// The cases that an argument of `-i` or an upload names.
    ///
    /// # Errors
    /// A path without a suitable case, or a data set without a channel that the model needs.
    fn cases(&self, given: &Path, sought: Sought<'_>) -> Outcome<Vec<Case>>;

    /// The reader of its cases. Unlike a model it can be shared by threads.
    fn preparer(&self) -> Arc<dyn Prepare>;

    /// Predicts a prepared case.
    ///
    /// # Errors
    /// A case that does not fit the network, or a device that fails.
    fn predict(&self, prepared: Prepared, asked: Asked) -> Outcome<Prediction>;

    /// The key of its results, apart from the case: weights and settings. Results with another key
    /// are different results.
    ///
    /// # Errors
    /// Files of the model that cannot be read.
    fn key(&self) -> Outcome<Value>;

    /// The properties of the training images, if they are known.
    fn fingerprint(&self) -> Option<&Fingerprint> {
        None
    }

    /// The facts about the model in the record of each result.
    fn record(&self) -> Facts<String, Value>;

    /// The label file of an earlier stage of a cascade for a case; `None` if the model does not
    /// need it.
    ///
    /// # Errors
    /// Missing labels that the model needs.
    fn previous_stage(&self, _case: &Case) -> Outcome<Option<PathBuf>> {
        Ok(None)
    }

    /// The ending of the file that keeps the finished parts of a prediction, if predictions resume: see
    /// [`Prepared::partial`].
    fn partial_ending(&self) -> Option<&'static str> {
        None
    }

    /// Files that are written once for all results, by name and content.
    ///
    /// # Errors
    /// A model that cannot be described.
    fn companions(&self, _asked: Asked) -> Outcome<Vec<(String, String)>> {
        Ok(Vec::new())
    }

    /// The model as a run, if it has a recipe: pictures with labels need it.
    fn as_run(&self) -> Option<&crate::run::Trained> {
        None
    }

    /// The bundle, if the model is one.
    fn as_bundle(&self) -> Option<&crate::bundle::OpenedBundle> {
        None
    }
}

/// A reader of cases for a model, shared by the threads that read.
pub trait Prepare: Send + Sync {
    /// Reads a case, with the labels of an earlier stage if the model needs them, and does all work
    /// before the network.
    ///
    /// # Errors
    /// Images that cannot be read or do not fit the model.
    fn prepare(&self, case: &Case, previous: Option<&Path>) -> Outcome<Prepared>;
}

/// A case that was read, as an input for the network.
pub struct Prepared {
    /// The content, of a type of the model's family.
    pub content: Box<dyn std::any::Any + Send>,
    /// The approximate memory in bytes until its results are written.
    pub bytes: u64,
    /// Spacing, extent and values of the image as loaded, if they are known.
    pub facts: Option<ImageFacts>,
    /// The file for the finished parts of a prediction that resumes: a repeated call continues there.
    /// It stays until all results are written. Without one, the prediction starts at its beginning.
    pub partial: Option<PathBuf>,
}

impl Prepared {
    /// Wraps a prepared case of a family's own type.
    pub fn new(content: impl std::any::Any + Send, bytes: u64) -> Self {
        Self { content: Box::new(content), bytes, facts: None, partial: None }
    }

    /// Adds what the image looked like when it was loaded.
    #[must_use]
    pub fn with_facts(self, facts: Option<ImageFacts>) -> Self {
        Self { facts, ..self }
    }

    /// Unwraps the family's own type.
    ///
    /// # Errors
    /// A case that another model prepared.
    pub fn take<T: 'static>(self) -> Outcome<T> {
        let other = |_| hearth_recipe::RecipeError::new("the case was prepared by another model");
        self.content.downcast::<T>().map(|content| *content).map_err(other)
    }
}

/// Requested outputs of a prediction in addition to the result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// A probability for each label or region.
    pub probabilities: bool,
    /// The uncertainty: the difference between augmented predictions.
    pub uncertainty: bool,
    /// The map of what a classifier's answer depends on.
    pub saliency: Option<Saliency>,
}

/// The respects in which an image is unlike those that a model was trained on, in words.
pub fn unlike(model: &dyn Model, facts: &ImageFacts) -> Vec<String> {
    let known = model.fingerprint();
    let mut found = known.map(|known| known.unlike(facts)).unwrap_or_default();
    // The modality of the card may be that of a recipe, which its data set does not tell.
    let is_ct = matches!(&model.card().modalities[..], [one] if one.eq_ignore_ascii_case("CT"));
    if is_ct && known.is_none_or(|known| known.channels.is_empty() && known.modality.is_none()) {
        found.extend(facts.not_hounsfield());
    }
    found
}

/// The kind of a model's output.
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
    /// Images from random numbers, without an input.
    Generated,
    /// Files that the config of a bundle defines.
    Config,
}

impl Kind {
    /// Whether the output is labels or regions of a volume.
    pub fn is_map(self) -> bool {
        matches!(self, Kind::Labels | Kind::Regions)
    }

    /// Whether the output is on the grid of an image.
    pub fn is_volume(self) -> bool {
        matches!(self, Kind::Labels | Kind::Regions | Kind::Image)
    }

    /// A case in words, for messages.
    pub fn case(self) -> &'static str {
        match self {
            Kind::SlideMap => "slide",
            _ => "image",
        }
    }

    /// The kind in words, for messages.
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

/// The options that a model supports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Abilities {
    /// `--probabilities`, and fractional DICOM segmentations.
    pub probabilities: bool,
    /// `--uncertainty`.
    pub uncertainty: bool,
    /// Whether `--tta` can select test-time augmentation.
    pub augmentation: bool,
    /// `--saliency`.
    pub saliency: bool,
    /// Whether a result has a channel for each region, and is no label map.
    pub channels: bool,
}

/// The description of a model for users and servers.
#[derive(Clone, Debug)]
pub struct Card {
    /// The family in words: "run", "model of nnU-Net".
    pub family: &'static str,
    /// The title of the recipe, the data set or the bundle.
    pub title: String,
    /// A description in one line.
    pub description: String,
    /// Program, model and weights, for headers of results.
    pub made_by: String,
    /// The kind of output.
    pub kind: Kind,
    /// The labels or regions, or the predicted numbers.
    pub labels: Vec<ClassLabel>,
    /// Names of labels with their values in the written label map; for regions without labels,
    /// their channel numbers.
    pub file_labels: Vec<(String, u32)>,
    /// The input channels, in order.
    pub channels: Vec<String>,
    /// The DICOM modalities of its images; empty for any.
    pub modalities: Vec<String>,
    /// A checksum of its weights.
    pub checksum: Option<String>,
    /// The ending that is appended to a case's name for the result.
    pub ending: String,
    /// The endings of its probability files.
    pub probability_endings: Vec<&'static str>,
    /// Whether the most likely of its scores is the answer.
    pub names_a_winner: bool,
    /// The names of the disagreement maps of an ensemble.
    pub maps: Vec<&'static str>,
}

/// A label, a region or a class.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassLabel {
    /// The value in the written label map; for regions the channel number, from 1.
    pub value: u32,
    /// Its name.
    pub name: String,
    /// The colour: red, green, blue.
    pub color: Option<[u8; 3]>,
    /// The coded terms.
    pub coding: Option<Coding>,
}

impl ClassLabel {
    /// Creates a label without colour and code.
    pub fn new(value: u32, name: impl Into<String>) -> Self {
        Self { value, name: name.into(), color: None, coding: None }
    }
}

/// The prediction for a case.
pub enum Prediction {
    /// Labels, regions or an image, on the grid of the case's image.
    Map(Box<dyn PredictedMap>),
    /// A number for each of the card's labels.
    Scores(Scores),
    /// A map of a whole slide.
    SlideMap(Box<SlideMap>),
}

impl Prediction {
    /// The respects in which the image is unlike those of the training that were found during the
    /// prediction.
    pub fn remarks(&self) -> &[String] {
        match self {
            Prediction::Map(map) => map.remarks(),
            Prediction::Scores(_) | Prediction::SlideMap(_) => &[],
        }
    }
}

/// The numbers of a whole image.
pub struct Scores {
    /// A number for each of the card's labels.
    pub values: Vec<f32>,
    /// The map of what they depend on, if requested.
    pub saliency: Option<Box<SaliencyMap>>,
}

/// The differences between several predictions of an image.
pub struct Uncertainty {
    /// The standard deviation of the foreground's probability at each voxel, from 0 to 0.71.
    pub std: Image,
    /// MONAI's volume variation coefficient: deviation over mean of all values of all predictions.
    pub vvc: f64,
    /// The volume in millilitres of each of the card's labels in each prediction, which becomes labels as the
    /// result does; without any for a predicted image.
    pub volumes_ml: Vec<Vec<f64>>,
}

impl Uncertainty {
    /// The mean volume of a label in millilitres, and its standard deviation over the predictions; `None` for
    /// fewer than two of them.
    pub fn volume_ml(&self, label: usize) -> Option<(f64, f64)> {
        let volumes: Vec<f64> = self.volumes_ml.iter().filter_map(|all| all.get(label).copied()).collect();
        let count = volumes.len() as f64;
        let mean = volumes.iter().sum::<f64>() / count;
        let squares: f64 = volumes.iter().map(|volume| (volume - mean).powi(2)).sum();
        (count >= 2.0).then(|| (mean, (squares / (count - 1.0)).sqrt()))
    }
}

/// A prediction on the grid of an image.
pub trait PredictedMap: Send {
    /// The label of each voxel `[1, X, Y, Z]`, 0 or 1 for each region `[C, X, Y, Z]`, or the image,
    /// in host memory.
    ///
    /// # Errors
    /// Values that the device failed to compute.
    fn image(&self) -> Outcome<Image>;

    /// The image for the file: regions as one label map if the model has labels for them.
    ///
    /// # Errors
    /// Same as [`image`](Self::image).
    fn file_image(&self) -> Outcome<Image> {
        self.image()
    }

    /// Writes the result in the way of its family.
    ///
    /// # Errors
    /// Errors of the file system.
    fn write(&self, path: &Path) -> Outcome;

    /// The probability of each label or region, `[C, X, Y, Z]`, the background of labels first.
    fn probabilities(&self) -> Outcome<Option<Image>> {
        Ok(None)
    }

    /// Writes the probabilities to files with the card's endings.
    ///
    /// # Errors
    /// Errors of the file system.
    fn write_probabilities(&self, _paths: &[PathBuf]) -> Outcome {
        Ok(())
    }

    /// The differences between predictions of augmented images, folds or models.
    fn uncertainty(&self) -> Option<&Uncertainty> {
        None
    }

    /// Maps of the disagreement between the members of an ensemble, by name.
    fn disagreement(&self) -> &[(&'static str, Image)] {
        &[]
    }

    /// Measurements of each label, if the family has its own rules for them.
    fn statistics(&self, _incomplete: bool) -> Option<Value> {
        None
    }

    /// The respects in which the image is unlike those of the training, of a family that loads an image only
    /// when it is predicted.
    fn remarks(&self) -> &[String] {
        &[]
    }

    /// Labels that the image's border may cut, if the family checks that.
    fn incomplete(&self) -> Vec<String> {
        Vec::new()
    }
}
