//! From images to classes: `monai.networks.nets.Classifier`.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use derive_setters::Setters;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Network;
use super::defaults::{instance, prelu, three, two, yes};
use super::facts::{Facts, by_facts};
use super::regressor::{RegressorConfig, Stem, final_layer};
use crate::layers::{Act, Axes, ConfigError, DropoutSpec, LayerSpec, Linear, Optional, Scope, Sequential, act};

/// How to build a [`Classifier`]: MONAI's parameters and defaults.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(deny_unknown_fields)]
#[setters(strip_option)]
pub struct ClassifierConfig {
    /// Channels and size of the image; two sizes for 2-D, three for 3-D.
    #[setters(into)]
    pub in_shape: Vec<usize>,
    /// Number of classes.
    pub classes: usize,
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
    #[serde(default)]
    #[setters(into)]
    pub dropout: Option<DropoutSpec>,
    /// Whether convolutions have a bias.
    #[serde(default = "yes")]
    pub bias: bool,
    /// Activation of the output; null for none.
    #[serde(default)]
    #[setters(into)]
    pub last_act: Option<LayerSpec>,
}

impl ClassifierConfig {
    /// MONAI's defaults for everything else.
    pub fn new(in_shape: &[usize], classes: usize, channels: &[usize], strides: &[usize]) -> Self {
        let base = RegressorConfig::new(in_shape, &[classes], channels, strides);
        ClassifierConfig {
            in_shape: base.in_shape,
            classes,
            channels: base.channels,
            strides: base.strides,
            kernel_size: base.kernel_size,
            num_res_units: base.num_res_units,
            act: base.act,
            norm: base.norm,
            dropout: base.dropout,
            bias: base.bias,
            last_act: None,
        }
    }

    /// Builds the network with weights drawn from `seed`.
    pub fn init(&self, device: &Device, seed: u64) -> Result<Classifier, ConfigError> {
        self.named("Classifier", device, seed)
    }

    pub(super) fn named(&self, name: &'static str, device: &Device, seed: u64) -> Result<Classifier, ConfigError> {
        let scope = Scope::new(device, seed);
        let base = RegressorConfig {
            in_shape: self.in_shape.clone(),
            out_shape: vec![self.classes],
            channels: self.channels.clone(),
            strides: self.strides.clone(),
            kernel_size: self.kernel_size.clone(),
            num_res_units: self.num_res_units,
            act: self.act.clone(),
            norm: self.norm.clone(),
            dropout: self.dropout.clone(),
            bias: self.bias,
        };
        let stem = Stem::new(name, &scope, &base, self.classes)?;
        let end = scope.enter("final");
        Ok(Classifier {
            net: stem.net,
            last: Linear::new(&end.enter("1"), [stem.features, self.classes], true),
            last_act: act(&end.enter("lastact"), &self.last_act)?,
            facts: stem.facts,
        })
    }
}

/// Residual units that reduce an image, and a linear layer to the classes.
///
/// `[b, in, x, y, z]`, of the size the network was built for, to `[b, classes, 1, 1, 1]`.
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::networks::{ClassifierConfig, Network};
/// let net = ClassifierConfig::new(&[1, 64, 64], 4, &[2, 4, 8], &[2, 2, 2]).init(&Device::default(), 0)?;
/// assert_eq!(net.forward(Tensor::zeros([3, 1, 64, 64, 1], &Device::default())).dims(), [3, 4, 1, 1, 1]);
/// # Ok::<(), hearth_nn::ConfigError>(())
/// ```
#[derive(Module, Debug)]
pub struct Classifier {
    net: Sequential,
    /// `final.1` in the state dict.
    last: Linear,
    /// `final.lastact` in the state dict.
    last_act: Option<Act>,
    #[module(skip)]
    facts: Facts,
}

impl Network for Classifier {
    by_facts!();

    fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        self.facts.clock.next_pass();
        self.last_act.apply(self.last.forward_flat(self.net.forward(x)))
    }

    fn torch_name(&self, path: &str) -> Option<String> {
        Some(match path.strip_prefix("last_act.") {
            Some(rest) => format!("final.lastact.{rest}"),
            None => final_layer(path),
        })
    }
}

network_entry!(ClassifierConfig {
    name: "Classifier",
    aliases: &[],
    about: "Classification of images of one size, built from residual units.",
    paper: "",
    example: r#"in_shape = [1, 64, 64, 64]
classes = 2
channels = [16, 32, 64, 128]
strides = [2, 2, 2, 2]"#,
    input: [1, 1, 64, 64, 64],
    dims: &[2, 3],
    in_channels: |c| super::spec::first(&c.in_shape),
    init: |c, d, s| c.init(d, s),
});
