//! Convolution and transposed convolution in three dimensions, with a handwritten backward pass.
//!
//! On the CPU, both are the same three sums over padded, phase-split copies of the data, in which
//! every kernel tap of a whole output row reads one contiguous run, so that no column matrix is
//! built. The lanes of a register are output channels where there are many, and neighbours of a row
//! where there are few. Kernels of 3 and 5 with stride 1 and eight channels or more take two to
//! four times fewer products by Winograd's minimal filtering, whose sums differ from the plain ones
//! in their last digits. Where there are many weights and few outputs, the weights are read in
//! their own layout. f16 and bf16 are added up in f32; CPUs with AVX-512-BF16 add two products of
//! bf16 at once where that is faster. A transposed convolution is the input gradient of a
//! convolution, and vice versa.
//!
//! On GPUs, the same three sums are kernels in CubeCL, in row-major order and without tuning
//! (`cube`). Burn's operations are used there for kernels of more than 64 taps along an axis.
//!
//! Two-dimensional input has depth 1: give the last axis kernel 1, stride 1 and padding 0.

mod blocked;
mod cpu;
#[cfg(gpu_kernels)]
mod cube;
mod few_positions;
mod geometry;
mod groups;
mod inference;
mod ops;
mod pairs;
mod reaching;
mod stored;
#[cfg(test)]
mod tests;
mod winograd;

use burn::tensor::ops::{ConvOptions, ConvTransposeOptions};
use burn::tensor::{Tensor, module};

use crate::cast::cast;

pub use inference::{Channels, NormAct, NormBehind, Then, conv_transpose3d_then, conv3d_then};
pub use winograd::{as_part_of, plain_sums};

/// Stride, padding, dilation and groups of a convolution; padding is the same at both ends of an
/// axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConvShape {
    /// The distance between outputs.
    pub stride: [usize; 3],
    /// The number of zeros at each end of an axis.
    pub padding: [usize; 3],
    /// The distance between kernel taps.
    pub dilation: [usize; 3],
    /// Number of independent groups of channels.
    pub groups: usize,
}

impl Default for ConvShape {
    fn default() -> Self {
        Self { stride: [1; 3], padding: [0; 3], dilation: [1; 3], groups: 1 }
    }
}

/// Convolution: `x` is `[B, I, X, Y, Z]`, `weight` `[O, I / groups, kx, ky, kz]`, `bias` `[O]`, of any type;
/// returns `[B, O, X', Y', Z']`.
///
/// # Panics
/// Where the shapes do not fit each other, as in Burn's own convolution.
pub fn conv3d(x: Tensor<5>, weight: Tensor<5>, bias: Option<Tensor<1>>, shape: ConvShape) -> Tensor<5> {
    if let Some(geometry) = geometry::of_convolution(&x, &weight, &shape) {
        return ops::convolution(x, weight, bias, geometry);
    }
    let bias = bias.map(|bias| cast(bias, x.dtype()));
    let (x, weight, ConvShape { stride, padding, dilation, groups }) = reaching::convolution(x, weight, shape);
    module::conv3d(x, weight, bias, ConvOptions::new(stride, padding, dilation, groups))
}

/// Transposed convolution: `x` is `[B, I, X, Y, Z]`, `weight` `[I, O / groups, kx, ky, kz]`, `bias`
/// `[O]`; `output_padding` lengthens the far end of each axis.
///
/// # Panics
/// Where the shapes do not fit each other, as in Burn's own transposed convolution.
pub fn conv_transpose3d(
    x: Tensor<5>,
    weight: Tensor<5>,
    bias: Option<Tensor<1>>,
    shape: ConvShape,
    output_padding: [usize; 3],
) -> Tensor<5> {
    if let Some(geometry) = geometry::of_transposed(&x, &weight, &shape, output_padding) {
        return ops::transposed(x, weight, bias, geometry);
    }
    let bias = bias.map(|bias| cast(bias, x.dtype()));
    let (weight, longer) = reaching::transposed(weight, &shape);
    let ConvShape { stride, padding, dilation, groups } = shape;
    let options = ConvTransposeOptions::new(stride, padding, output_padding, dilation, groups);
    let mut y = module::conv_transpose3d(x, weight, bias, options);
    for (axis, longer) in longer.into_iter().enumerate().filter(|(_, longer)| *longer > 0) {
        let length = y.dims()[axis + 2] - longer;
        y = y.narrow(axis + 2, 0, length);
    }
    y
}

/// The gradient of [`conv3d`] with respect to its weight (`torch.nn.grad.conv3d_weight`): `x` is
/// `[B, I, X, Y, Z]`, `dy` `[B, O, X', Y', Z']`; returns `[O, I / groups, kx, ky, kz]`. `None`
/// where only the autodiff graph of Burn's own convolution can compute it.
pub fn conv3d_weight(x: Tensor<5>, dy: Tensor<5>, kernel: [usize; 3], shape: ConvShape) -> Option<Tensor<5>> {
    let channels = x.dims()[1].checked_div(shape.groups)?;
    let like = [dy.dims()[1], channels, kernel[0], kernel[1], kernel[2]];
    let like = Tensor::zeros(like, (&x.device(), x.dtype()));
    let geometry = geometry::of_convolution(&x, &like, &shape)?;
    (dy.dims()[2..] == geometry.output && dy.dims()[0] == x.dims()[0]).then(|| ops::weight_gradient(x, dy, geometry))
}
