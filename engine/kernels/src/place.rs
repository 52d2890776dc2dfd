//! The kernels of this crate that support a tensor's device.

use burn::backend::DispatchDevice;
use burn::tensor::{DType, Tensor};

/// The devices with kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(dead_code, reason = "a build has kernels for one of them or for both")]
pub(crate) enum Place {
    /// Kernels over slices of values, on all threads.
    Cpu,
    /// CubeCL kernels.
    Gpu,
}

/// The device of a tensor, within an autodiff graph or not; `None` where kernels are turned off or
/// do not exist. Builds with Burn's fusion leave networks to Burn.
pub(crate) fn of<const D: usize>(x: &Tensor<D>) -> Option<Place> {
    if !crate::uses_kernels() {
        return None;
    }
    match x.device().without_autodiff().as_dispatch() {
        DispatchDevice::Flex(_) => Some(Place::Cpu),
        #[cfg(gpu_kernels)]
        DispatchDevice::Cube(_) => Some(Place::Gpu),
        #[allow(unreachable_patterns, reason = "with some features all backends are named above")]
        _ => None,
    }
}

/// Whether there is a kernel for the tensor: f32, f16 or bf16, not empty.
pub(crate) fn takes<const D: usize>(x: &Tensor<D>) -> bool {
    matches!(x.dtype(), DType::F32 | DType::F16 | DType::BF16) && !x.dims().contains(&0) && of(x).is_some()
}

/// Whether there is a kernel for the tensor, and its values are f32.
pub(crate) fn takes_floats<const D: usize>(x: &Tensor<D>) -> bool {
    x.dtype() == DType::F32 && takes(x)
}
