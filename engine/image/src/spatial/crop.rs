//! Crops a box.

use super::lazy;
use super::pad::{PadMode, pad};
use crate::TransformError;
use crate::affine;
use crate::image::{Applied, Image};

/// A box in voxels, per axis from `start` (inclusive) to `end` (exclusive); it may reach beyond the
/// image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BoundingBox {
    /// First voxel, per axis.
    pub start: [i64; 3],
    /// One past the last voxel, per axis.
    pub end: [i64; 3],
}

impl BoundingBox {
    /// Whether the box holds no voxel.
    pub fn is_empty(&self) -> bool {
        (0..3).any(|a| self.end[a] <= self.start[a])
    }

    /// Enlarges each side to a multiple of `k`; half of the added voxels, rounded down, go before.
    /// An empty side stays empty.
    pub fn divisible_by(mut self, k: [usize; 3]) -> Self {
        for axis in 0..3 {
            let size = self.end[axis] - self.start[axis];
            let k = k[axis] as i64;
            if k > 0 {
                let wanted = (size.saturating_add(k - 1) / k).saturating_mul(k);
                self.start[axis] -= (wanted - size).div_euclid(2);
                self.end[axis] = self.start[axis].saturating_add(wanted);
            }
        }
        self
    }
}

/// Crops `start..end`, which must lie within the image.
///
/// # Panics
/// If it does not.
pub fn crop(image: Image, start: [usize; 3], end: [usize; 3]) -> Image {
    let shape = image.shape();
    let mut image = crop_unrecorded(image, start, end);
    image.meta.applied.push(Applied::Crop { start, shape });
    image
}

pub(super) fn crop_unrecorded(mut image: Image, start: [usize; 3], end: [usize; 3]) -> Image {
    if start == [0; 3] && end == image.shape() {
        return image;
    }
    if !lazy::crop(&mut image, start, end) {
        let channels = image.channels();
        image.data = if (0..3).any(|a| start[a] >= end[a]) {
            let size: [usize; 3] = std::array::from_fn(|a| end[a].saturating_sub(start[a]));
            // An image without voxels has no pending operations.
            image.meta.lazy = lazy::Laziness::Off;
            burn::tensor::Tensor::zeros([channels, size[0], size[1], size[2]], &image.data.device())
        } else {
            image.data.slice([0..channels, start[0]..end[0], start[1]..end[1], start[2]..end[2]])
        };
    }
    image.affine = affine::compose(&image.affine, &affine::translation(start.map(|v| v as f64)));
    image
}

/// Crops a box; parts beyond the image are padded.
///
/// # Errors
/// If a reflecting or wrapping mode has no values to copy.
pub fn crop_or_pad(image: Image, region: BoundingBox, mode: PadMode, value: f32) -> Result<Image, TransformError> {
    let shape = image.shape();
    let inside = |v: i64, axis: usize| v.clamp(0, shape[axis] as i64) as usize;
    let start = std::array::from_fn(|a| inside(region.start[a], a));
    let end = std::array::from_fn(|a| inside(region.end[a], a).max(start[a]));
    let before: [usize; 3] = std::array::from_fn(|a| (-region.start[a]).max(0) as usize);
    let after: [usize; 3] = std::array::from_fn(|a| (region.end[a] - shape[a] as i64).max(0) as usize);
    let image = crop(image, start, end);
    if before == [0; 3] && after == [0; 3] { Ok(image) } else { pad(image, before, after, mode, value) }
}
