//! Checks that networks share.

use super::{Network, ShapeError};
use crate::layers::ConfigError;

/// Checks the number of spatial axes: 2 or 3.
pub(super) fn spatial(spatial_dims: usize) -> Result<(), ConfigError> {
    if [2, 3].contains(&spatial_dims) {
        return Ok(());
    }
    Err(ConfigError::value("spatial_dims", spatial_dims, "expected 2 or 3"))
}

/// Rejects `pretrained`, for which MONAI would download weights.
pub(super) fn untrained(pretrained: bool) -> Result<(), ConfigError> {
    if !pretrained {
        return Ok(());
    }
    Err(ConfigError::value("pretrained", true, "weights are not downloaded; load them from a safetensors file"))
}

/// Checks the channels against those of the network, that a third axis is 1 in 2-D, and that no
/// axis is empty.
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

/// Runs the default checks of [`Network::check_input`], and checks that each axis in use is
/// divisible by `number`: 8 for a network that halves its input three times. `shape` is
/// `[b, c, x, y, z]`.
///
/// # Errors
/// The first failed check, with the size to pad or crop to.
pub fn check_divisible<N: Network>(net: &N, shape: [usize; 5], number: usize) -> Result<(), ShapeError> {
    known_channels(net, shape)?;
    let axes = &shape[2..2 + net.spatial_dims().min(3)];
    if axes.iter().all(|length| length % number.max(1) == 0) {
        return Ok(());
    }
    let fits: Vec<usize> = axes.iter().map(|length| length.next_multiple_of(number)).collect();
    let reason = format!("every axis must be divisible by {number}; pad or crop to {fits:?}");
    Err(ShapeError { network: net.name(), shape, reason })
}
