use std::collections::BTreeSet;

use hearth_image::{OneOrMany, TransformError};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::crop_centers::{check_samples, cut};
use super::rand_spatial_crop::{Boxes, common_shape, yes};
use crate::params::Keys;
use crate::transform::{Transform, describe};
use crate::{Draw, Effect, Sample};

/// Crops `num_samples` boxes, each drawn as by [`super::RandSpatialCrop`].
///
/// ```
/// # use hearth_transforms::{Sample, tiny, transforms::RandSpatialCropSamples};
/// let step = RandSpatialCropSamples::new("image", [2, 1, 1], 3).random_size(false);
/// let crops = tiny::run(step, Sample::new("case").with_image("image", tiny::ramp([1, 4, 1, 1])))?;
/// assert_eq!((crops.len(), crops[0].image("image")?.shape()), (3, [2, 1, 1]));
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RandSpatialCropSamples {
    keys: Keys,
    roi_size: OneOrMany<i64>,
    /// Number of crops.
    num_samples: usize,
    #[serde(default)]
    max_roi_size: Option<OneOrMany<i64>>,
    #[serde(default = "yes")]
    random_center: bool,
    #[serde(default)]
    random_size: bool,
    #[serde(default)]
    allow_missing_keys: bool,
}

impl RandSpatialCropSamples {
    /// Creates the transform: this number of boxes of this size anywhere in the image.
    pub fn new(keys: impl Into<Keys>, roi_size: impl Into<OneOrMany<i64>>, num_samples: usize) -> Self {
        RandSpatialCropSamples {
            keys: keys.into(),
            roi_size: roi_size.into(),
            num_samples,
            max_roi_size: None,
            random_center: true,
            random_size: false,
            allow_missing_keys: false,
        }
    }
}

setters!(RandSpatialCropSamples {
    /// Largest size in voxels.
    max_roi_size: Option<OneOrMany<i64>>,
    /// Whether the position is random instead of the middle.
    random_center: bool,
    /// Whether the size is drawn, too.
    random_size: bool,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

impl Transform for RandSpatialCropSamples {
    fn name(&self) -> &'static str {
        "RandSpatialCropSamples"
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

    fn effect(&self) -> Effect {
        if self.random_size { Effect::Regrids } else { Effect::sizing("roi_size", self.roi_size.as_slice()) }
    }

    fn apply(&self, sample: Sample, draw: &Draw) -> Result<Vec<Sample>, TransformError> {
        let keys = self.keys.of(&sample, self.allow_missing_keys);
        let (shape, n) = common_shape(&sample, &keys)?;
        let sizes = (&self.roi_size, self.max_roi_size.as_ref());
        let boxes = Boxes::new(sizes, (self.random_center, self.random_size), shape, n)?;
        let regions = (0..self.num_samples).map(|_| boxes.draw(draw, shape, n)).collect::<Result<Vec<_>, _>>()?;
        cut(sample, &keys, &regions)
    }

    fn check(&self, known: &mut BTreeSet<String>) -> Result<(), Fault> {
        self.keys.check(known)?;
        check_samples(self.num_samples)
    }

    fn describe(&self) -> serde_json::Value {
        describe(self.name(), self)
    }
}

transform_entry!(
    RandSpatialCropSamples,
    r#"keys = ["image", "label"]
roi_size = [8, 8, 8]
num_samples = 2
random_size = false"#
);
