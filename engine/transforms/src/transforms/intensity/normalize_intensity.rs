use hearth_image::{Image, OneOrMany, TransformError};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::linear::{Linear, map_linear};
use super::ranges::check_finite;
use super::statistics::image_moments;
use crate::params::Keys;

/// Computes `(x - subtrahend) / divisor`, by default with the mean and the (population) standard
/// deviation.
///
/// With `nonzero` only voxels other than 0 are changed and used in statistics; an image without
/// such voxels is unchanged. With `channel_wise` each channel is treated separately. A deviation of
/// 0 is replaced by 1. Statistics are summed in f64.
///
/// ```
/// # use hearth_transforms::{tiny, transforms::NormalizeIntensity};
/// let image = tiny::apply(NormalizeIntensity::new("image"), tiny::line([1.0, 3.0]))?;
/// assert_eq!(image.to_vec(), [-1.0, 1.0]);
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NormalizeIntensity {
    keys: Keys,
    #[serde(default)]
    subtrahend: Option<OneOrMany<f64>>,
    #[serde(default)]
    divisor: Option<OneOrMany<f64>>,
    #[serde(default)]
    nonzero: bool,
    #[serde(default)]
    channel_wise: bool,
    #[serde(default)]
    allow_missing_keys: bool,
}

impl NormalizeIntensity {
    /// Creates the transform: mean and deviation of the whole image.
    pub fn new(keys: impl Into<Keys>) -> Self {
        NormalizeIntensity {
            keys: keys.into(),
            subtrahend: None,
            divisor: None,
            nonzero: false,
            channel_wise: false,
            allow_missing_keys: false,
        }
    }

    /// Normalizes one image.
    ///
    /// # Errors
    /// If `subtrahend` or `divisor` is a list whose length is not the number of channels.
    pub fn normalize(&self, image: Image) -> Result<Image, TransformError> {
        let channels = image.channels();
        for (name, given) in [("subtrahend", &self.subtrahend), ("divisor", &self.divisor)] {
            let Some(OneOrMany::Many(values)) = given else { continue };
            let expected = if self.channel_wise { channels } else { 1 };
            if values.len() != expected {
                return Err(TransformError::new(format!("`{name}` has {} entries", values.len()))
                    .expected(format!("{expected}, for {channels} channels")));
            }
        }
        let groups = if self.channel_wise { channels } else { 1 };
        let given = |values: &Option<OneOrMany<f64>>, group: usize| values.as_ref().and_then(|v| v.at(group));
        // Only the moments show which voxels are used.
        let known = self.subtrahend.is_some() && self.divisor.is_some() && !self.nonzero;
        let moments = if known { Vec::new() } else { image_moments(&image, self.channel_wise, self.nonzero) };
        let map = |group: usize| {
            let own = moments.get(group).copied().unwrap_or_default();
            if self.nonzero && own.count == 0 {
                return Linear::IDENTITY;
            }
            // PyTorch computes the deviation in f32: one that is 0 in f32 counts as 0, and 0 as 1.
            let deviation = given(&self.divisor, group).unwrap_or_else(|| own.deviation()) as f32;
            let deviation = if deviation == 0.0 { 1.0 } else { f64::from(deviation) };
            Linear {
                shift: given(&self.subtrahend, group).unwrap_or(own.mean) as f32,
                factor: (1.0 / deviation) as f32,
                keep_zero: self.nonzero,
                ..Linear::IDENTITY
            }
        };
        let maps: Vec<Linear> = (0..groups).map(map).collect();
        Ok(map_linear(image, &maps))
    }

    fn check_parameters(&self) -> Result<(), Fault> {
        for (name, given) in [("subtrahend", &self.subtrahend), ("divisor", &self.divisor)] {
            given.iter().flat_map(OneOrMany::as_slice).try_for_each(|v| check_finite(name, *v))?;
        }
        Ok(())
    }
}

setters!(NormalizeIntensity {
    /// Number to subtract instead of the mean.
    subtrahend: Option<OneOrMany<f64>>,
    /// Divisor instead of the deviation.
    divisor: Option<OneOrMany<f64>>,
    /// Whether to ignore zeros and keep them.
    nonzero: bool,
    /// Whether to treat each channel separately.
    channel_wise: bool,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

image_transform!(NormalizeIntensity, normalize);

transform_entry!(
    NormalizeIntensity,
    r#"keys = ["image"]
nonzero = true
channel_wise = true"#
);
