//! Optimizers, exact to `torch.optim` and MONAI.
//!
//! One pass over the module per step. The stored f32 parameters are updated, even where the forward
//! pass used them in low precision. State is kept by parameter path, as tensors on the parameter's
//! device.

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

/// An optimizer that cannot be built, or a step or state that does not match.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum OptimError {
    /// An invalid value.
    #[error("{name} is {value}: expected {expected}")]
    Value {
        /// The parameter.
        name: &'static str,
        /// The given value.
        value: String,
        /// The expected value.
        expected: &'static str,
    },
    /// An invalid group of parameters.
    #[error("the group `{params}`: {reason}")]
    Group {
        /// Its pattern.
        params: String,
        /// Description of the problem.
        reason: String,
    },
    /// Gradients of another network.
    #[error("the gradient of `{path}` has {got} values, the parameter has {expected}: it comes from another network")]
    Gradient {
        /// Path of the parameter.
        path: String,
        /// Values in the gradient.
        got: usize,
        /// Values in the parameter.
        expected: usize,
    },
    /// State of another network or optimizer.
    #[error("optimizer state `{key}`: {reason}; it was saved for another network or optimizer")]
    State {
        /// `path/name` of the state.
        key: String,
        /// What does not match.
        reason: String,
    },
}

impl OptimError {
    pub(crate) fn value(name: &'static str, value: impl core::fmt::Debug, expected: &'static str) -> Self {
        OptimError::Value { name, value: format!("{value:?}"), expected }
    }
}
