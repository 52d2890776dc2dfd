//! Device operations that Burn lacks or runs slowly, one idea per file.
//!
//! - [`mod@attention`]: self-attention with its softmax, forward and backward.
//! - [`add_window`]: the outputs of a sliding window, accumulated in place.
//! - [`cast`]: conversion between f32, f16 and bf16.
//! - [`mod@conv3d`]: convolution and transposed convolution, forward and backward.
//! - [`counter_rng`]: random numbers without a state.
//! - [`mod@dropout`]: dropout by a random key, forward and backward.
//! - [`mod@filter`]: separable filters, Gaussian taps.
//! - [`gelu`] and [`layer_norm`]: the other operations of transformers; [`swish`].
//! - [`host`]: reads or changes the values of a CPU tensor in place, without a copy.
//! - [`InPlace`]: the address of a tensor's values, for a library of its device.
//! - [`mod@interpolate`]: resizing by nearest, linear, cubic or area, and any other separable
//!   weights.
//! - [`layer_range`]: ranges of the profiler around layers, in both passes.
//! - [`label`]: connected components, distance transforms and binary morphology of masks.
//! - [`rectify`], [`rectified_sum`]: ReLU and leaky ReLU, of a tensor and of a sum.
//! - [`recompute`]: recomputes a block's inner values in the backward pass instead of keeping them.
//! - [`Watch`]: observes gradients during the backward pass.
//! - [`exchange`]: a sum over several processes, with its gradient.
//! - [`mod@resample`]: a volume sampled through a matrix or at given coordinates, the operation
//!   behind `Spacing` and `Affine`.
//! - [`mod@separable`]: weighted sums along one axis after the other, to which the previous two
//!   reduce where possible.
//! - [`mod@sigmoid_sums`]: the sums of a sigmoid for Dice, focal and binary cross-entropy losses,
//!   forward and backward.
//! - [`mod@softmax_sums`]: the sums of a softmax for Dice losses and cross-entropy, forward and
//!   backward.
//! - [`philox`]: long runs of uniform and normal random numbers.
//! - [`mod@normalize`]: batch, group and instance norm with the activation that follows, forward
//!   and backward.
//! - [`mod@pool3d`]: maximum and average pooling, fixed or adaptive, forward and backward.
//! - [`mod@linear`]: a matrix for the last axis, forward and backward.
//! - [`memory`]: an allocator that keeps large blocks for reuse.
//! - [`mod@update`]: steps of optimizers in one pass, in place; [`gradients`]: their norm and scale.
//! - [`device_error`]: translates the error of a device for the user.
//! - [`TuningClock`]: the time spent on finding a GPU's fastest kernels; [`Tune`]: limits it.
//! - [`join_thread_pool`]: lets the training thread run kernels, too, instead of waiting.
//! - [`use_kernels`]: turns the kernels of networks off, for comparisons.
//! - [`math`]: powers and exponentials of many values at once.
//!
//! Each operation runs on the device of its tensor. Without a kernel for a backend, ordinary tensor
//! operations compute the same result.

pub mod attention;
mod blend;
mod cast;
pub mod choices;
pub mod conv3d;
mod copy;
pub mod counter_rng;
pub mod device_error;
pub mod dropout;
mod exchange;
pub mod filter;
mod flex;
mod gelu;
#[cfg(gpu_kernels)]
mod gpu;
pub mod gradients;
pub mod host;
mod in_place;
pub mod interpolate;
pub mod label;
mod lanes;
mod layer_norm;
mod layer_range;
mod layout;
pub mod linear;
pub mod math;
pub mod memory;
mod moments;
pub mod normalize;
pub mod philox;
mod place;
pub mod pool3d;
mod precision;
mod product;
mod ranges;
mod recompute;
mod rectify;
pub mod resample;
mod scoped;
pub mod separable;
mod shared;
pub mod sigmoid_sums;
mod simd;
pub mod softmax_sums;
mod swish;
mod switch;
mod threads;
#[cfg(gpu_kernels)]
mod totals;
mod tune;
mod tuning;
pub mod update;
mod watch;
mod without_graph;

pub use blend::add_window;
pub use cast::cast;
pub use exchange::exchange;
pub use gelu::gelu;
pub use in_place::InPlace;
pub use interpolate::{InterpolateMode, interpolate};
pub use layer_norm::layer_norm;
pub use layer_range::{LayerRange, layer_range};
pub use recompute::recompute;
pub use rectify::{rectified_sum, rectify};
pub use resample::{Interpolation, Matrix, Padding, Sampling, resample, resample_part, sample_grid};
pub use scoped::scoped;
pub use separable::{AxisTaps, separable};
pub use simd::processor_paths;
pub use swish::swish;
pub use switch::{use_kernels, uses_kernels};
pub use threads::join_thread_pool;
pub use tune::Tune;
pub use tuning::{Tuning, TuningClock};
pub use watch::Watch;
