use hearth_image::{Image, TransformError};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ranges::check_finite;
use super::values::map;
use super::yes;
use crate::params::Keys;

/// Keeps the values above `threshold` (or below it, if `above` is false) and replaces all others,
/// including NaN, by `cval`.
///
/// ```
/// # use hearth_transforms::{tiny, transforms::ThresholdIntensity};
/// let image = tiny::apply(ThresholdIntensity::new("image", 1.5), tiny::line([1.0, 2.0]))?;
/// assert_eq!(image.to_vec(), [0.0, 2.0]);
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ThresholdIntensity {
    keys: Keys,
    /// Threshold of the values.
    threshold: f64,
    #[serde(default = "yes")]
    above: bool,
    #[serde(default)]
    cval: f64,
    #[serde(default)]
    allow_missing_keys: bool,
}

impl ThresholdIntensity {
    /// Creates the transform: keeps values above `threshold` and sets the rest to 0.
    pub fn new(keys: impl Into<Keys>, threshold: f64) -> Self {
        ThresholdIntensity { keys: keys.into(), threshold, above: true, cval: 0.0, allow_missing_keys: false }
    }

    /// Changes one image.
    pub fn filter(&self, image: Image) -> Image {
        let (threshold, cval) = (self.threshold as f32, self.cval as f32);
        if self.above {
            map(
                image,
                |x| if x > threshold { x } else { cval },
                |x| x.clone().mask_fill(x.greater_elem(threshold).bool_not(), cval),
            )
        } else {
            map(
                image,
                |x| if x < threshold { x } else { cval },
                |x| x.clone().mask_fill(x.lower_elem(threshold).bool_not(), cval),
            )
        }
    }

    fn change(&self, image: Image) -> Result<Image, TransformError> {
        Ok(self.filter(image))
    }

    fn check_parameters(&self) -> Result<(), Fault> {
        check_finite("threshold", self.threshold)?;
        check_finite("cval", self.cval)
    }
}

setters!(ThresholdIntensity {
    /// Whether to keep values above the threshold instead of below.
    above: bool,
    /// Replacement of the other values.
    cval: f64,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

image_transform!(ThresholdIntensity, change);

transform_entry!(
    ThresholdIntensity,
    r#"keys = ["image"]
threshold = 0.5
above = true
cval = 0.0"#
);
