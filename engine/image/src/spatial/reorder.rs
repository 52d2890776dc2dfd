//! Permutation and flips of axes.

use burn::tensor::Tensor;

use super::lazy;
use crate::affine;
use crate::image::{Applied, Image};
use crate::orientation::Reorder;

/// Permutes and flips axes; the world position of every voxel is unchanged.
pub fn reorder(image: Image, how: &Reorder) -> Image {
    let mut image = reorder_unrecorded(image, how);
    image.meta.applied.push(Applied::Reorder(*how));
    image
}

pub(super) fn reorder_unrecorded(mut image: Image, how: &Reorder) -> Image {
    if *how == Reorder::NONE {
        return image;
    }
    let shape = image.shape();
    let waits = lazy::reorder(&mut image, how);
    image.affine = affine::compose(&image.affine, &how.matrix(shape));
    if !waits {
        image.data = reorder_tensor(image.data, how);
    }
    image
}

pub(super) fn reorder_tensor(mut data: Tensor<4>, how: &Reorder) -> Tensor<4> {
    if how.source != [0, 1, 2] {
        let [x, y, z] = how.source.map(|s| s as i64 + 1);
        data = data.permute([0, x, y, z]);
    }
    let axes: Vec<i64> = (0..3).filter(|a| how.flip[*a]).map(|a| a as i64 + 1).collect();
    match axes[..] {
        [a] => data.flip([a]),
        [a, b] => data.flip([a, b]),
        [a, b, c] => data.flip([a, b, c]),
        _ => data,
    }
}

/// Reverses the given spatial axes: 0, 1, 2.
///
/// # Panics
/// For another axis.
pub fn flip(image: Image, axes: &[usize]) -> Image {
    let mut how = Reorder::NONE;
    for axis in axes {
        how.flip[*axis] = !how.flip[*axis];
    }
    reorder(image, &how)
}

/// Rotates by `k` quarter turns in the plane of two different axes, from the first towards the
/// second (`numpy.rot90`).
///
/// # Panics
/// For an axis above 2.
pub fn rotate90(image: Image, k: usize, first: usize, second: usize) -> Image {
    let mut how = Reorder::NONE;
    match k % 4 {
        1 => {
            how.source.swap(first, second);
            how.flip[first] = true;
        }
        2 => {
            how.flip[first] = true;
            how.flip[second] = true;
        }
        3 => {
            how.source.swap(first, second);
            how.flip[second] = true;
        }
        _ => {}
    }
    reorder(image, &how)
}
