use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::params::Keys;
use crate::transform::{Transform, describe};
use crate::{CheckError, Draw, Image, Sample, TransformError};

/// Where the channels are: an axis (negative counts from the end), or `no_channel`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ChannelDim {
    /// An axis of the stored array.
    Axis(i64),
    /// The stored array has no channel axis.
    Named(NoChannel),
}

/// The word `no_channel`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NoChannel {
    /// There is none.
    #[serde(rename = "no_channel")]
    NoChannel,
}

impl ChannelDim {
    /// The stored array has no channel axis.
    pub const NO_CHANNEL: ChannelDim = ChannelDim::Named(NoChannel::NoChannel);
}

/// Makes the first axis the channels.
///
/// An image always has a channel axis here, so without `channel_dim` there is nothing to do unless the image's metadata name an
/// axis that was not moved. With `channel_dim`, an image that was loaded as one channel gets its channels from that axis.
#[derive(Clone, Debug, Serialize, Deserialize)]
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
    /// For these keys.
    pub fn new(keys: impl Into<Keys>) -> Self {
        EnsureChannelFirst { keys: keys.into(), channel_dim: None, strict_check: true, allow_missing_keys: false }
    }

    /// Moves the channels of one image to the front.
    ///
    /// # Errors
    /// Where the axis does not exist, or the image already has several channels from another one.
    pub fn move_channels(&self, mut image: Image) -> Result<Image, TransformError> {
        let stored = image.meta.original_channel_dim;
        let wanted = match self.channel_dim {
            None if image.channels() > 1 => return Ok(image),
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
        let n = image.meta.spatial_dims as i64;
        if image.channels() > 1 {
            // The reader moved the last axis already.
            if wanted == -1 || wanted == n || Some(wanted) == stored {
                return Ok(image);
            }
            return Err(TransformError::new(format!(
                "channel_dim is {wanted}, but the image has {} channels from axis {stored:?}",
                image.channels()
            )));
        }
        let axis = if wanted < 0 { wanted + n } else { wanted };
        if !(0..n).contains(&axis) {
            return Err(TransformError::new(format!("channel_dim {wanted}: there is no such axis"))
                .expected(format!("an axis of {:?}", image.spatial_shape())));
        }
        let axis = axis as usize;
        let shape = image.shape();
        let mut order = vec![1 + axis as i64];
        order.extend((0..3).filter(|a| *a != axis).map(|a| a as i64 + 1));
        let rest: Vec<usize> = (0..3).filter(|a| *a != axis).map(|a| shape[a]).collect();
        let channels = shape[axis];
        let [one, a, b] = [order[0], order[1], order[2]];
        image.data = image.data.permute([0, one, a, b]).reshape([channels, rest[0], rest[1], 1]);
        image.meta.spatial_dims = (n - 1).max(2) as usize;
        image.meta.original_channel_dim = Some(wanted);
        Ok(image)
    }
}

setters!(EnsureChannelFirst {
    /// The axis that holds the channels.
    channel_dim: Option<ChannelDim>,
    /// Refuse what contradicts the metadata.
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

    fn check(&self, known: &mut BTreeSet<String>) -> Result<(), CheckError> {
        self.keys.check(known)
    }

    fn describe(&self) -> serde_json::Value {
        describe(self.name(), self)
    }
}
