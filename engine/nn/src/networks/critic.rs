//! The critic of a Wasserstein GAN: `monai.networks.nets.Critic`.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use derive_setters::Setters;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Network;
use super::defaults::{instance, prelu, three, two, yes};
use super::discriminator::quarter;
use super::facts::{Facts, by_facts};
use super::regressor::{RegressorConfig, Stem};
use crate::layers::{Axes, ConfigError, DropoutSpec, LayerSpec, Scope, Sequential};

/// How to build a [`Critic`]: MONAI's parameters and defaults.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(deny_unknown_fields)]
#[setters(strip_option)]
pub struct CriticConfig {
    /// Channels and size of the image; two sizes for 2-D, three for 3-D.
    #[setters(into)]
    pub in_shape: Vec<usize>,
    /// Channels per layer.
    #[setters(into)]
    pub channels: Vec<usize>,
    /// Stride per layer.
    #[setters(into)]
    pub strides: Vec<Axes>,
    /// Kernel, odd.
    #[serde(default = "three")]
    #[setters(into)]
    pub kernel_size: Axes,
    /// Convolutions per residual unit; 0 for plain convolutions.
    #[serde(default = "two")]
    pub num_res_units: usize,
    /// Activation; `""` or null for none.
    #[serde(default = "prelu")]
    #[setters(into)]
    pub act: Option<LayerSpec>,
    /// Norm; `""` or null for none.
    #[serde(default = "instance")]
    #[setters(into)]
    pub norm: Option<LayerSpec>,
    /// Dropout probability; null for none.
    #[serde(default = "quarter")]
    #[setters(into)]
    pub dropout: Option<DropoutSpec>,
    /// Whether convolutions have a bias.
    #[serde(default = "yes")]
    pub bias: bool,
}

impl CriticConfig {
    /// MONAI's defaults for everything else.
    pub fn new(in_shape: &[usize], channels: &[usize], strides: &[usize]) -> Self {
        let base = RegressorConfig::new(in_shape, &[1], channels, strides);
        CriticConfig {
            in_shape: base.in_shape,
            channels: base.channels,
            strides: base.strides,
            kernel_size: base.kernel_size,
            num_res_units: base.num_res_units,
            act: base.act,
            norm: base.norm,
            dropout: quarter(),
            bias: base.bias,
        }
    }

    /// Builds the network with weights drawn from `seed`.
    pub fn init(&self, device: &Device, seed: u64) -> Result<Critic, ConfigError> {
        let base = RegressorConfig {
            in_shape: self.in_shape.clone(),
            out_shape: vec![1],
            channels: self.channels.clone(),
            strides: self.strides.clone(),
            kernel_size: self.kernel_size.clone(),
            num_res_units: self.num_res_units,
            act: self.act.clone(),
            norm: self.norm.clone(),
            dropout: self.dropout.clone(),
            bias: self.bias,
        };
        let Stem { net, mut facts, .. } = Stem::new("Critic", &Scope::new(device, seed), &base, 1)?;
        // A mean has no fixed number of features.
        facts.exact = None;
        Ok(Critic { net, facts })
    }
}

/// Residual units that reduce an image, and the mean of their output (Arjovsky et al.,
/// <https://arxiv.org/abs/1701.07875>).
///
/// `[b, in, x, y, z]` to `[b, 1, 1, 1, 1]`.
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::networks::{CriticConfig, Network};
/// let net = CriticConfig::new(&[1, 64, 64], &[2, 4, 8], &[2, 2, 2]).init(&Device::default(), 0)?;
/// assert_eq!(net.forward(Tensor::zeros([3, 1, 64, 64, 1], &Device::default())).dims(), [3, 1, 1, 1, 1]);
/// # Ok::<(), hearth_nn::ConfigError>(())
/// ```
#[derive(Module, Debug)]
pub struct Critic {
    net: Sequential,
    #[module(skip)]
    facts: Facts,
}

impl Network for Critic {
    by_facts!();

    fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        self.facts.clock.next_pass();
        let x = self.net.forward(x);
        let [b, c, dx, dy, dz] = x.dims();
        x.reshape([b, c * dx * dy * dz]).mean_dim(1).reshape([b, 1, 1, 1, 1])
    }
}

network_entry!(CriticConfig {
    name: "Critic",
    aliases: &[],
    about: "The critic of a Wasserstein GAN.",
    paper: "Arjovsky et al. 2017, arXiv:1701.07875",
    example: r#"in_shape = [1, 64, 64, 64]
channels = [16, 32, 64, 128]
strides = [2, 2, 2, 2]"#,
    input: [1, 1, 64, 64, 64],
    dims: &[2, 3],
    in_channels: |c| super::spec::first(&c.in_shape),
    init: |c, d, s| c.init(d, s),
});
