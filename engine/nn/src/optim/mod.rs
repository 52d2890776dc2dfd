//! Optimizers, numerically equal to `torch.optim` and MONAI.
//!
//! A step is one pass over the module. It updates the stored f32 parameters, even if the forward
//! pass used them in low precision. State is stored by parameter path, as tensors on the
//! parameter's device.
//!
//! ```
//! use burn::tensor::{Device, Tensor};
//! use hearth_nn::networks::{Network, UNetConfig};
//! use hearth_nn::optim::{AdamWConfig, Gradients, OptimizerConfig};
//!
//! let device = Device::default().autodiff();
//! let mut net = UNetConfig::new(3, 1, 1, &[4, 8], &[2]).init(&device, 0)?;
//! let mut optimizer = OptimizerConfig::from(AdamWConfig::default().weight_decay(0.01)).build()?;
//! for _ in 0..2 {
//!     let loss = net.forward(Tensor::ones([1, 1, 8, 8, 8], &device)).square().mean();
//!     let gradients = Gradients::of(&net, &loss);
//!     net = optimizer.step(net, gradients, 1e-3)?;
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod adam;
mod clip;
mod config;
mod gradients;
mod group;
mod novograd;
mod optimizer;
mod rmsprop;
mod rule;
mod sgd;

pub use adam::{Adam, AdamConfig, AdamWConfig};
pub use clip::GradientClip;
pub use config::{OptimizerConfig, OptimizerSpec};
pub use gradients::{Gradients, SeeGradient, watch_gradients};
pub use group::ParameterGroup;
pub use novograd::{Novograd, NovogradConfig};
pub use optimizer::Optimizer;
pub use rmsprop::{RmsProp, RmsPropConfig};
pub use sgd::{Sgd, SgdConfig};

/// An error of an optimizer: invalid options, or gradients or state that do not match.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum OptimError {
    /// An invalid value.
    #[error("{name} is {value}: expected {expected}")]
    Value {
        /// Name of the parameter.
        name: &'static str,
        /// The given value.
        value: String,
        /// The expected value.
        expected: &'static str,
    },
    /// An invalid group of parameters.
    #[error("the group `{params}`: {reason}")]
    Group {
        /// Pattern of the group.
        params: String,
        /// Description of the problem.
        reason: String,
    },
    /// Gradients of another network.
    #[error("the gradient of `{path}` has {got} values, the parameter has {expected}: it comes from another network")]
    Gradient {
        /// Path of the parameter.
        path: String,
        /// Number of values in the gradient.
        got: usize,
        /// Number of values in the parameter.
        expected: usize,
    },
    /// State of another network or optimizer.
    #[error("optimizer state `{key}`: {reason}; it was saved for another network or optimizer")]
    State {
        /// `path/name` of the state.
        key: String,
        /// The mismatch.
        reason: String,
    },
}

impl OptimError {
    pub(crate) fn value(name: &'static str, value: impl core::fmt::Debug, expected: &'static str) -> Self {
        OptimError::Value { name, value: format!("{value:?}"), expected }
    }
}

/// Checks a share that is kept from step to step.
pub(crate) fn check_share(name: &'static str, share: f64) -> Result<(), OptimError> {
    if (0.0..1.0).contains(&share) { Ok(()) } else { Err(OptimError::value(name, share, "at least 0 and less than 1")) }
}

/// Checks a rate, a weight decay or an addend.
pub(crate) fn check_rate(name: &'static str, rate: f64) -> Result<(), OptimError> {
    let sound = rate.is_finite() && rate >= 0.0;
    if sound { Ok(()) } else { Err(OptimError::value(name, rate, "a finite number of at least 0")) }
}
