use std::collections::BTreeSet;

use hearth_image::{Image, TransformError};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::params::Keys;
use crate::transform::{Transform, describe};
use crate::{Draw, Sample};

/// The channel axis: an axis (negative counts from the end), or `no_channel`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected the index of an axis, or \"no_channel\"")]
pub enum ChannelDim {
    /// An axis of the stored array.
    Axis(i64),
    /// The stored array has no channel axis.
    Named(NoChannel),
}

/// The name `no_channel`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum NoChannel {
    /// There is no channel axis.
    #[serde(rename = "no_channel")]
    NoChannel,
}

impl ChannelDim {
    /// The stored array has no channel axis.
    pub const NO_CHANNEL: ChannelDim = ChannelDim::Named(NoChannel::NoChannel);
}

/// Makes the channels the first axis.
///
/// An image always has a channel axis, so without `channel_dim` nothing changes unless the image's
/// metadata name an axis that was not moved. With `channel_dim`, that axis of the stored array
/// becomes the channels, and the axis that a reader used as channels returns to its place.
///
/// ```
/// # use hearth_transforms::tiny;
/// # use hearth_transforms::transforms::{ChannelDim, EnsureChannelFirst};
/// // The last axis that was stored is the channels.
/// let stored = tiny::ramp([1, 4, 4, 2]);
/// let step = EnsureChannelFirst::new("image").channel_dim(ChannelDim::Axis(-1));
/// let image = tiny::apply(step, stored)?;
/// assert_eq!((image.channels(), image.shape()), (2, [4, 4, 1]));
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EnsureChannelFirst {
    keys: Keys,
    #[serde(default)]
    channel_dim: Option<ChannelDim>,
    #[serde(default = "yes")]
    strict_check: bool,
    #[serde(default)]
    allow_missing_keys: bool,
}

fn yes() -> bool {
    true
}

impl EnsureChannelFirst {
    /// Creates the transform for these keys.
    pub fn new(keys: impl Into<Keys>) -> Self {
        EnsureChannelFirst { keys: keys.into(), channel_dim: None, strict_check: true, allow_missing_keys: false }
    }

    /// Moves the channels of one image to the front.
    ///
    /// # Errors
    /// If the axis does not exist, or `no_channel` contradicts an image of several channels.
    pub fn move_channels(&self, mut image: Image) -> Result<Image, TransformError> {
        let stored = image.meta.original_channel_dim;
        let n = image.meta.spatial_dims;
        // Whether a reader moved an axis to the channels: the stored array then has one axis in
        // addition to the spatial ones.
        let moved = image.channels() > 1 || (stored.is_some() && image.meta.original_shape.len() > n);
        let wanted = match self.channel_dim {
            None if moved => return Ok(image),
            None => match stored {
                Some(axis) => axis,
                None => return Ok(image),
            },
            Some(ChannelDim::Named(_)) => {
                if image.channels() > 1 && self.strict_check {
                    return Err(TransformError::new(format!("the image has {} channels", image.channels()))
                        .expected("an array without channel axis"));
                }
                return Ok(image);
            }
            Some(ChannelDim::Axis(axis)) => axis,
        };
        // The axes of the stored array, as axes of the tensor.
        let mut axes: Vec<usize> = (1..=n).collect();
        if moved {
            let place = stored.map_or(n as i64, |axis| if axis < 0 { axis + n as i64 + 1 } else { axis });
            axes.insert(place.clamp(0, n as i64) as usize, 0);
        }
        let rank = axes.len() as i64;
        let place = if wanted < 0 { wanted + rank } else { wanted };
        if !(0..rank).contains(&place) {
            return Err(TransformError::new(format!("channel_dim {wanted}: there is no such axis"))
                .expected(format!("an axis of the {rank} stored ones")));
        }
        let channels = axes.remove(place as usize);
        if channels == 0 {
            // The reader has already moved it.
            return Ok(image);
        }
        let dims = image.data.dims();
        let mut order = vec![channels];
        order.extend(&axes);
        order.extend((0..4).filter(|axis| *axis != channels && !axes.contains(axis)));
        let data = image.data.permute([order[0] as i64, order[1] as i64, order[2] as i64, order[3] as i64]);
        let shape: Vec<usize> = axes.iter().map(|axis| dims[*axis]).chain([1, 1]).collect();
        image.data = data.reshape([dims[channels], shape[0], shape[1], shape[2]]);
        image.meta.spatial_dims = axes.len().max(2);
        image.meta.original_channel_dim = Some(wanted);
        Ok(image)
    }
}

setters!(EnsureChannelFirst {
    /// Axis that holds the channels.
    channel_dim: Option<ChannelDim>,
    /// Whether contradictions to the metadata are errors.
    strict_check: bool,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

impl Transform for EnsureChannelFirst {
    fn name(&self) -> &'static str {
        "EnsureChannelFirst"
    }

    fn apply(&self, mut sample: Sample, _: &Draw) -> Result<Vec<Sample>, TransformError> {
        for (_, key) in self.keys.of(&sample, self.allow_missing_keys) {
            sample.update(key, |image| self.move_channels(image))?;
        }
        Ok(vec![sample])
    }

    fn check(&self, known: &mut BTreeSet<String>) -> Result<(), Fault> {
        self.keys.check(known)
    }

    fn describe(&self) -> serde_json::Value {
        describe(self.name(), self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hearth_image::{affine, host_device};

    /// An array of shape `[2, 3, 4, channels]` as a reader returns it: the last axis moved to the
    /// front.
    fn read(channels: usize) -> Image {
        let values = (0..24 * channels).map(|v| v as f32).collect();
        let mut image = Image::from_values(values, [channels, 2, 3, 4], affine::IDENTITY, &host_device());
        image.meta.original_channel_dim = Some(-1);
        image.meta.original_shape = vec![2, 3, 4, channels];
        image
    }

    #[test]
    fn a_file_of_one_volume_with_four_axes_stays() {
        let image = EnsureChannelFirst::new("image").move_channels(read(1)).expect("it stays");
        assert_eq!(image.data.dims(), [1, 2, 3, 4]);
    }

    #[test]
    fn another_axis_may_be_the_channels() {
        let step = EnsureChannelFirst { channel_dim: Some(ChannelDim::Axis(0)), ..EnsureChannelFirst::new("image") };
        let image = step.move_channels(read(5)).expect("it moves");
        assert_eq!(image.data.dims(), [2, 3, 4, 5]);
        // Stored [i, j, k, c] is read as [c, i, j, k]; now [i, j, k, c] again.
        assert_eq!(image.to_vec()[..3], [0.0, 24.0, 48.0]);
        let beyond = EnsureChannelFirst { channel_dim: Some(ChannelDim::Axis(4)), ..EnsureChannelFirst::new("image") };
        assert!(beyond.move_channels(read(5)).is_err());
    }
}

transform_entry!(
    EnsureChannelFirst,
    r#"keys = ["plain"]
channel_dim = "no_channel""#
);
