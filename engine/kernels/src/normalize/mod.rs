//! Normalization and the activation after it in one pass, with a handwritten backward pass.
//!
//! `y = act(weight * (x - mean) / sqrt(variance + eps) + bias)`, with mean and biased variance of
//! the batch's channels (batch norm: Ioffe and Szegedy, <https://arxiv.org/abs/1502.03167>) or of
//! groups of channels of one item (group norm: Wu and He, <https://arxiv.org/abs/1803.08494>;
//! instance norm: Ulyanov et al., <https://arxiv.org/abs/1607.08022>). Only `x` is kept for the
//! backward pass, and statistics are f32. f16 and bf16 are read and written directly. Without a
//! kernel, ordinary tensor operations compute the same result.

mod cpu;
#[cfg(gpu_kernels)]
mod cube;
mod ops;
mod shape;
#[cfg(test)]
mod tests;

use burn::tensor::{DType, Tensor, activation, module};

pub(crate) use cpu::in_place_of;
pub(crate) use shape::Shape;

use crate::cast::cast;
#[cfg(gpu_kernels)]
use crate::gpu::primitive;
#[cfg(gpu_kernels)]
use crate::place::{self, Place};

/// The values that share a mean and a variance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// A channel of all items.
    Batch,
    /// This number of groups of channels of one item; the number of channels for instance norm.
    Groups(usize),
}

/// The activation after a norm: positive values are unchanged, others are multiplied by a slope.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "a handful of them live at a time")]
pub enum Slope {
    /// One fixed slope: 1 for no activation, 0 for ReLU.
    Fixed(f64),
    /// PReLU: learned slopes, one for all channels or one for each.
    Learned(Tensor<1>),
}

/// The output and its statistics.
#[derive(Clone, Debug)]
pub struct Normalized {
    /// The output, of the input's shape.
    pub output: Tensor<5>,
    /// The mean by channel, or by item and group; outside the autodiff graph.
    pub mean: Tensor<1>,
    /// The biased variance, in the same order.
    pub variance: Tensor<1>,
}

/// Normalizes `x` (`[B, C, X, Y, Z]`), scales and shifts it by `affine` (weight and bias, `[C]`
/// each, f32), and applies the activation. The output has the type of `x`.
///
/// # Panics
/// Where `C` cannot be divided into the groups, or the shapes do not fit, as Burn's own operations
/// do.
pub fn normalize(
    x: Tensor<5>,
    affine: Option<(Tensor<1>, Tensor<1>)>,
    slope: &Slope,
    over: Over,
    eps: f64,
) -> Normalized {
    if ops::has_kernel(&x, affine.as_ref(), slope) {
        return ops::normalize(x, affine, slope, over, eps);
    }
    if matches!(x.dtype(), DType::F16 | DType::BF16) {
        let dtype = x.dtype();
        let done = normalize(cast(x, DType::F32), affine, slope, over, eps);
        return Normalized { output: cast(done.output, dtype), ..done };
    }
    let [b, c, dx, dy, dz] = x.dims();
    let device = x.device();
    let constant = |count: usize| (Tensor::ones([count], &device), Tensor::zeros([count], &device));
    let per_channel = |values: Tensor<1>| values.reshape([1, c, 1, 1, 1]);
    let (output, mean, variance) = match over {
        Over::Batch => {
            let (weight, bias) = affine.unwrap_or_else(|| constant(c));
            let result = module::batch_norm_train(x, weight, bias, eps);
            (result.output, result.mean, result.variance)
        }
        Over::Groups(groups) => {
            // The rows `(item, group)` are arranged as the channels of one batch, so that the
            // batch-norm operation and its backward pass apply.
            let rows = x.reshape([1, b * groups, (c / groups) * dx * dy * dz]);
            let (one, zero) = constant(b * groups);
            let result = module::batch_norm_train(rows, one, zero, eps);
            let output = result.output.reshape([b, c, dx, dy, dz]);
            let output = match affine {
                Some((weight, bias)) => output * per_channel(weight) + per_channel(bias),
                None => output,
            };
            (output, result.mean, result.variance)
        }
    };
    Normalized { output: activate(output, slope), mean: mean.without_autodiff(), variance: variance.without_autodiff() }
}

/// Updates the running mean and variance (`[C]` each, f32, outside a graph) after a batch of
/// `count` values for each channel: `(1 - momentum) * running + momentum * now`, with the unbiased
/// variance, as `torch.nn.BatchNorm3d` does.
pub fn follow(running: [Tensor<1>; 2], now: [Tensor<1>; 2], momentum: f64, count: f64) -> [Tensor<1>; 2] {
    let unbiased = count / (count - 1.0).max(1.0);
    #[cfg(gpu_kernels)]
    if running.iter().chain(&now).all(|t| place::takes_floats(t) && place::of(t) == Some(Place::Gpu)) {
        let [running, now] = [running, now].map(|both| both.map(primitive));
        let after = cube::follow(running, now, momentum as f32, unbiased as f32);
        return after.map(Tensor::from_primitive::<burn_cubecl::CubeBackend>);
    }
    let ([mean, variance], [mean_now, variance_now]) = (running, now);
    let follow = |before: Tensor<1>, now: Tensor<1>| before * (1.0 - momentum) + now * momentum;
    [follow(mean, mean_now), follow(variance, variance_now * unbiased)]
}

/// Computes `act(scale x + offset)` by channel: a norm with given statistics. `x` is
/// `[B, C, X, Y, Z]`, `scale` and `offset` are `[C]`. In place where `x` has no other owner, on the CPU
/// and outside a graph.
///
/// # Panics
/// Where the shapes do not fit, as Burn's own operations do.
pub fn scale(x: Tensor<5>, scale: Tensor<1>, offset: Tensor<1>, slope: &Slope) -> Tensor<5> {
    let x = match ops::scale(x, &scale, &offset, slope) {
        Ok(done) => return done,
        Err(x) => x,
    };
    if matches!(x.dtype(), DType::F16 | DType::BF16) {
        let dtype = x.dtype();
        return cast(self::scale(cast(x, DType::F32), scale, offset, slope), dtype);
    }
    let c = x.dims()[1];
    let per_channel = |values: Tensor<1>| values.reshape([1, c, 1, 1, 1]);
    activate(x * per_channel(scale) + per_channel(offset), slope)
}

/// Applies only the activation.
fn activate(x: Tensor<5>, slope: &Slope) -> Tensor<5> {
    match slope {
        Slope::Fixed(1.0) => x,
        Slope::Fixed(0.0) => activation::relu(x),
        Slope::Fixed(slope) => activation::leaky_relu(x, *slope),
        Slope::Learned(slope) => activation::prelu(x, slope.clone()),
    }
}
