//! Adding voxels around an image.

use burn::tensor::{Int, Tensor, TensorData};
use serde::{Deserialize, Serialize};

use crate::TransformError;
use crate::affine;
use crate::image::{Applied, Image};

/// What the added voxels hold (numpy's and PyTorch's names).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
}

/// Adds voxels before and after each axis. `value` counts for [`PadMode::Constant`] only.
///
/// # Errors
/// Where an axis is empty and the mode needs voxels to copy.
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
    let [c, x, y, z] = image.data.dims();
    let shape = [x, y, z];
    let device = image.data.device();
    image.data = if mode == PadMode::Constant {
        let size: [usize; 3] = std::array::from_fn(|a| shape[a] + before[a] + after[a]);
        let full = Tensor::<4>::full([c, size[0], size[1], size[2]], value, &device);
        if shape.contains(&0) {
            full
        } else {
            let [i, j, k] = before;
            full.slice_assign([0..c, i..i + x, j..j + y, k..k + z], image.data)
        }
    } else {
        let mut data = image.data;
        for axis in 0..3 {
            if before[axis] + after[axis] == 0 {
                continue;
            }
            if shape[axis] == 0 {
                return Err(TransformError::new(format!("axis {axis} is empty, {mode:?} padding has nothing to copy")));
            }
            let index = sources(shape[axis], before[axis], after[axis], mode);
            let n = index.len();
            data = data.select(axis + 1, Tensor::<1, Int>::from_data(TensorData::new(index, [n]), &device));
        }
        data
    };
    let offset = before.map(|v| -(v as f64));
    image.affine = affine::compose(&image.affine, &affine::translation(offset));
    Ok(image)
}

/// Which voxel each voxel of the padded axis copies.
fn sources(n: usize, before: usize, after: usize, mode: PadMode) -> Vec<i32> {
    let last = n as i64 - 1;
    (-(before as i64)..(n + after) as i64)
        .map(|i| {
            let from = match mode {
                PadMode::Constant | PadMode::Edge => i.clamp(0, last),
                PadMode::Wrap => i.rem_euclid(n as i64),
                PadMode::Reflect if last == 0 => 0,
                PadMode::Reflect => {
                    let folded = i.rem_euclid(2 * last);
                    folded.min(2 * last - folded)
                }
                PadMode::Symmetric => {
                    let folded = i.rem_euclid(2 * n as i64);
                    folded.min(2 * n as i64 - 1 - folded)
                }
            };
            from as i32
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `numpy.pad([0, 1, 2], (4, 5), mode)`.
    #[test]
    fn sources_are_numpys() {
        assert_eq!(sources(3, 4, 5, PadMode::Reflect), [0, 1, 2, 1, 0, 1, 2, 1, 0, 1, 2, 1]);
        assert_eq!(sources(3, 4, 5, PadMode::Symmetric), [2, 2, 1, 0, 0, 1, 2, 2, 1, 0, 0, 1]);
        assert_eq!(sources(3, 4, 5, PadMode::Wrap), [2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1]);
        assert_eq!(sources(3, 2, 1, PadMode::Edge), [0, 0, 0, 1, 2, 2]);
    }
}
