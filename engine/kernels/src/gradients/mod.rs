//! Operations on all gradients of a step before it is taken: scaling by a factor on the device, and
//! their norm. On a GPU several gradients share a launch, as a network has a hundred and more, and
//! most are short.

#[cfg(gpu_kernels)]
mod cube;
#[cfg(all(test, feature = "vulkan"))]
mod tests;

use burn::tensor::Tensor;

#[cfg(gpu_kernels)]
use crate::place::{self, Place};

/// Multiplies every gradient by a factor that stays on their device, `[1]`.
pub fn scaled(gradients: Vec<Tensor<1>>, factor: &Tensor<1>) -> Vec<Tensor<1>> {
    #[cfg(gpu_kernels)]
    if are_on_a_gpu(gradients.iter().chain([factor])) {
        return cube::scaled(gradients, factor);
    }
    gradients.into_iter().map(|gradient| gradient * factor.clone()).collect()
}

/// The sum of the squares of all values, `[1]`, on their device; `None` without gradients.
/// Non-finite exactly when some value is, or the squares overflow.
pub fn square_sum(gradients: &[&Tensor<1>]) -> Option<Tensor<1>> {
    #[cfg(gpu_kernels)]
    if !gradients.is_empty() && are_on_a_gpu(gradients.iter().copied()) {
        return Some(cube::square_sum(gradients));
    }
    let squares = gradients.iter().map(|&gradient| (gradient.clone() * gradient.clone()).sum());
    squares.reduce(|sum, square| sum + square)
}

/// Whether all are f32 on one GPU.
#[cfg(gpu_kernels)]
fn are_on_a_gpu<'a>(mut tensors: impl Iterator<Item = &'a Tensor<1>>) -> bool {
    let Some(first) = tensors.next() else { return false };
    let there = |t: &Tensor<1>| place::takes_floats(t) && place::of(t) == Some(Place::Gpu) && !t.is_autodiff();
    there(first) && tensors.all(|t| there(t) && t.device() == first.device())
}
