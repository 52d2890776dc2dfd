//! Channels weighted by what the whole image holds
//! (`monai.networks.blocks.squeeze_and_excitation`).

use burn::module::Module;
use burn::tensor::Tensor;

use crate::layers::{Act, ConfigError, Layer, LayerSpec, Linear, Pool, Scope, Sequential};

/// How to build a [`ChannelSELayer`].
#[derive(Clone, Debug)]
pub struct ChannelSEOptions {
    /// Channels in and out.
    pub in_channels: usize,
    /// The hidden layer has `in_channels / r` channels.
    pub r: usize,
    /// After the hidden layer.
    pub acti_type_1: LayerSpec,
    /// After the output layer.
    pub acti_type_2: LayerSpec,
    /// Whether the input is added to the result.
    pub add_residual: bool,
}

impl ChannelSEOptions {
    /// `ChannelSELayer`'s defaults: ReLU, sigmoid, no shortcut.
    pub fn channel(in_channels: usize, r: usize) -> Self {
        ChannelSEOptions {
            in_channels,
            r,
            acti_type_1: "relu".into(),
            acti_type_2: "sigmoid".into(),
            add_residual: false,
        }
    }

    /// `ResidualSELayer`'s defaults: leaky ReLU, ReLU, with shortcut.
    pub fn residual(in_channels: usize, r: usize) -> Self {
        ChannelSEOptions {
            in_channels,
            r,
            acti_type_1: "leakyrelu".into(),
            acti_type_2: "relu".into(),
            add_residual: true,
        }
    }
}

/// Squeeze and excitation (Hu et al., <https://arxiv.org/abs/1709.01507>): each channel's mean goes
/// through two linear layers, and what comes out weighs the channels. `ResidualSELayer` is the same
/// with a shortcut.
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::{blocks::{ChannelSELayer, ChannelSEOptions}, layers::Scope};
/// let layer = ChannelSELayer::new(&Scope::new(&Device::default(), 0), &ChannelSEOptions::residual(6, 2))?;
/// assert_eq!(layer.forward(Tensor::ones([2, 6, 5, 5, 1], &Device::default())).dims(), [2, 6, 5, 5, 1]);
/// # Ok::<(), hearth_nn::ConfigError>(())
/// ```
#[derive(Module, Debug)]
pub struct ChannelSELayer {
    /// Linear, activation, linear, activation: `0`, `1`, `2`, `3`.
    pub fc: Sequential,
    #[module(skip)]
    add_residual: bool,
}

impl ChannelSELayer {
    /// Builds the layer.
    pub fn new(scope: &Scope, options: &ChannelSEOptions) -> Result<Self, ConfigError> {
        let ChannelSEOptions { in_channels, r, acti_type_1, acti_type_2, add_residual } = options;
        let hidden = in_channels.checked_div(*r).filter(|hidden| *hidden > 0).ok_or_else(|| {
            ConfigError::value("reduction", r, format!("expected at least 1 and at most the {in_channels} channels"))
        })?;
        let fc = scope.enter("fc");
        let named = |name: &str, layer| (name.to_owned(), layer);
        let layers = vec![
            named("0", Layer::Linear(Linear::new(&fc.enter("0"), [*in_channels, hidden], true))),
            named("1", Layer::Act(Act::new(&fc.enter("1"), acti_type_1)?)),
            named("2", Layer::Linear(Linear::new(&fc.enter("2"), [hidden, *in_channels], true))),
            named("3", Layer::Act(Act::new(&fc.enter("3"), acti_type_2)?)),
        ];
        Ok(ChannelSELayer { fc: Sequential::new(layers), add_residual: *add_residual })
    }

    /// Same shape out as in.
    pub fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        let dtype = x.dtype();
        let weights = self.fc.forward(Pool::global_avg().forward(x.clone())).cast(dtype);
        let weighted = x.clone() * weights;
        if self.add_residual { weighted + x } else { weighted }
    }
}
