use hearth_image::{Image, TransformError};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::linear::{Linear, map_linear};
use super::percentile::percentiles;
use super::ranges::check_percentile;
use super::scale_intensity_range::check_clip;
use super::values::groups;
use crate::params::Keys;

/// Applies [`ScaleIntensityRange`](super::ScaleIntensityRange) with the values at two percentiles
/// of the image, or of each channel.
///
/// With `relative` the target is the same percentiles of `b_min..b_max` instead of its ends. The
/// percentiles are those of `torch.quantile`, and above a million values those of numpy, as in
/// MONAI.
///
/// ```
/// # use hearth_transforms::{tiny, transforms::ScaleIntensityRangePercentiles};
/// let step = ScaleIntensityRangePercentiles::new("image", 0.0, 100.0).b_min(0.0).b_max(1.0);
/// assert!(tiny::is_near(&tiny::apply(step, tiny::line([2.0, 4.0, 6.0]))?, [0.0, 0.5, 1.0]));
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScaleIntensityRangePercentiles {
    keys: Keys,
    /// Percentile that becomes `b_min`.
    lower: f64,
    /// Percentile that becomes `b_max`.
    upper: f64,
    #[serde(default)]
    b_min: Option<f64>,
    #[serde(default)]
    b_max: Option<f64>,
    #[serde(default)]
    clip: bool,
    #[serde(default)]
    relative: bool,
    #[serde(default)]
    channel_wise: bool,
    #[serde(default)]
    allow_missing_keys: bool,
}

impl ScaleIntensityRangePercentiles {
    /// Creates the transform: from the percentiles `lower` and `upper` to 0..1, not clipped.
    pub fn new(keys: impl Into<Keys>, lower: f64, upper: f64) -> Self {
        ScaleIntensityRangePercentiles {
            keys: keys.into(),
            lower,
            upper,
            b_min: None,
            b_max: None,
            clip: false,
            relative: false,
            channel_wise: false,
            allow_missing_keys: false,
        }
    }

    /// Scales one image.
    ///
    /// # Errors
    /// If it is relative and the range is missing.
    pub fn scale(&self, image: Image) -> Result<Image, TransformError> {
        let range = match (self.relative, self.b_min, self.b_max) {
            (false, low, high) => (low, high),
            (true, Some(low), Some(high)) => {
                let at = |percent: f64| Some((high - low) * (percent / 100.0) + low);
                (at(self.lower), at(self.upper))
            }
            _ => return Err(TransformError::new("`relative` needs both b_min and b_max")),
        };
        let (_, size) = groups(&image, self.channel_wise);
        let maps: Vec<Linear> = image.with_values(|values| {
            let ends = values.chunks(size).map(|values| percentiles(values, &[self.lower, self.upper]));
            ends.map(|a| Linear::range((f64::from(a[0]), f64::from(a[1])), range, self.clip)).collect()
        });
        Ok(if maps.is_empty() { image } else { map_linear(image, &maps) })
    }

    fn check_parameters(&self) -> Result<(), Fault> {
        check_percentile("lower", self.lower)?;
        check_percentile("upper", self.upper)?;
        for (name, value) in [("b_min", self.b_min), ("b_max", self.b_max)] {
            match value {
                None if self.relative => return Err(Fault::at(name, "is needed for `relative`")),
                Some(v) if !v.is_finite() => return Err(Fault::at(name, "is not a finite number")),
                _ => {}
            }
        }
        if self.lower > self.upper {
            return Err(Fault::at("lower", format!("{} is larger than upper = {}", self.lower, self.upper)));
        }
        check_clip(self.clip, self.b_min, self.b_max)
    }
}

setters!(ScaleIntensityRangePercentiles {
    /// Lower end of the new range.
    b_min: Option<f64>,
    /// Upper end of the new range.
    b_max: Option<f64>,
    /// Whether to clip to the new range.
    clip: bool,
    /// Whether to scale to the percentiles of the new range.
    relative: bool,
    /// Whether to treat each channel separately.
    channel_wise: bool,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

image_transform!(ScaleIntensityRangePercentiles, scale, through_host: |_| true);

transform_entry!(
    ScaleIntensityRangePercentiles,
    r#"keys = ["image"]
lower = 1
upper = 99
b_min = 0.0
b_max = 1.0"#
);
