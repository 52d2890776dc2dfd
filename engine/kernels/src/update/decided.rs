//! Steps of which a GPU decides by itself whether they are taken, as a gradient scaler of half
//! precision wants it: the kernels of the plain steps with one flag more, and nothing is read back.
//! A step that is left out changes nothing, whatever the gradient holds.

use burn::tensor::Tensor;

#[cfg(gpu_kernels)]
use super::cube;
use super::{AdamStep, RmsPropStep, SgdStep};
use crate::place::{self, Place};

/// What there is to decide about a step.
#[derive(Clone, Debug)]
pub struct Decision {
    /// `[1]`: 0 where the step is left out.
    pub taken: Tensor<1>,
    /// `[1]`: how many steps of this parameter were left out before.
    pub left_out: Tensor<1>,
    /// Its steps, this one among them and those that were left out.
    pub step: u64,
}

/// Whether there is a kernel for these: f32, all on a GPU.
pub fn has_kernel<'a>(mut tensors: impl Iterator<Item = &'a Tensor<1>>) -> bool {
    tensors.all(|t| place::of(t) == Some(Place::Gpu) && place::takes_floats(t))
}

/// As [`sgd`](super::sgd), with how many steps have been left out now. The first step that is taken
/// adds `first` of the gradient to the direction.
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

/// As [`adam`](super::adam), with how many steps have been left out now. The corrections are made
/// of the number of steps that were taken and of the decays' logarithms; the step has the learning
/// rate itself and a correction of 1.
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

/// As [`rms_prop`](super::rms_prop), with how many steps have been left out now.
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
