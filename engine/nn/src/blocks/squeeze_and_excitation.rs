//! Squeeze and excitation: weights channels by their mean over the image
//! (`monai.networks.blocks.squeeze_and_excitation`).

use burn::module::Module;
use burn::tensor::Tensor;

use crate::layers::{Act, ConfigError, Layer, LayerSpec, Linear, Pool, Scope, Sequential};

/// Options of a [`ChannelSELayer`].
#[derive(Clone, Debug)]
pub struct ChannelSEOptions {
    /// Number of input and output channels.
    pub in_channels: usize,
    /// Reduction: the hidden layer has `in_channels / r` channels.
    pub r: usize,
    /// The activation after the hidden layer.
    pub acti_type_1: LayerSpec,
    /// The activation after the output layer.
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

/// Squeeze and excitation (Hu et al., <https://arxiv.org/abs/1709.01507>): two linear layers
/// compute a weight for each channel from the means of the channels. `ResidualSELayer` is the same
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
    /// The layers `0` to `3`: linear, activation, linear, activation.
    pub fc: Sequential,
    #[module(skip)]
    add_residual: bool,
}

impl ChannelSELayer {
    /// Builds the layer.
    ///
    /// # Errors
    /// If an option is invalid; the error names it.
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

    /// Applies the layer to `[b, c, x, y, z]`; the shape is unchanged.
    pub fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        let dtype = x.dtype();
        let weights = self.fc.forward(Pool::global_avg().forward(x.clone())).cast(dtype);
        let weighted = x.clone() * weights;
        if self.add_residual { weighted + x } else { weighted }
    }
}
