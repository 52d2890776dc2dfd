use hearth_image::{Image, TransformError};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::linear::{Linear, map_linear};
use super::ranges::{check_finite, for_channels};
use super::statistics::{image_extremes, image_moments};
use super::yes;
use crate::params::Keys;

/// Multiplies by `1 + factor` around the mean, which is preserved:
/// `(x - mean) * (1 + factor) + mean`.
///
/// With `preserve_range` the result is clipped to the original range of the values. Without
/// `fixed_mean` the values themselves are multiplied. With `channel_wise` mean and range are those
/// of each channel.
///
/// ```
/// # use hearth_transforms::{tiny, transforms::ScaleIntensityFixedMean};
/// let image = tiny::apply(ScaleIntensityFixedMean::new("image", 1.0), tiny::line([1.0, 3.0]))?;
/// assert_eq!(image.to_vec(), [0.0, 4.0]);
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScaleIntensityFixedMean {
    keys: Keys,
    /// Factor f: distances from the mean are multiplied by 1 + f.
    #[serde(default)]
    factor: f64,
    #[serde(default)]
    preserve_range: bool,
    #[serde(default = "yes")]
    fixed_mean: bool,
    #[serde(default)]
    channel_wise: bool,
    #[serde(default)]
    allow_missing_keys: bool,
}

impl ScaleIntensityFixedMean {
    /// Creates the transform: multiplies by `1 + factor`, around the mean.
    pub fn new(keys: impl Into<Keys>, factor: f64) -> Self {
        ScaleIntensityFixedMean {
            keys: keys.into(),
            factor,
            preserve_range: false,
            fixed_mean: true,
            channel_wise: false,
            allow_missing_keys: false,
        }
    }

    /// Scales one image.
    pub fn scale(&self, image: Image) -> Image {
        let count = if self.channel_wise { image.channels() } else { 1 };
        scale_around_mean(image, &vec![self.factor; count], self.fixed_mean, self.preserve_range)
    }

    fn change(&self, image: Image) -> Result<Image, TransformError> {
        Ok(self.scale(image))
    }

    fn check_parameters(&self) -> Result<(), Fault> {
        check_finite("factor", self.factor)
    }
}

/// Scales with one factor for the image, or one per channel.
pub(super) fn scale_around_mean(image: Image, factors: &[f64], fixed_mean: bool, preserve_range: bool) -> Image {
    let factors = for_channels(factors, image.channels());
    let channel_wise = factors.len() > 1;
    let means = fixed_mean.then(|| image_moments(&image, channel_wise, false));
    let ranges = preserve_range.then(|| image_extremes(&image, channel_wise));
    let map = |(i, factor): (usize, &f64)| {
        let mean = means.as_ref().map_or(0.0, |m| m[i].mean) as f32;
        let (low, high) = ranges.as_ref().map_or((f32::NEG_INFINITY, f32::INFINITY), |r| r[i]);
        Linear { shift: mean, factor: (1.0 + factor) as f32, offset: mean, low, high, keep_zero: false }
    };
    let maps: Vec<Linear> = factors.iter().enumerate().map(map).collect();
    map_linear(image, &maps)
}

setters!(ScaleIntensityFixedMean {
    /// Whether to clip to the range of the input.
    preserve_range: bool,
    /// Whether to keep the mean.
    fixed_mean: bool,
    /// Whether to treat each channel separately.
    channel_wise: bool,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

image_transform!(ScaleIntensityFixedMean, change);

transform_entry!(
    ScaleIntensityFixedMean,
    r#"keys = ["image"]
factor = 0.1"#
);
