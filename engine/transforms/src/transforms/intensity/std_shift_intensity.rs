use hearth_image::{Image, TransformError};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::linear::{Linear, map_linear};
use super::ranges::check_finite;
use super::statistics::{Moments, image_moments};
use crate::params::Keys;

/// Adds `factor` times the (population) standard deviation of the image, or of each channel.
///
/// With `nonzero` only voxels other than 0 are changed and used for the deviation.
///
/// ```
/// # use hearth_transforms::{tiny, transforms::StdShiftIntensity};
/// let image = tiny::apply(StdShiftIntensity::new("image", 1.0), tiny::line([1.0, 3.0]))?;
/// assert_eq!(image.to_vec(), [2.0, 4.0]);
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StdShiftIntensity {
    keys: Keys,
    /// Factor of the standard deviation that is added.
    factor: f64,
    #[serde(default)]
    nonzero: bool,
    #[serde(default)]
    channel_wise: bool,
    #[serde(default)]
    allow_missing_keys: bool,
}

impl StdShiftIntensity {
    /// Creates the transform: adds `factor` deviations of the whole image.
    pub fn new(keys: impl Into<Keys>, factor: f64) -> Self {
        StdShiftIntensity { keys: keys.into(), factor, nonzero: false, channel_wise: false, allow_missing_keys: false }
    }

    /// Shifts one image.
    pub fn shift(&self, image: Image) -> Image {
        shift_by_deviation(image, self.factor, self.nonzero, self.channel_wise)
    }

    fn change(&self, image: Image) -> Result<Image, TransformError> {
        Ok(self.shift(image))
    }

    fn check_parameters(&self) -> Result<(), Fault> {
        check_finite("factor", self.factor)
    }
}

/// Applies [`StdShiftIntensity`] with a given factor.
pub(super) fn shift_by_deviation(image: Image, factor: f64, nonzero: bool, channel_wise: bool) -> Image {
    let offset = |m: &Moments| if m.count == 0 { 0.0 } else { (factor * m.deviation()) as f32 };
    let maps: Vec<Linear> = image_moments(&image, channel_wise, nonzero)
        .iter()
        .map(|m| Linear { offset: offset(m), keep_zero: nonzero, ..Linear::IDENTITY })
        .collect();
    map_linear(image, &maps)
}

setters!(StdShiftIntensity {
    /// Whether to ignore zeros and keep them.
    nonzero: bool,
    /// Whether to treat each channel separately.
    channel_wise: bool,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

image_transform!(StdShiftIntensity, change);

transform_entry!(
    StdShiftIntensity,
    r#"keys = ["image"]
factor = 0.5"#
);
