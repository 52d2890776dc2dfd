//! The layers that networks are built from, with MONAI's names, defaults and state-dict keys.
//!
//! Precision: a convolution casts its input to its weight's type; a norm computes in f32 and
//! returns its input's type. With bf16 or f16 weights (automatic mixed precision), convolutions run
//! in that type and statistics in f32.
//!
//! ```
//! use burn::tensor::{Device, Tensor};
//! use hearth_nn::layers::{AdnOptions, ConvolutionOptions, DropoutClock, Scope};
//!
//! let adn = AdnOptions {
//!     ordering: "NDA".to_owned(),
//!     act: Some("PRELU".into()),
//!     norm: Some("INSTANCE".into()),
//!     dropout: None,
//!     clock: DropoutClock::default(),
//! };
//! let scope = Scope::new(&Device::default(), 0); // device and seed of the weights
//! let layer = ConvolutionOptions::new([1, 4], [3; 3]).adn(adn).build(&scope.enter("first"))?;
//! let y = layer.forward(Tensor::ones([1, 1, 8, 8, 8], &Device::default()));
//! assert_eq!(y.dims(), [1, 4, 8, 8, 8]);
//! # Ok::<(), hearth_nn::ConfigError>(())
//! ```

mod activation;
mod adn;
mod awaited;
mod conv;
mod convolution;
mod drop_path;
mod dropout;
mod dropout_spec;
mod from_burn;
mod init;
mod layer_norm;
mod linear;
mod norm;
mod path;
mod pool;
mod rehearsal;
mod residual_unit;
mod scope;
mod sequential;
mod single_value;
mod spec;
mod sync;
mod upsample;

pub use activation::{Act, PRelu, Plain};
pub(crate) use activation::{activated_sum, gelu, leaky_relu, relu, residual_sum, swish};
pub use adn::{Adn, AdnLayer, AdnOptions};
pub(crate) use adn::{Optional, act, norm, norm_then_act};
pub use awaited::{awaiting_weights, without_draws};
pub use conv::{Conv, ConvTranspose};
pub use convolution::{Convolution, ConvolutionOptions, Kernel};
pub use drop_path::DropPath;
pub use dropout::{Dropout, DropoutClock};
pub use dropout_spec::DropoutSpec;
pub use init::{Draw, Init};
pub use layer_norm::{LayerNorm, layer_norm};
pub use linear::Linear;
pub use norm::{BatchNorm, GroupNorm, InstanceNorm, Norm};
pub(crate) use path::LayerPath;
pub use path::{has_layer_ranges, layer_ranges};
pub use pool::Pool;
pub(crate) use pool::{max_pool, per_axis};
pub(crate) use rehearsal::rehearse;
pub use residual_unit::ResidualUnit;
pub use scope::Scope;
pub use sequential::{Layer, Sequential};
pub use single_value::{SingleValueNorm, find_single_value_norm, has_batch_norm, take_single_value_norm};
pub(crate) use spec::in_space;
pub use spec::{Axes, LayerSpec};
pub use sync::{SumOverRanks, SyncedNorms};
pub(crate) use upsample::resize;
pub use upsample::{UpSample, UpSampleOptions, UpsampleMode};

/// An error of building a network or layer.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ConfigError {
    /// An unknown name.
    #[error("unknown {kind} `{name}`; known are: {known}")]
    UnknownName {
        /// The kind of object: activation, norm, ...
        kind: &'static str,
        /// The given name.
        name: String,
        /// The known names.
        known: &'static str,
    },
    /// An argument that the layer does not have.
    #[error("{layer} has no argument `{argument}`; it has: {known}")]
    UnknownArgument {
        /// Name of the layer.
        layer: String,
        /// The given argument.
        argument: String,
        /// The arguments of the layer.
        known: String,
    },
    /// An invalid value.
    #[error("{name} is {value}: {expected}")]
    Value {
        /// Name of the parameter.
        name: String,
        /// The given value.
        value: String,
        /// The expected value.
        expected: String,
    },
    /// Weights for which there is not enough memory, or more than any network has.
    #[error("{reason}")]
    TooLarge {
        /// The shape of the weight that exceeded the limit.
        shape: Vec<usize>,
        /// The required amount and the limit.
        reason: String,
    },
}

impl ConfigError {
    /// An invalid value.
    pub fn value(name: impl Into<String>, value: impl core::fmt::Debug, expected: impl Into<String>) -> Self {
        ConfigError::Value { name: name.into(), value: format!("{value:?}"), expected: expected.into() }
    }
}
