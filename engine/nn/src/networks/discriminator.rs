//! Real or generated: `monai.networks.nets.Discriminator`, a [`Classifier`] with one output.

use burn::tensor::Device;
use derive_setters::Setters;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::classifier::{Classifier, ClassifierConfig};
use super::defaults::{instance, prelu, three, two, yes};
use crate::layers::{Axes, ConfigError, DropoutSpec, LayerSpec};

/// How to build a discriminator: MONAI's parameters and defaults.
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::networks::{DiscriminatorConfig, Network};
/// let net = DiscriminatorConfig::new(&[1, 64, 64], &[2, 4, 8], &[2, 2, 2]).init(&Device::default(), 0)?;
/// assert_eq!(net.forward(Tensor::zeros([3, 1, 64, 64, 1], &Device::default())).dims(), [3, 1, 1, 1, 1]);
/// # Ok::<(), hearth_nn::ConfigError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(deny_unknown_fields)]
#[setters(strip_option)]
pub struct DiscriminatorConfig {
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
    /// Activation of the output; null for none.
    #[serde(default = "sigmoid")]
    #[setters(into)]
    pub last_act: Option<LayerSpec>,
}

pub(super) fn quarter() -> Option<DropoutSpec> {
    Some(0.25.into())
}

fn sigmoid() -> Option<LayerSpec> {
    Some("SIGMOID".into())
}

impl DiscriminatorConfig {
    /// MONAI's defaults for everything else.
    pub fn new(in_shape: &[usize], channels: &[usize], strides: &[usize]) -> Self {
        let base = ClassifierConfig::new(in_shape, 1, channels, strides);
        DiscriminatorConfig {
            in_shape: base.in_shape,
            channels: base.channels,
            strides: base.strides,
            kernel_size: base.kernel_size,
            num_res_units: base.num_res_units,
            act: base.act,
            norm: base.norm,
            dropout: quarter(),
            bias: base.bias,
            last_act: sigmoid(),
        }
    }

    /// Builds the network with weights drawn from `seed`.
    pub fn init(&self, device: &Device, seed: u64) -> Result<Classifier, ConfigError> {
        let config = ClassifierConfig {
            in_shape: self.in_shape.clone(),
            classes: 1,
            channels: self.channels.clone(),
            strides: self.strides.clone(),
            kernel_size: self.kernel_size.clone(),
            num_res_units: self.num_res_units,
            act: self.act.clone(),
            norm: self.norm.clone(),
            dropout: self.dropout.clone(),
            bias: self.bias,
            last_act: self.last_act.clone(),
        };
        config.named("Discriminator", device, seed)
    }
}

network_entry!(DiscriminatorConfig {
    name: "Discriminator",
    aliases: &[],
    about: "Whether an image is real or generated.",
    paper: "Goodfellow et al. 2014, arXiv:1406.2661",
    example: r#"in_shape = [1, 64, 64, 64]
channels = [16, 32, 64, 128]
strides = [2, 2, 2, 2]"#,
    input: [1, 1, 64, 64, 64],
    dims: &[2, 3],
    in_channels: |c| super::spec::first(&c.in_shape),
    init: |c, d, s| c.init(d, s),
});
