//! Optimizer steps for one parameter, in one pass over the parameter, its gradient and its state,
//! in place.
//!
//! As separate operations, a step would read the memory of the parameter five to fifteen times and
//! allocate as many new buffers; for networks of tens of millions of parameters on small patches,
//! that takes much of the time.

mod cpu;
#[cfg(gpu_kernels)]
mod cube;
pub mod decided;
#[cfg(test)]
mod tests;

use burn::tensor::Tensor;

use crate::place::{self, Place};

/// A step of stochastic gradient descent with momentum, as in `torch.optim.SGD`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SgdStep {
    /// The learning rate.
    pub lr: f32,
    /// The factor of the parameter in the term added to the gradient.
    pub weight_decay: f32,
    /// The factor of the previous direction.
    pub momentum: f32,
    /// The factor of the gradient that is added to it.
    pub share: f32,
    /// Nesterov's look-ahead along the direction.
    pub nesterov: bool,
}

/// A step of Adam, as in `torch.optim.Adam` and `AdamW`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdamStep {
    /// The learning rate divided by the mean's correction.
    pub lr: f32,
    /// The factor applied to the parameter first (AdamW's decay; 1 for none).
    pub shrink: f32,
    /// The factor of the parameter in the term added to the gradient (Adam's decay).
    pub weight_decay: f32,
    /// The decays of the mean and of the mean square, each with its complement `1 - beta`.
    pub betas: [[f32; 2]; 2],
    /// The root of the mean square's correction.
    pub correction: f32,
    /// The value added to the denominator.
    pub eps: f32,
}

/// A step of Novograd, as in `monai.optimizers.Novograd`, with the norm already updated by the
/// gradient.
#[derive(Clone, Copy, Debug)]
pub struct NovogradStep {
    /// The learning rate.
    pub lr: f32,
    /// The divisor of the gradient.
    pub norm: f32,
    /// The factor of the parameter in the term added to the divided gradient.
    pub weight_decay: f32,
    /// The factor of that sum when it is added to the direction.
    pub share: f32,
    /// The factor of the previous direction.
    pub momentum: f32,
}

/// A step of RMSprop, as in `torch.optim.RMSprop`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RmsPropStep {
    /// The learning rate.
    pub lr: f32,
    /// The factor of the parameter in the term added to the gradient.
    pub weight_decay: f32,
    /// The decay of the mean square (and of the mean), and its complement `1 - alpha`.
    pub alpha: [f32; 2],
    /// The value added to the denominator.
    pub eps: f32,
    /// The factor of the previous direction.
    pub momentum: f32,
}

/// Whether there is a kernel for these tensors: f32, all on the CPU or all on a GPU.
pub fn has_kernel<'a>(mut tensors: impl Iterator<Item = &'a Tensor<1>>) -> bool {
    let Some(first) = tensors.next() else { return false };
    let place = place::of(first);
    place.is_some() && place::takes_floats(first) && tensors.all(|t| place::of(t) == place && place::takes_floats(t))
}

/// Whether there is a kernel for [`square_sum`] and [`novograd`], whose norm the host needs: f32 on
/// the CPU.
pub fn has_host_kernel<'a>(mut tensors: impl Iterator<Item = &'a Tensor<1>>) -> bool {
    tensors.all(|t| place::of(t) == Some(Place::Cpu) && place::takes_floats(t))
}

/// Runs the kernel for the parameter's device.
macro_rules! by_place {
    ($p:expr, $name:ident, $($given:expr),+) => {
        match place::of(&$p) {
            Some(Place::Cpu) => cpu::$name($p, $($given),+),
            #[cfg(gpu_kernels)]
            Some(Place::Gpu) => cube::$name($p, $($given),+),
            _ => panic!("there is no kernel for this parameter; see `has_kernel`"),
        }
    };
}

/// Runs `work`. Steps of parameters on a GPU are taken when it ends, several in one launch; until
/// then, the returned tensors must not be read.
pub fn together<T>(work: impl FnOnce() -> T) -> T {
    #[cfg(gpu_kernels)]
    return cube::together(work);
    #[cfg(not(gpu_kernels))]
    work()
}

/// A profiler range around a step that reads or writes `values` values for each one of a parameter.
fn step_range(name: &'static str, p: &Tensor<1>, values: usize) -> tracing::span::EnteredSpan {
    tracing::trace_span!("kernel", name, bytes = (4 * values * p.dims()[0]) as u64, flop = 0_u64).entered()
}

/// The parameter and the direction after a step; all of one length, with [`has_kernel`].
///
/// # Panics
/// Where a tensor is on another device, or they differ in length.
pub fn sgd(p: Tensor<1>, g: &Tensor<1>, direction: Tensor<1>, step: SgdStep) -> (Tensor<1>, Tensor<1>) {
    let _range = step_range("sgd", &p, 5);
    by_place!(p, sgd, g, direction, step)
}

/// The parameter and its state (mean, mean square and, where there is one, the largest mean square)
/// after a step; all of one length, with [`has_kernel`].
///
/// # Panics
/// Where a tensor is on another device, or they differ in length.
pub fn adam(
    p: Tensor<1>,
    g: &Tensor<1>,
    state: [Tensor<1>; 2],
    largest: Option<Tensor<1>>,
    step: AdamStep,
) -> (Tensor<1>, [Tensor<1>; 2], Option<Tensor<1>>) {
    let _range = step_range("adam", &p, 7);
    by_place!(p, adam, g, state, largest, step)
}

/// The parameter and the direction after a step; both of the gradient's length, with
/// [`has_host_kernel`].
///
/// # Panics
/// Where a tensor is on another device, or they differ in length.
pub fn novograd(p: Tensor<1>, g: &Tensor<1>, direction: Tensor<1>, step: NovogradStep) -> (Tensor<1>, Tensor<1>) {
    let _range = step_range("novograd", &p, 5);
    match place::of(&p) {
        Some(Place::Cpu) => cpu::novograd(p, g, direction, step),
        _ => panic!("there is no kernel for this parameter; see `has_host_kernel`"),
    }
}

/// The parameter and its state (mean square, and optionally the mean and the direction)
/// after a step; all of one length, with [`has_kernel`].
///
/// # Panics
/// Where a tensor is on another device, or they differ in length.
pub fn rms_prop(
    p: Tensor<1>,
    g: &Tensor<1>,
    square: Tensor<1>,
    mean: Option<Tensor<1>>,
    direction: Option<Tensor<1>>,
    step: RmsPropStep,
) -> (Tensor<1>, Tensor<1>, Option<Tensor<1>>, Option<Tensor<1>>) {
    let _range = step_range("rms_prop", &p, 7);
    by_place!(p, rms_prop, g, square, mean, direction, step)
}

/// The sum of a tensor's squares, independent of the number of threads; with [`has_host_kernel`].
///
/// # Panics
/// Where the tensor is on another device.
pub fn square_sum(g: &Tensor<1>) -> f32 {
    let _range = step_range("square sum", g, 1);
    match place::of(g) {
        Some(Place::Cpu) => cpu::square_sum(g),
        _ => panic!("there is no kernel for this gradient; see `has_host_kernel`"),
    }
}
