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
//! - [`given_gradient`]: a number whose gradient was computed outside the graph.
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
//! - [`Convolutions`]: whose kernels compute convolutions on NVIDIA GPUs; [`allow_tf32`]: lets them round f32.
//! - [`use_kernels`]: turns the kernels of networks off, for comparisons.
//! - [`math`]: powers and exponentials of many values at once.
//!
//! Each operation runs on the device of its tensor. Without a kernel for a backend, ordinary tensor
//! operations compute the same result.
//!
//! ```
//! use burn::tensor::{Device, Tensor};
//! use hearth_kernels::{InterpolateMode, interpolate};
//!
//! let image = Tensor::ones([1, 8, 8, 4], &Device::default()); // [C, X, Y, Z]
//! let half = interpolate(image, [4, 4, 2], InterpolateMode::Linear, false);
//! assert_eq!((half.dims(), half.sum().into_scalar::<f32>()), ([1, 4, 4, 2], 32.0));
//! ```
//!
//! # Layout of an operation
//!
//! An operation is a folder: `cpu.rs` (threads and registers), `cube.rs` (a CubeCL kernel for all
//! GPUs) and `ops.rs`, which adds both to the autodiff graph by Burn's `#[backend_extension]`.
//! `place.rs` decides which backend handles a tensor.
//!
//! # On the CPU
//!
//! - Each loop is written once, over `Lanes` (sixteen f32), and compiled for AVX-512, AVX2, NEON
//!   and any other CPU.
//! - Convolutions work in blocks that stay in the cache. Kernels of size 3 and 5 with stride 1, and
//!   of size 3 with stride 2, need fewer products (`conv3d/winograd`, forward and both gradients).
//!   The tiles are as large as sizes and outputs allow, at points that keep the rounding near that
//!   of the plain sum, which a test measures. With at most eight output channels, two tiles share
//!   the lanes of a register. Non-finite values fall back to the plain sum, so that they reach the
//!   same outputs.
//! - Outside training, a convolution and what follows it are one call (`conv3d_then`): channels of
//!   two tensors are read in place, a norm with known statistics, an activation and a residual sum
//!   are applied before the outputs are written, and the statistics of an instance or group norm
//!   are computed on the way (`moments.rs`), in an order that does not depend on the number of
//!   threads.
//! - Layers with many weights and few outputs read their weights in place (`conv3d/few_positions`).
//!
//! # On GPUs
//!
//! Matrix products are Burn's. A convolution with many channels computes tiles of outputs in shared
//! memory (`tile_kernel`, `weight_tile_kernel`), one with few channels one output per unit
//! (`correlate`). A training step is limited by its launches as much as by its kernels, so small
//! operations share launches (`update::together`, `gradients`). Burn's fusion is off, because
//! 0.22.1 computes some cases wrongly with it; the feature `fused` turns it on, to try a newer
//! Burn.
//!
//! # Precision
//!
//! Convolutions compute in the type of their weight; norms, softmax and losses in f32. On the CPU
//! every kernel accepts half precision: norms, activations and dropout convert in the first-level
//! cache (`precision.rs`), others with all threads ([`cast`]); all accumulate in f32. With
//! AVX-512-BF16, convolutions of bf16 compute two products at once (`conv3d/pairs`) where Winograd
//! in f32 is not faster. The loss scaler of f16 decides on the device whether to step
//! (`update/decided.rs`).

pub mod attention;
mod blend;
mod cast;
pub mod choices;
pub mod conv3d;
mod convolutions;
mod copy;
pub mod counter_rng;
pub mod device_error;
pub mod dropout;
mod exchange;
pub mod filter;
mod flex;
mod gelu;
mod given_gradient;
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
mod tf32;
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
pub use convolutions::{Convolutions, NoVendor};
pub use exchange::exchange;
pub use gelu::gelu;
pub use given_gradient::given_gradient;
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
pub use tf32::{HAS_TF32, allow_tf32};
pub use threads::join_thread_pool;
pub use tune::Tune;
pub use tuning::{Tuning, TuningClock};
pub use watch::Watch;
