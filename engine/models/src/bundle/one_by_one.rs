//! [`OneByOne`]: an evaluator for cases that are given one after the other.

use std::path::PathBuf;
use std::sync::Arc;

use burn::tensor::Device;
use hearth_bundle::{Component, Value};
use hearth_data::Image;
use hearth_data::transforms::LoadImage;
use hearth_nn::inferers::Inferer;
use hearth_nn::networks::AnyNetwork;
use hearth_recipe::{Outcome, RecipeError};
use hearth_run::{Fingerprint, ImageFacts};

use super::case::Case;
use super::chain::Chain;
use super::evaluator::{Pass, PassedCase};
use super::networks::Networks;
use super::writing::Writing;
use crate::finite::{non_finite_of, refused};

/// An evaluator for cases that are given one by one.
pub(crate) struct OneByOne {
    pub(crate) id: String,
    pub(crate) network: Arc<Component>,
    pub(crate) networks: Networks,
    pub(crate) inferer: Box<dyn Inferer>,
    pub(crate) before: Chain,
    pub(crate) after: Chain,
    pub(crate) device: Device,
    pub(crate) folder: PathBuf,
    /// The key into which the image file is read.
    pub(crate) key: String,
    /// The properties of the training images, as the bundle states them.
    pub(crate) known: Fingerprint,
}

/// The files of a case, which the config's own chain reads.
pub(crate) struct Files {
    pub(crate) files: Vec<PathBuf>,
    /// The UID of a DICOM series.
    pub(crate) series: Option<String>,
    /// The faults of DICOM series that are accepted.
    pub(crate) accept: Vec<String>,
}

/// The results of the config for a case.
pub(crate) struct PredictedCase {
    /// The image that it saves.
    pub image: Image,
    /// The probabilities, if requested.
    pub probabilities: Option<Image>,
    /// Spacing, extent and values of the image as loaded.
    pub facts: Option<ImageFacts>,
}

impl OneByOne {
    /// Whether classes are mutually exclusive according to its post-processing.
    pub fn takes_argmax(&self) -> bool {
        self.after.takes_argmax()
    }

    /// Whether its output is decided by an argmax or a threshold.
    pub fn decides(&self) -> bool {
        self.after.decides()
    }

    /// The network.
    ///
    /// # Errors
    /// A network that cannot be built.
    pub fn network(&mut self) -> Outcome<AnyNetwork> {
        Ok(self.networks.get(&self.network, &self.device)?.clone())
    }

    /// The image that the config saves for a case, with its probabilities if requested.
    ///
    /// # Errors
    /// Images that cannot be read or do not fit the network, an output that the device failed to
    /// compute, or a config whose values before the decision are not probabilities.
    pub fn predict(&mut self, given: &Files, probabilities: bool) -> Outcome<PredictedCase> {
        let texts: Vec<Value> = given.files.iter().map(|file| Value::text(file.display().to_string())).collect();
        let value = match &texts[..] {
            [one] => one.clone(),
            _ => Value::List(texts.into()),
        };
        let listed = Value::Dict([(Value::text(&self.key), value)].into());
        let mut writing = Writing::capturing(self.folder.clone());
        let mut case = Case::new(&listed, 0, &self.folder);
        if let Some(uid) = &given.series {
            let key = LoadImage::series_key(&self.key);
            case.sample.values.insert(key, hearth_data::Value::Text(uid.clone()));
        }
        if !given.accept.is_empty() {
            let key = LoadImage::accept_key(&self.key);
            case.sample.values.insert(key, hearth_data::Value::Text(given.accept.join(",")));
        }
        let mut facts = None;
        let mut loaded = |case: &Case| facts = case.sample.image(&self.key).ok().map(ImageFacts::of);
        self.before.run_shown(&mut case, &mut writing, &mut loaded)?;
        if let Some(what) = case.sample.image("image").ok().map(non_finite_of).transpose()?.flatten() {
            return Err(refused(&format!("{}: the network's input: {what}", self.id)));
        }
        let network = self.networks.get(&self.network, &self.device)?;
        let pass = Pass { network, inferer: &*self.inferer, device: &self.device, id: &self.id };
        let mut passed = pass.cases(vec![case])?;
        let Some(PassedCase { case, .. }) = passed.pop() else {
            return Err(RecipeError::new(format!("{}: the network gave nothing", self.id)));
        };
        let found = if probabilities { Some(self.probabilities(case.clone())?) } else { None };
        let saved = self.saved(case, |case, writing| self.after.run(case, writing))?;
        if let Some(found) = &found
            && found.spatial_shape() != saved.spatial_shape()
        {
            let (found, saved) = (found.spatial_shape(), saved.spatial_shape());
            let what = format!("they lie on a grid of {found:?} voxels, and the result on one of {saved:?}");
            return Err(RecipeError::new(format!("{}: no probabilities of this case: {what}", self.id)));
        }
        Ok(PredictedCase { image: saved, probabilities: found, facts })
    }

    /// The saved image of a case without decisions.
    fn probabilities(&self, case: Case) -> Outcome<Image> {
        let found = self.saved(case, |case, writing| self.after.run_undecided(case, writing))?;
        let outside = found.to_vec().into_iter().find(|value| !(-1e-3..=1.001).contains(value));
        match outside {
            None => Ok(found),
            Some(value) => Err(RecipeError::new(format!(
                "{}: no probabilities: a value before the decision is {value}, so that its config has no activation \
                 that gives them; remove --probabilities",
                self.id
            ))),
        }
    }

    /// The only image that a chain saves for a case, in host memory.
    fn saved(&self, mut case: Case, run: impl Fn(&mut Case, &mut Writing) -> Outcome) -> Outcome<Image> {
        let mut writing = Writing::capturing(self.folder.clone());
        run(&mut case, &mut writing)?;
        match writing.captured.unwrap_or_default().pop() {
            Some(image) => image.to_host().map_err(|error| RecipeError::of_device(&error)),
            None => Err(RecipeError::new(format!("{}: the config saved no image of this case", self.id))),
        }
    }
}
