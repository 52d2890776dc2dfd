//! Steps that a GPU takes or skips by itself, as a gradient scaler for half precision needs: the
//! kernels of the plain steps with one more flag, and without reading anything back. A skipped step
//! changes nothing, regardless of the gradient's values.

use burn::tensor::Tensor;

#[cfg(gpu_kernels)]
use super::cube;
use super::{AdamStep, RmsPropStep, SgdStep};
use crate::place::{self, Place};

/// Whether a step is taken.
#[derive(Clone, Debug)]
pub struct Decision {
    /// `[1]`: 0 where the step is skipped.
    pub taken: Tensor<1>,
    /// `[1]`: the number of steps of this parameter skipped before.
    pub left_out: Tensor<1>,
    /// The number of its steps, including this one and skipped ones.
    pub step: u64,
}

/// Whether there is a kernel for these tensors: f32, all on a GPU.
pub fn has_kernel<'a>(mut tensors: impl Iterator<Item = &'a Tensor<1>>) -> bool {
    tensors.all(|t| place::of(t) == Some(Place::Gpu) && place::takes_floats(t))
}

/// Same as [`sgd`](super::sgd), and also returns the number of skipped steps. The first step that
/// is taken adds `first` times the gradient to the direction.
///
/// # Panics
/// Where a tensor is not on the GPU ([`has_kernel`]), or they differ in length.
pub fn sgd(
    p: Tensor<1>,
    g: &Tensor<1>,
    direction: Tensor<1>,
    step: SgdStep,
    first: f32,
    decision: Decision,
) -> (Tensor<1>, Tensor<1>, Tensor<1>) {
    #[cfg(gpu_kernels)]
    return cube::sgd_where(p, g, direction, step, Some((first, decision)));
    #[cfg(not(gpu_kernels))]
    none((p, g, direction, step, first, decision))
}

/// Same as [`adam`](super::adam), and also returns the number of skipped steps. The corrections are
/// computed from the number of steps taken and the decays' logarithms; `step` has the plain
/// learning rate and a correction of 1.
///
/// # Panics
/// Where a tensor is not on the GPU ([`has_kernel`]), or they differ in length.
pub fn adam(
    p: Tensor<1>,
    g: &Tensor<1>,
    state: [Tensor<1>; 2],
    largest: Option<Tensor<1>>,
    step: AdamStep,
    logarithms: [f32; 2],
    decision: Decision,
) -> (Tensor<1>, [Tensor<1>; 2], Option<Tensor<1>>, Tensor<1>) {
    #[cfg(gpu_kernels)]
    return cube::adam_where(p, g, state, largest, step, Some((logarithms, decision)));
    #[cfg(not(gpu_kernels))]
    none((p, g, state, largest, step, logarithms, decision))
}

/// Same as [`rms_prop`](super::rms_prop), and also returns the number of skipped steps.
///
/// # Panics
/// Where a tensor is not on the GPU ([`has_kernel`]), or they differ in length.
pub fn rms_prop(
    p: Tensor<1>,
    g: &Tensor<1>,
    square: Tensor<1>,
    mean: Option<Tensor<1>>,
    direction: Option<Tensor<1>>,
    step: RmsPropStep,
    decision: Decision,
) -> (Tensor<1>, Tensor<1>, Option<Tensor<1>>, Option<Tensor<1>>, Tensor<1>) {
    #[cfg(gpu_kernels)]
    return cube::rms_prop_where(p, g, square, mean, direction, step, Some(decision));
    #[cfg(not(gpu_kernels))]
    none((p, g, square, mean, direction, step, decision))
}

#[cfg(not(gpu_kernels))]
fn none<T, R>(_: T) -> R {
    panic!("there is no kernel for this parameter; see `has_kernel`")
}
