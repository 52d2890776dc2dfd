use hearth_image::{Image, TransformError};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::linear::{Linear, map_linear};
use crate::params::Keys;

/// Maps `a_min..a_max` to `b_min..b_max` linearly, then optionally clips to the latter. Without
/// `b_min` and `b_max` the target is 0..1.
///
/// If `a_min == a_max`, values are only shifted: `x - a_min + b_min`.
///
/// ```
/// # use hearth_transforms::{tiny, transforms::ScaleIntensityRange};
/// let step = ScaleIntensityRange::new("image", 0.0, 10.0).b_min(0.0).b_max(1.0).clip(true);
/// assert_eq!(tiny::apply(step, tiny::line([0.0, 5.0, 20.0]))?.to_vec(), [0.0, 0.5, 1.0]);
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScaleIntensityRange {
    keys: Keys,
    /// Value that becomes `b_min`.
    a_min: f64,
    /// Value that becomes `b_max`.
    a_max: f64,
    #[serde(default)]
    b_min: Option<f64>,
    #[serde(default)]
    b_max: Option<f64>,
    #[serde(default)]
    clip: bool,
    #[serde(default)]
    allow_missing_keys: bool,
}

impl ScaleIntensityRange {
    /// Creates the transform: from `a_min..a_max` to 0..1, not clipped.
    pub fn new(keys: impl Into<Keys>, a_min: f64, a_max: f64) -> Self {
        ScaleIntensityRange {
            keys: keys.into(),
            a_min,
            a_max,
            b_min: None,
            b_max: None,
            clip: false,
            allow_missing_keys: false,
        }
    }

    /// Scales one image.
    pub fn scale(&self, image: Image) -> Image {
        map_linear(image, &[Linear::range((self.a_min, self.a_max), (self.b_min, self.b_max), self.clip)])
    }

    fn change(&self, image: Image) -> Result<Image, TransformError> {
        Ok(self.scale(image))
    }

    fn check_parameters(&self) -> Result<(), Fault> {
        for (name, value) in
            [("a_min", Some(self.a_min)), ("a_max", Some(self.a_max)), ("b_min", self.b_min), ("b_max", self.b_max)]
        {
            if value.is_some_and(|v| !v.is_finite()) {
                return Err(Fault::at(name, "is not a finite number"));
            }
        }
        if self.a_min > self.a_max {
            return Err(Fault::at("a_min", format!("{} is larger than a_max = {}", self.a_min, self.a_max)));
        }
        if self.a_min < self.a_max && self.b_min.is_some() && self.b_min == self.b_max {
            let what = "is that of b_max: every voxel would have this value; give a range of values";
            return Err(Fault::at("b_min", what));
        }
        check_clip(self.clip, self.b_min, self.b_max)
    }
}

/// Checks that the range of clipping is not empty.
pub(super) fn check_clip(clip: bool, low: Option<f64>, high: Option<f64>) -> Result<(), Fault> {
    match (low, high) {
        (Some(low), Some(high)) if clip && low > high => {
            Err(Fault::at("b_min", format!("{low} is larger than b_max = {high}, so nothing is left to clip to")))
        }
        _ => Ok(()),
    }
}

setters!(ScaleIntensityRange {
    /// Lower end of the new range.
    b_min: Option<f64>,
    /// Upper end of the new range.
    b_max: Option<f64>,
    /// Whether to clip to the new range.
    clip: bool,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

image_transform!(ScaleIntensityRange, change);

transform_entry!(
    ScaleIntensityRange,
    r#"keys = ["image"]
a_min = -57
a_max = 164
b_min = 0.0
b_max = 1.0
clip = true"#
);
