use std::collections::BTreeSet;

use hearth_image::{OneOrMany, TransformError};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::center_scale_crop::{check_scale, scaled_size};
use super::crop_centers::cut;
use super::rand_spatial_crop::{Boxes, common_shape, yes};
use crate::params::Keys;
use crate::transform::{Transform, describe};
use crate::{Draw, Sample};

/// Applies [`super::RandSpatialCrop`] with sizes as fractions of the image: `roi_scale` and
/// `max_roi_scale` of each axis, rounded up to whole voxels.
///
/// ```
/// # use hearth_transforms::{tiny, transforms::RandScaleCrop};
/// let step = RandScaleCrop::new("image", [0.5, 1.0, 1.0]).random_size(false);
/// let values = tiny::apply(step, tiny::ramp([1, 4, 1, 1]))?.to_vec();
/// assert!(values.len() == 2 && values[1] == values[0] + 1.0);
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RandScaleCrop {
    keys: Keys,
    /// Fraction of each axis that is kept, or the smallest fraction, one or per axis.
    roi_scale: OneOrMany<f64>,
    #[serde(default)]
    max_roi_scale: Option<OneOrMany<f64>>,
    #[serde(default = "yes")]
    random_center: bool,
    #[serde(default)]
    random_size: bool,
    #[serde(default)]
    allow_missing_keys: bool,
}

impl RandScaleCrop {
    /// Creates the transform: a box of this fraction of each axis, anywhere in the image.
    pub fn new(keys: impl Into<Keys>, roi_scale: impl Into<OneOrMany<f64>>) -> Self {
        RandScaleCrop {
            keys: keys.into(),
            roi_scale: roi_scale.into(),
            max_roi_scale: None,
            random_center: true,
            random_size: false,
            allow_missing_keys: false,
        }
    }
}

setters!(RandScaleCrop {
    /// Largest fraction.
    max_roi_scale: Option<OneOrMany<f64>>,
    /// Whether the position is random instead of the middle.
    random_center: bool,
    /// Whether the size is drawn, too.
    random_size: bool,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

impl Transform for RandScaleCrop {
    fn name(&self) -> &'static str {
        "RandScaleCrop"
    }

    fn is_random(&self) -> bool {
        true
    }

    fn is_lazy(&self) -> bool {
        true
    }

    fn reads_boxes(&self, _key: &str) -> bool {
        true
    }

    fn apply(&self, sample: Sample, draw: &Draw) -> Result<Vec<Sample>, TransformError> {
        let keys = self.keys.of(&sample, self.allow_missing_keys);
        let (shape, n) = common_shape(&sample, &keys)?;
        let most = match (self.random_size, &self.max_roi_scale) {
            (false, _) => None,
            (true, None) => Some(shape),
            (true, Some(scale)) => Some(scaled_size("max_roi_scale", scale, shape, n)?),
        };
        let least = scaled_size("roi_scale", &self.roi_scale, shape, n)?;
        let region = Boxes { least, most, random_center: self.random_center }.draw(draw, shape, n)?;
        cut(sample, &keys, &[region])
    }

    fn check(&self, known: &mut BTreeSet<String>) -> Result<(), Fault> {
        self.keys.check(known)?;
        check_scale("roi_scale", &self.roi_scale)?;
        self.max_roi_scale.as_ref().map_or(Ok(()), |scale| check_scale("max_roi_scale", scale))
    }

    fn describe(&self) -> serde_json::Value {
        describe(self.name(), self)
    }
}

transform_entry!(
    RandScaleCrop,
    r#"keys = ["image", "label"]
roi_scale = 0.5
random_size = false"#
);
