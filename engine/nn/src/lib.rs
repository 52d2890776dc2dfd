//! Networks, losses, metrics, optimizers, post-processing and inferers: one file each, named as in
//! the literature.
//!
//! All modules work on `Tensor<5>`, `[batch, channel, x, y, z]`. A network is written once, in 3-D:
//! 2-D work has `z = 1` and kernels of depth 1, and the axis is dropped when weights are exported,
//! so that MONAI loads them unchanged.
//!
//! Training runs on `device.autodiff()`: a module there is in training mode (batch statistics,
//! dropout), and `module.valid()` is the same module in evaluation mode.
//!
//! ```
//! use burn::module::Module;
//! use burn::tensor::{Device, Tensor};
//! use hearth_nn::losses::{DiceLoss, Loss};
//! use hearth_nn::networks::{Network, UNetConfig};
//! use hearth_nn::optim::{Gradients, OptimizerConfig};
//!
//! let device = Device::default().autodiff();
//! let net = UNetConfig { num_res_units: 1, ..UNetConfig::new(3, 1, 2, &[4, 8], &[2]) }.init(&device, 0)?;
//! let mut optimizer = OptimizerConfig::sgd(0.9).build()?;
//! let (image, label) = (Tensor::ones([1, 1, 8, 8, 8], &device), Tensor::zeros([1, 1, 8, 8, 8], &device));
//! let loss = DiceLoss { softmax: true, to_onehot_y: true, ..DiceLoss::default() }.forward(net.forward(image), label)?;
//! let gradients = Gradients::of(&net, &loss);
//! let net = optimizer.step(net, gradients, 0.05)?;
//! assert_eq!(net.valid().forward(Tensor::ones([1, 1, 8, 8, 8], &device.inner())).dims(), [1, 2, 8, 8, 8]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

pub mod blocks;
mod class_size;
pub mod cost;
pub mod diffusion;
mod glob;
mod ignored;
pub mod inferers;
pub mod layers;
pub mod losses;
pub mod metrics;
mod moving_average;
mod named;
pub mod networks;
pub mod optim;
mod parameters;
pub mod post;
pub mod pytorch;
mod running;
mod softmax;
mod ssim;
pub mod trace;
pub mod visualize;
pub mod weights;

pub use layers::ConfigError;
pub use moving_average::moving_average;
pub use named::Named;
pub use parameters::{FreezeError, Frozen, ParameterName, freeze, parameters};
pub use running::{Buffer, Counter};
