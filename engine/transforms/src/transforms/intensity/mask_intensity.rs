use std::collections::BTreeSet;

use burn::tensor::Tensor;
use hearth_image::{Image, TransformError};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ranges::check_finite;
use super::values::zip;
use crate::params::{Keys, check_key};
use crate::transform::{Transform, describe};
use crate::{Draw, Sample};

/// Keeps the values where the image `mask_key` is above `threshold` (MONAI's `select_fn`, by
/// default `x > 0`), and sets the others to 0. A mask of one channel applies to all channels.
///
/// ```
/// # use hearth_transforms::{Sample, tiny, transforms::MaskIntensity};
/// let (image, mask) = (tiny::line([1.0, 2.0, 3.0]), tiny::line([0.0, 1.0, 1.0]));
/// let sample = Sample::new("case").with_image("image", image).with_image("mask", mask);
/// let made = tiny::run(MaskIntensity::new("image", "mask"), sample)?;
/// assert_eq!(made[0].image("image")?.to_vec(), [0.0, 2.0, 3.0]);
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MaskIntensity {
    keys: Keys,
    /// Key of the mask: an image with one channel, or with as many as the image.
    mask_key: String,
    #[serde(default)]
    threshold: f64,
    #[serde(default)]
    allow_missing_keys: bool,
}

impl MaskIntensity {
    /// Creates the transform: keeps values where `mask_key` is above 0.
    pub fn new(keys: impl Into<Keys>, mask_key: &str) -> Self {
        MaskIntensity { keys: keys.into(), mask_key: mask_key.to_owned(), threshold: 0.0, allow_missing_keys: false }
    }

    /// Masks one image.
    ///
    /// # Errors
    /// If the mask has another spatial shape, or neither one channel nor as many as the image.
    pub fn mask(&self, image: Image, mask: &Image) -> Result<Image, TransformError> {
        let (channels, of_mask) = (image.channels(), mask.channels());
        if mask.shape() != image.shape() || (of_mask != 1 && of_mask != channels) {
            return Err(TransformError::new(format!("the mask has the shape {:?}", mask.data.dims()))
                .expected(format!("{:?}, or one channel of that size", image.data.dims()))
                .advice("resample or crop both together, so that they keep one grid"));
        }
        let threshold = self.threshold as f32;
        let data = mask.data.clone().to_device(&image.data.device());
        // The product, as in MONAI: NaN times 0 is NaN.
        let product = |x: f32, m: f32| x * f32::from(m > threshold);
        let elsewhere = |x: Tensor<4>, m: Tensor<4>| x * m.greater_elem(threshold).float();
        let data = if of_mask == channels { data } else { data.repeat_dim(0, channels) };
        Ok(zip(image, &data, product, elsewhere))
    }
}

setters!(MaskIntensity {
    /// Threshold of the mask: values above it are selected.
    threshold: f64,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

impl Transform for MaskIntensity {
    fn name(&self) -> &'static str {
        "MaskIntensity"
    }

    fn apply(&self, mut sample: Sample, _: &Draw) -> Result<Vec<Sample>, TransformError> {
        let mask = sample.image(&self.mask_key)?.clone();
        for (_, key) in self.keys.of(&sample, self.allow_missing_keys) {
            sample.update(key, |image| self.mask(image, &mask))?;
        }
        Ok(vec![sample])
    }

    fn check(&self, known: &mut BTreeSet<String>) -> Result<(), Fault> {
        self.keys.check(known)?;
        check_key("mask_key", &self.mask_key, known)?;
        check_finite("threshold", self.threshold)
    }

    fn describe(&self) -> serde_json::Value {
        describe(self.name(), self)
    }
}

transform_entry!(
    MaskIntensity,
    r#"keys = ["image"]
mask_key = "mask""#
);
