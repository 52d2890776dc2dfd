//! Routes resampling to the kernel of the tensor's backend.

use burn::backend::{Backend, Dispatch, backend_extension, tensor::FloatTensor};
use burn::tensor::Tensor;

use super::{Sampling, Target};

/// Backends with a resampling kernel. Images are f32, `[C, X, Y, Z]`, no axis empty; for splines
/// they hold the coefficients.
#[backend_extension(
    Flex,
    Cube: cfg(feature = "cube"),
    Fusion: cfg(feature = "fused"),
)]
pub trait ResampleOps: Backend {
    /// Samples by a matrix that is not diagonal.
    #[fusion(dtype = image, shape = [image[0], target.size[0], target.size[1], target.size[2]].into())]
    fn resample_affine(image: FloatTensor<Self>, target: Target, sampling: Sampling) -> FloatTensor<Self>;

    /// Samples at coordinates, f32, `[3, X', Y', Z']`.
    #[fusion(dtype = image, shape = [image[0], coordinates[1], coordinates[2], coordinates[3]].into())]
    fn sample_grid(image: FloatTensor<Self>, coordinates: FloatTensor<Self>, sampling: Sampling) -> FloatTensor<Self>;
}

pub(super) use crate::separable::has_kernel;

/// Runs the kernel; [`has_kernel`] must be true.
pub(super) fn by_matrix(image: Tensor<4>, target: Target, sampling: Sampling) -> Tensor<4> {
    Tensor::from_dispatch(<Dispatch as ResampleOps>::resample_affine(image.into_dispatch(), target, sampling))
}

/// Runs the kernel; [`has_kernel`] must be true for both.
pub(super) fn by_grid(image: Tensor<4>, coordinates: Tensor<4>, sampling: Sampling) -> Tensor<4> {
    let (image, coordinates) = (image.into_dispatch(), coordinates.into_dispatch());
    Tensor::from_dispatch(<Dispatch as ResampleOps>::sample_grid(image, coordinates, sampling))
}
