use std::collections::BTreeSet;

use hearth_image::{Image, OneOrMany, Select, TransformError};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::params::{Keys, check_key};
use crate::pipeline::invert;
use crate::transform::{Transform, describe};
use crate::{Draw, Effect, Sample};

/// Maps predictions back to the grid that an image was loaded with: inverts all spatial operations
/// of the image under `orig_keys` on the one under `keys`, in reverse order (MONAI's `Invertd`).
/// Cropped parts become 0.
///
/// With `nearest_interp` (the default) resampling uses the nearest voxel, as label maps need.
/// Probabilities are better mapped back with `nearest_interp = false` and converted to labels
/// afterwards: `post_func` sets matching voxels to 1 and all others to 0.
///
/// The forward transforms need not be named: an image records its operations, including the draws
/// of random transforms.
///
/// ```
/// # use hearth_transforms::{Sample, tiny};
/// # use hearth_transforms::transforms::{CenterSpatialCrop, Invert};
/// let crop = CenterSpatialCrop::new("image", [2, 0, 0]);
/// let image = tiny::apply(crop, tiny::line([1.0, 2.0, 3.0, 4.0]))?;
/// let sample = Sample::new("case").with_image("image", image);
/// let sample = sample.with_image("pred", tiny::line([5.0, 6.0]));
/// let made = tiny::run(Invert::new("pred", "image".to_owned()), sample)?;
/// assert_eq!(made[0].image("pred")?.to_vec(), [0.0, 5.0, 6.0, 0.0]);
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Invert {
    keys: Keys,
    /// Keys of the images whose transforms are inverted, one or per key.
    #[serde(default)]
    orig_keys: Option<OneOrMany<String>>,
    #[serde(default = "yes")]
    nearest_interp: OneOrMany<bool>,
    #[serde(default)]
    post_func: Option<OneOrMany<Select>>,
    #[serde(default)]
    allow_missing_keys: bool,
}

fn yes() -> OneOrMany<bool> {
    OneOrMany::One(true)
}

impl Invert {
    /// Creates the transform: maps `keys` back by the history of `orig_keys` (one, or one per key).
    pub fn new(keys: impl Into<Keys>, orig_keys: impl Into<OneOrMany<String>>) -> Self {
        Invert {
            keys: keys.into(),
            orig_keys: Some(orig_keys.into()),
            nearest_interp: yes(),
            post_func: None,
            allow_missing_keys: false,
        }
    }

    /// Maps one prediction back; `place` is the index of its key.
    ///
    /// # Errors
    /// If it has another shape than `original`, or an affine cannot be inverted.
    pub fn invert(&self, prediction: Image, original: &Image, place: usize) -> Result<Image, TransformError> {
        let mut image = invert(prediction, original, self.nearest_interp.at(place).unwrap_or(true))?;
        if let Some(select) = self.post_func.as_ref().and_then(|select| select.at(place)) {
            image.data = select.mask(image.data).float();
        }
        Ok(image)
    }

    fn original<'a>(&'a self, key: &'a str, place: usize) -> &'a str {
        let keys = self.orig_keys.as_ref().map(OneOrMany::as_slice);
        keys.and_then(|keys| keys.get(place).or(keys.first())).map_or(key, String::as_str)
    }
}

setters!(Invert {
    /// Whether to use the nearest voxel, one or per key.
    nearest_interp: OneOrMany<bool>,
    /// Comparison that selects the voxels that become 1, one or per key.
    post_func: Option<OneOrMany<Select>>,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

impl Transform for Invert {
    fn name(&self) -> &'static str {
        "Invert"
    }

    fn effect(&self) -> Effect {
        Effect::Regrids
    }

    fn apply(&self, mut sample: Sample, _: &Draw) -> Result<Vec<Sample>, TransformError> {
        for (place, key) in self.keys.of(&sample, self.allow_missing_keys) {
            let original = self.original(key, place);
            let original = sample.image(original).map_err(|e| e.at(original))?.clone();
            sample.update(key, |prediction| self.invert(prediction, &original, place))?;
        }
        Ok(vec![sample])
    }

    fn check(&self, known: &mut BTreeSet<String>) -> Result<(), Fault> {
        self.keys.check(known)?;
        if let Some(originals) = &self.orig_keys {
            self.keys.check_list("orig_keys", originals)?;
            originals.as_slice().iter().try_for_each(|key| check_key("orig_keys", key, known))?;
        }
        self.keys.check_list("nearest_interp", &self.nearest_interp)?;
        self.post_func.as_ref().map_or(Ok(()), |select| self.keys.check_list("post_func", select))
    }

    fn describe(&self) -> serde_json::Value {
        describe(self.name(), self)
    }
}

transform_entry!(
    Invert,
    r#"keys = ["image"]
orig_keys = "image""#
);
