//! Adds voxels around an image.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::pad_statistic::pad_statistic;
use super::window::window;
use super::{BoundingBox, lazy};
use crate::TransformError;
use crate::affine;
use crate::image::{Applied, Image};

/// The values of added voxels; the names are those of numpy and PyTorch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PadMode {
    /// A constant, 0 unless given.
    #[default]
    Constant,
    /// The nearest edge voxel.
    #[serde(alias = "replicate")]
    Edge,
    /// The image reflected about its edge voxels, which are not repeated.
    Reflect,
    /// The image reflected about its outer faces: edge voxels are repeated.
    Symmetric,
    /// The image repeated.
    #[serde(alias = "circular")]
    Wrap,
    /// A straight line from the edge voxel down to 0.
    LinearRamp,
    /// The largest voxel of the line along the padded axis.
    Maximum,
    /// The mean of that line.
    Mean,
    /// The median of that line.
    Median,
    /// The smallest voxel of that line.
    Minimum,
    /// Unspecified values; 0 in this implementation.
    Empty,
}

impl PadMode {
    /// Whether an added voxel depends on a whole line of the image.
    pub fn looks_at_all(self) -> bool {
        use PadMode::{LinearRamp, Maximum, Mean, Median, Minimum};
        matches!(self, LinearRamp | Maximum | Mean | Median | Minimum)
    }
}

/// Adds voxels before and after each axis. `value` is used by [`PadMode::Constant`] only.
///
/// # Errors
/// If an axis is empty and the mode needs voxels to copy.
pub fn pad(
    image: Image,
    before: [usize; 3],
    after: [usize; 3],
    mode: PadMode,
    value: f32,
) -> Result<Image, TransformError> {
    let mut image = pad_unrecorded(image, before, after, mode, value)?;
    image.meta.applied.push(Applied::Pad { before, after });
    Ok(image)
}

/// Rejects padding to more than [`LIMIT`] values.
fn check_size(channels: usize, shape: [usize; 3], before: [usize; 3], after: [usize; 3]) -> Result<(), TransformError> {
    let size = |a: usize| shape[a].checked_add(before[a])?.checked_add(after[a]);
    let total = (0..3).try_fold(channels, |all, a| all.checked_mul(size(a)?));
    match total {
        Some(total) if total <= LIMIT => Ok(()),
        _ => Err(TransformError::new(format!("{shape:?} voxels, padded by {before:?} before and {after:?} after"))
            .expected(format!("at most {LIMIT} values"))
            .advice("check the size that is padded to")),
    }
}

/// 32 GiB of f32: the limit for a file.
const LIMIT: usize = 1 << 33;

pub(super) fn pad_unrecorded(
    mut image: Image,
    before: [usize; 3],
    after: [usize; 3],
    mode: PadMode,
    value: f32,
) -> Result<Image, TransformError> {
    if before == [0; 3] && after == [0; 3] {
        return Ok(image);
    }
    let shape = image.shape();
    check_size(image.channels(), shape, before, after)?;
    if lazy::pad(&mut image, before, after) {
        image.affine = affine::compose(&image.affine, &affine::translation(before.map(|v| -(v as f64))));
        return Ok(image);
    }
    image = lazy::flush(image)?;
    image.data = if mode.looks_at_all() {
        pad_statistic(image.data, before, after, mode)?
    } else {
        let start = before.map(|v| -(v as i64));
        let end = std::array::from_fn(|a| (shape[a] + after[a]) as i64);
        let value = if mode == PadMode::Constant { value } else { 0.0 };
        window(image.data, BoundingBox { start, end }, mode, value)?
    };
    let offset = before.map(|v| -(v as f64));
    image.affine = affine::compose(&image.affine, &affine::translation(offset));
    Ok(image)
}
