//! Convolutions whose kernel is shorter than their stride, rewritten with longer kernels.
//!
//! Burn's transposed convolution on GPUs (0.22.1), which also computes a convolution's input
//! gradient, ends its sums too early where the stride is longer than the kernel, as in the shortcut
//! of a residual block (kernel 1, stride 2). The result is then 0, and a network does not train.
//! Therefore kernels are zero-padded at their far end until they reach from one step to the next;
//! where the kernel is 1, a convolution reads a strided view instead.

use burn::tensor::Tensor;
use burn::tensor::ops::PadMode;

use super::ConvShape;

/// The same convolution with kernels as long as the stride.
pub(super) fn convolution(x: Tensor<5>, weight: Tensor<5>, shape: ConvShape) -> (Tensor<5>, Tensor<5>, ConvShape) {
    let (mut x, mut shape) = (x, shape);
    for axis in 0..3 {
        let stride = shape.stride[axis];
        if stride > 1 && weight.dims()[axis + 2] == 1 && shape.padding[axis] == 0 {
            x = every(x, axis + 2, stride);
            shape.stride[axis] = 1;
        }
    }
    let missing = missing(&weight, &shape);
    // The image is zero-padded at its far end as well, so that the number of outputs does not
    // change.
    let behind = std::array::from_fn(|axis| missing[axis] * shape.dilation[axis]);
    (with_zeros(x, behind), with_zeros(weight, missing), shape)
}

/// The weight of the same transposed convolution with a kernel as long as the stride, and how much
/// longer its result is along each axis.
pub(super) fn transposed(weight: Tensor<5>, shape: &ConvShape) -> (Tensor<5>, [usize; 3]) {
    let missing = missing(&weight, shape);
    (with_zeros(weight, missing), std::array::from_fn(|axis| missing[axis] * shape.dilation[axis]))
}

/// The number of taps that each axis lacks.
fn missing(weight: &Tensor<5>, shape: &ConvShape) -> [usize; 3] {
    let dims = weight.dims();
    std::array::from_fn(|axis| shape.stride[axis].div_ceil(shape.dilation[axis]).saturating_sub(dims[axis + 2]))
}

/// Every `step`-th position of an axis, from its first.
fn every(x: Tensor<5>, axis: usize, step: usize) -> Tensor<5> {
    let dims = x.dims();
    let count = dims[axis].div_ceil(step);
    let mut behind = [0; 3];
    behind[axis - 2] = count * step - dims[axis];
    let x = with_zeros(x, behind);
    // The axis is split in two; the second is the position within a step.
    let [outer, inner] = [dims[..axis].iter().product(), dims[axis + 1..].iter().product()];
    let mut thin = dims;
    thin[axis] = count;
    x.reshape([outer, count, step, inner]).narrow(2, 0, 1).reshape(thin)
}

/// Pads the last three axes with zeros at their far ends.
fn with_zeros(x: Tensor<5>, behind: [usize; 3]) -> Tensor<5> {
    if behind == [0; 3] {
        return x;
    }
    x.pad(behind.map(|count| (0, count)), PadMode::Constant(0.0))
}
