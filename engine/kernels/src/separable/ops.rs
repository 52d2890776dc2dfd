//! Routes to the kernel of the tensor's backend.

use burn::backend::{Backend, Dispatch, DispatchDevice, backend_extension, tensor::FloatTensor};
use burn::tensor::{DType, Tensor};

use super::AxisTaps;

/// Backends with a kernel. `image` is f32, `[C, X, Y, Z]`, no axis empty; the tables read within it.
#[backend_extension(
    Flex: cfg(feature = "cpu"),
    Cube: cfg(feature = "cube"),
)]
pub trait SeparableOps: Backend {
    /// Applies one table per axis.
    fn separable(image: FloatTensor<Self>, axes: [AxisTaps; 3]) -> FloatTensor<Self>;
}

/// Whether the tensor's backend is one of those above.
pub(crate) fn has_kernel(image: &Tensor<4>) -> bool {
    if image.dtype() != DType::F32 {
        return false;
    }
    match image.device().as_dispatch() {
        #[cfg(feature = "cpu")]
        DispatchDevice::Flex(_) => true,
        #[cfg(feature = "cube")]
        DispatchDevice::Cube(_) => true,
        #[allow(unreachable_patterns)]
        _ => false,
    }
}

/// Runs the kernel; [`has_kernel`] must have said yes.
pub(super) fn separable(image: Tensor<4>, axes: &[AxisTaps; 3]) -> Tensor<4> {
    Tensor::from_dispatch(<Dispatch as SeparableOps>::separable(image.into_dispatch(), axes.clone()))
}
