//! Checks that networks share.

use super::{Network, ShapeError};
use crate::layers::ConfigError;

/// 2 or 3.
pub(super) fn spatial(spatial_dims: usize) -> Result<(), ConfigError> {
    if [2, 3].contains(&spatial_dims) {
        return Ok(());
    }
    Err(ConfigError::value("spatial_dims", spatial_dims, "expected 2 or 3"))
}

/// MONAI would download weights.
pub(super) fn untrained(pretrained: bool) -> Result<(), ConfigError> {
    if !pretrained {
        return Ok(());
    }
    Err(ConfigError::value("pretrained", true, "nothing is downloaded; load the weights from a safetensors file"))
}

/// The channels the network was built with, a third axis of 1 in 2-D, and no empty axis.
pub(super) fn known_channels<N: Network>(net: &N, shape: [usize; 5]) -> Result<(), ShapeError> {
    let fail = |reason: String| Err(ShapeError { network: net.name(), shape, reason });
    let [_, channels, ..] = shape;
    if channels != net.channels()[0] {
        return fail(format!("it was built for {} input channels", net.channels()[0]));
    }
    if net.spatial_dims() == 2 && shape[4] != 1 {
        return fail("it is 2-D, so the last axis must be 1".to_owned());
    }
    if shape[2..].contains(&0) {
        return fail("an axis is empty".to_owned());
    }
    Ok(())
}
