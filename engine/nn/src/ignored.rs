//! Voxels that a loss or a metric ignores.

use burn::tensor::{DType, Tensor};

/// The mask of voxels that are not ignored, `[b, 1, x, y, z]`: with class indices, those other than
/// `index`; with a channel per class, those outside channel `index`, or, if there is no such
/// channel, those of any class.
pub(crate) fn counted(target: &Tensor<5>, index: i64) -> Tensor<5> {
    let classes = target.dims()[1];
    let target = target.clone().cast(DType::F32);
    if classes == 1 {
        target.not_equal_elem(index as f32).float().cast(DType::F32)
    } else if (0..classes as i64).contains(&index) {
        -target.narrow(1, index as usize, 1) + 1.0
    } else {
        target.sum_dim(1).greater_elem(0.0).float().cast(DType::F32)
    }
}
