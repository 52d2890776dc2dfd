use std::collections::BTreeSet;

use hearth_image::spatial::{ComputeType, GridMode, GridPadding, GridSampling, resample_to};
use hearth_image::{Image, OneOrMany, TransformError, affine};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::params::{Keys, check_key};
use crate::transform::{Transform, describe};
use crate::{Draw, Sample};

/// Resamples to the grid of the image `key_dst`: its affine and its size.
///
/// The image keeps the metadata of its file; MONAI copies those of the other image.
///
/// ```
/// # use hearth_transforms::{Sample, tiny, transforms::ResampleToMatch};
/// let mut coarse = tiny::line([0.0, 0.0]);
/// coarse.affine[0][0] = 2.0;
/// let sample = Sample::new("case").with_image("image", tiny::ramp([1, 4, 1, 1]));
/// let sample = sample.with_image("coarse", coarse);
/// let made = tiny::run(ResampleToMatch::new("image", "coarse"), sample)?;
/// assert!(tiny::is_near(made[0].image("image")?, [0.0, 2.0]));
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResampleToMatch {
    keys: Keys,
    /// Key of the image with the target grid.
    key_dst: String,
    #[serde(default)]
    mode: OneOrMany<GridMode>,
    #[serde(default)]
    padding_mode: OneOrMany<GridPadding>,
    #[serde(default)]
    align_corners: OneOrMany<bool>,
    #[serde(default)]
    dtype: Option<OneOrMany<ComputeType>>,
    #[serde(default)]
    allow_missing_keys: bool,
}

impl ResampleToMatch {
    /// Creates the transform: resamples these keys to the grid of `key_dst`.
    pub fn new(keys: impl Into<Keys>, key_dst: &str) -> Self {
        ResampleToMatch {
            keys: keys.into(),
            key_dst: key_dst.to_owned(),
            mode: OneOrMany::default(),
            padding_mode: OneOrMany::default(),
            align_corners: OneOrMany::default(),
            dtype: None,
            allow_missing_keys: false,
        }
    }

    /// Resamples one image to the grid of an affine and a shape; `place` is the index of its key.
    ///
    /// # Errors
    /// If an affine cannot be inverted.
    pub fn resample(
        &self,
        image: Image,
        destination: &affine::Affine,
        shape: [usize; 3],
        place: usize,
    ) -> Result<Image, TransformError> {
        let n = image.meta.spatial_dims;
        let align_corners = self.align_corners.at(place).unwrap_or_default();
        let sampling = GridSampling::of_key(place, &self.mode, &self.padding_mode, align_corners);
        let mut image = resample_to(image, &affine::restrict(destination, n), shape, sampling)?;
        image.affine = *destination;
        Ok(image)
    }
}

setters!(ResampleToMatch {
    /// Interpolation, one or per key.
    mode: OneOrMany<GridMode>,
    /// How the outside is filled, one or per key.
    padding_mode: OneOrMany<GridPadding>,
    /// Whether the ends of an axis are the centres of its first and last voxel, one or per key.
    align_corners: OneOrMany<bool>,
    /// Type in which MONAI computes; accepted without effect: coordinates are f64, values f32.
    dtype: Option<OneOrMany<ComputeType>>,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

impl Transform for ResampleToMatch {
    fn name(&self) -> &'static str {
        "ResampleToMatch"
    }

    fn is_lazy(&self) -> bool {
        true
    }

    fn apply(&self, mut sample: Sample, _: &Draw) -> Result<Vec<Sample>, TransformError> {
        let like = sample.image(&self.key_dst).map_err(|e| e.at(&self.key_dst))?;
        let (destination, shape) = (like.affine, like.shape());
        for (place, key) in self.keys.of(&sample, self.allow_missing_keys) {
            sample.update(key, |image| self.resample(image, &destination, shape, place))?;
        }
        Ok(vec![sample])
    }

    fn check(&self, known: &mut BTreeSet<String>) -> Result<(), Fault> {
        self.keys.check(known)?;
        check_key("key_dst", &self.key_dst, known)?;
        self.keys.check_list("mode", &self.mode)?;
        self.keys.check_list("padding_mode", &self.padding_mode)?;
        self.keys.check_list("align_corners", &self.align_corners)
    }

    fn describe(&self) -> serde_json::Value {
        describe(self.name(), self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_does_not_exist_is_named() {
        let mut known = BTreeSet::from(["image".to_owned(), "scan".to_owned()]);
        let error = ResampleToMatch::new(["image"], "scann").check(&mut known).expect_err("no such key");
        assert_eq!(error.suggestion.as_deref(), Some("scan"));
    }

    #[test]
    fn both_grids_agree_afterwards_to_the_last_digit() {
        let device = hearth_image::host_device();
        let image = Image::from_values(vec![1.0; 60], [1, 3, 4, 5], affine::IDENTITY, &device);
        let mut turned = affine::IDENTITY;
        (turned[0][0], turned[0][1], turned[1][0], turned[1][1]) = (0.6, -0.8, 0.8, 0.6);
        let like = Image::from_values(vec![0.0; 8], [1, 2, 2, 2], turned, &device);
        let step = ResampleToMatch::new(["image"], "like");
        let done = step.resample(image, &like.affine, like.shape(), 0).expect("an image");
        assert_eq!((done.affine, done.shape()), (like.affine, like.shape()));
    }
}

transform_entry!(
    ResampleToMatch,
    r#"keys = ["image"]
key_dst = "label""#
);
