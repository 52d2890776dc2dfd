//! [`OneByOne`]: an evaluator whose cases are given one after the other.

use std::path::PathBuf;
use std::sync::Arc;

use burn::tensor::Device;
use hearth_bundle::{Component, Value};
use hearth_data::Image;
use hearth_data::transforms::LoadImage;
use hearth_nn::inferers::Inferer;
use hearth_recipe::{Outcome, RecipeError};

use super::case::Case;
use super::chain::Chain;
use super::evaluator::{Ending, Pass};
use super::networks::Networks;
use super::writing::Writing;

/// An evaluator whose cases come one by one.
pub(crate) struct OneByOne {
    pub(crate) id: String,
    pub(crate) network: Arc<Component>,
    pub(crate) networks: Networks,
    pub(crate) inferer: Box<dyn Inferer>,
    pub(crate) before: Chain,
    pub(crate) after: Chain,
    pub(crate) device: Device,
    pub(crate) folder: PathBuf,
    /// What the file of an image is read to.
    pub(crate) key: String,
}

impl OneByOne {
    /// Whether classes exclude each other, as far as its post-processing says.
    pub fn takes_argmax(&self) -> bool {
        self.after.takes_argmax()
    }

    /// Whether its output is decided: by an argmax or a threshold.
    pub fn decides(&self) -> bool {
        self.after.decides()
    }

    /// The image that the config saves of a case. `series` is the UID of a DICOM series.
    ///
    /// # Errors
    /// Images that cannot be read or do not fit the network; an output that its device did not compute.
    pub fn predict(&mut self, files: &[PathBuf], series: Option<&str>) -> Outcome<Image> {
        let texts: Vec<Value> = files.iter().map(|file| Value::text(file.display().to_string())).collect();
        let value = match &texts[..] {
            [one] => one.clone(),
            _ => Value::List(texts.into()),
        };
        let given = Value::Dict([(Value::text(&self.key), value)].into());
        let mut writing = Writing::capturing(self.folder.clone());
        let mut case = Case::new(&given, 0, &self.folder);
        if let Some(uid) = series {
            let key = LoadImage::series_key(&self.key);
            case.sample.values.insert(key, hearth_data::Value::Text(uid.to_owned()));
        }
        self.before.run(&mut case, &mut writing)?;
        let network = self.networks.get(&self.network, &self.device)?;
        let pass = Pass { network, inferer: &*self.inferer, device: &self.device, id: &self.id };
        let ending = Ending { after: &self.after, tables: &[], measures: Vec::new(), total: 1 };
        { ending }.cases(vec![case], &pass, &mut writing, &mut |_| {})?;
        let mut saved = writing.captured.unwrap_or_default();
        match saved.pop() {
            Some(image) => image.to_host().map_err(|error| RecipeError::of_device(&error)),
            None => Err(RecipeError::new(format!("{}: the config saved no image of this case", self.id))),
        }
    }
}
