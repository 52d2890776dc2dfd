use hearth_image::{Image, OneOrMany, TransformError};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::linear::{Linear, map_linear};
use super::ranges::check_finite;
use super::statistics::image_moments;
use crate::params::Keys;

/// `(x - subtrahend) / divisor`, by default the mean and the (population) standard deviation.
///
/// `nonzero`: statistics over, and change of, voxels other than 0 only; an image without such
/// voxels stays. `channel_wise`: each channel by itself. A deviation of 0 counts as 1. Statistics
/// are summed in f64.
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
    /// By mean and deviation of the whole image.
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
    /// Where `subtrahend` or `divisor` is a list of another length than there are channels.
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
        // Only the moments tell which voxels count.
        let known = self.subtrahend.is_some() && self.divisor.is_some() && !self.nonzero;
        let moments = if known { Vec::new() } else { image_moments(&image, self.channel_wise, self.nonzero) };
        let map = |group: usize| {
            let own = moments.get(group).copied().unwrap_or_default();
            if self.nonzero && own.count == 0 {
                return Linear::IDENTITY;
            }
            // PyTorch computes the deviation in f32: one that is 0 there counts as 0, and 0 as 1.
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
    /// The number to subtract instead of the mean.
    subtrahend: Option<OneOrMany<f64>>,
    /// The divisor instead of the deviation.
    divisor: Option<OneOrMany<f64>>,
    /// Ignore zeros and keep them.
    nonzero: bool,
    /// Treat each channel separately.
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
