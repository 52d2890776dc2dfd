//! Maximum pooling of volumes.

use burn::tensor::Tensor;
use burn::tensor::module::max_pool2d;
use burn::tensor::ops::MaxPoolOptions;

/// `torch.nn.functional.max_pool3d` of `[b, c, x, y, z]`: padding is below every value, and a window that does not fit at the far end
/// is left out.
///
/// A maximum over a box is the maximum over its planes and then over their maxima: two 2-D poolings.
pub(crate) fn max_pool(x: Tensor<5>, kernel: [usize; 3], stride: [usize; 3], padding: [usize; 3]) -> Tensor<5> {
    let [b, c, dx, dy, dz] = x.dims();
    let [kx, ky, kz] = kernel;
    let [sx, sy, sz] = stride;
    let [px, py, pz] = padding;
    let planes = pool_planes(x.reshape([b, c * dx, dy, dz]), [ky, kz], [sy, sz], [py, pz]);
    let [_, _, dy, dz] = planes.dims();
    let rows = pool_planes(planes.reshape([b, c, dx, dy * dz]), [kx, 1], [sx, 1], [px, 0]);
    let dx = rows.dims()[2];
    rows.reshape([b, c, dx, dy, dz])
}

fn pool_planes(x: Tensor<4>, kernel: [usize; 2], stride: [usize; 2], padding: [usize; 2]) -> Tensor<4> {
    if (kernel, stride) == ([1, 1], [1, 1]) {
        return x;
    }
    max_pool2d(x, MaxPoolOptions::new(kernel).with_stride(stride).with_padding(padding))
}
