//! Converts values of CPU tensors to slices, and back.

use burn::backend::{DispatchDevice, Flex, tensor::FloatTensor};
use burn::tensor::{DType, Tensor, TensorData};

use crate::layout;

/// Whether the tensor is on the CPU, within an autodiff graph or not, and this crate's kernels are
/// enabled.
pub(crate) fn is_cpu<const D: usize>(x: &Tensor<D>) -> bool {
    crate::uses_kernels() && matches!(x.device().without_autodiff().as_dispatch(), DispatchDevice::Flex(_))
}

/// Whether a kernel over slices of f32 supports the tensor: on the CPU, f32, not empty.
pub(crate) fn has_floats<const D: usize>(x: &Tensor<D>) -> bool {
    x.dtype() == DType::F32 && !x.dims().contains(&0) && is_cpu(x)
}

/// Calls `f` with the values of the tensors in row-major order; a view is copied first, on all
/// threads.
pub(crate) fn with<const N: usize, R>(tensors: [FloatTensor<Flex>; N], f: impl FnOnce([&[f32]; N]) -> R) -> R {
    let packed = tensors.map(|t| if t.as_slice::<f32>().is_some() { t } else { layout::packed(t).to_contiguous() });
    f(std::array::from_fn(|i| packed[i].as_slice::<f32>().unwrap_or_default()))
}

/// Makes a tensor of these values.
pub(crate) fn floats(values: Vec<f32>, shape: impl Into<Vec<usize>>) -> FloatTensor<Flex> {
    FloatTensor::<Flex>::from_data(TensorData::new(values, shape.into()))
}
