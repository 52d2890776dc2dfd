//! The residual encoder and decoder of `monai.networks.nets.SegResNet`.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use derive_setters::Setters;
use hearth_kernels::conv3d::Channels;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Network;
use super::defaults::{group_of, one, relu, three_dims, two, yes};
use super::facts::{Facts, by_facts};
use crate::layers::{
    Act, ConfigError, Convolution, ConvolutionOptions, Dropout, Layer, LayerSpec, Norm, Optional, Scope, Sequential,
    UpSample, UpSampleOptions, UpsampleMode, act, in_space, norm, norm_then_act, residual_sum,
};
use crate::named::Named;

/// Options of [`SegResNet`]: MONAI's parameters and defaults.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(deny_unknown_fields)]
#[setters(strip_option)]
pub struct SegResNetConfig {
    /// Number of spatial axes: 2 or 3.
    #[serde(default = "three_dims")]
    pub spatial_dims: usize,
    /// Number of channels of the first level; each next level has twice as many.
    #[serde(default = "eight")]
    pub init_filters: usize,
    /// Number of channels of the image.
    #[serde(default = "one")]
    pub in_channels: usize,
    /// Number of channels of the output: one per class.
    #[serde(default = "two")]
    pub out_channels: usize,
    /// Probability that a channel of the first convolution is dropped; null for none.
    #[serde(default)]
    pub dropout_prob: Option<f64>,
    /// The activation.
    #[serde(default = "relu")]
    #[setters(into)]
    pub act: Option<LayerSpec>,
    /// The norm.
    #[serde(default = "group_of_eight")]
    #[setters(into)]
    pub norm: Option<LayerSpec>,
    /// Older option for group norm: `"group"`, with `num_groups`.
    #[serde(default)]
    #[setters(into)]
    pub norm_name: String,
    /// Number of groups of `norm_name`.
    #[serde(default = "eight")]
    pub num_groups: usize,
    /// Whether a last convolution maps to the classes.
    #[serde(default = "yes")]
    pub use_conv_final: bool,
    /// Number of residual blocks of each level down, top first.
    #[serde(default = "blocks_down")]
    #[setters(into)]
    pub blocks_down: Vec<usize>,
    /// Number of residual blocks of each level up, lowest first; one entry less than `blocks_down`.
    #[serde(default = "blocks_up")]
    #[setters(into)]
    pub blocks_up: Vec<usize>,
    /// Upsampling of a level to the size of the next.
    #[serde(default = "non_trainable")]
    pub upsample_mode: UpsampleMode,
}

pub(super) fn eight() -> usize {
    8
}

pub(super) fn group_of_eight() -> Option<LayerSpec> {
    group_of(8)
}

pub(super) fn blocks_down() -> Vec<usize> {
    vec![1, 2, 2, 4]
}

pub(super) fn blocks_up() -> Vec<usize> {
    vec![1, 1, 1]
}

pub(super) fn non_trainable() -> UpsampleMode {
    UpsampleMode::NonTrainable
}

impl Default for SegResNetConfig {
    fn default() -> Self {
        SegResNetConfig {
            spatial_dims: three_dims(),
            init_filters: eight(),
            in_channels: one(),
            out_channels: two(),
            dropout_prob: None,
            act: relu(),
            norm: group_of_eight(),
            norm_name: String::new(),
            num_groups: eight(),
            use_conv_final: true,
            blocks_down: blocks_down(),
            blocks_up: blocks_up(),
            upsample_mode: non_trainable(),
        }
    }
}

impl SegResNetConfig {
    /// Builds the network with weights drawn from `seed`.
    ///
    /// # Errors
    /// If an option is invalid; the error names it.
    pub fn init(&self, device: &Device, seed: u64) -> Result<SegResNet, ConfigError> {
        let facts = self.facts("SegResNet")?;
        let body = Body::new(&Scope::new(device, seed), self, &facts)?;
        Ok(SegResNet { body, use_conv_final: self.use_conv_final, facts })
    }

    /// Checks the options and returns the facts.
    pub(super) fn facts(&self, name: &'static str) -> Result<Facts, ConfigError> {
        let outputs = if self.use_conv_final { self.out_channels } else { self.init_filters };
        let facts = Facts::new(name, self.spatial_dims, [self.in_channels, outputs])?;
        let halvings = self.blocks_down.len().checked_sub(1);
        let Some(halvings) = halvings.filter(|n| *n == self.blocks_up.len() && *n < 16) else {
            let expected = format!("expected one less than blocks_down, which has {}", self.blocks_down.len());
            return Err(ConfigError::value("blocks_up", &self.blocks_up, expected));
        };
        if self.init_filters == 0 || self.out_channels == 0 {
            let given = (self.init_filters, self.out_channels);
            return Err(ConfigError::value("init_filters and out_channels", given, "expected at least 1"));
        }
        if !["", "group"].contains(&self.norm_name.to_lowercase().as_str()) {
            return Err(ConfigError::value("norm_name", &self.norm_name, "it is an older option; use `norm`"));
        }
        Ok(facts.divisible_by(1 << halvings))
    }

    /// The effective norm.
    pub(super) fn the_norm(&self) -> Option<LayerSpec> {
        if self.norm_name.is_empty() { self.norm.clone() } else { group_of(self.num_groups) }
    }

    /// A convolution without norm and activation.
    pub(super) fn conv(
        &self,
        scope: &Scope,
        channels: [usize; 2],
        kernel: usize,
        stride: usize,
        bias: bool,
    ) -> Result<Convolution, ConfigError> {
        let kernel = in_space(self.spatial_dims, kernel);
        let stride = in_space(self.spatial_dims, stride);
        Convolution::new(scope, &ConvolutionOptions { stride, bias, ..ConvolutionOptions::new(channels, kernel) })
    }

    /// Upsampling by 2, without corner alignment.
    pub(super) fn upsample(&self, scope: &Scope, channels: usize) -> Result<UpSample, ConfigError> {
        let options = UpSampleOptions::new(self.spatial_dims, [channels; 2], self.upsample_mode);
        UpSample::new(scope, &UpSampleOptions { align_corners: false, ..options })
    }
}

/// Norm, activation and convolution, twice, with the input added.
#[derive(Module, Debug)]
pub(super) struct ResBlock {
    norm1: Option<Norm>,
    norm2: Option<Norm>,
    act: Option<Act>,
    conv1: Convolution,
    conv2: Convolution,
}

impl ResBlock {
    fn new(scope: &Scope, config: &SegResNetConfig, channels: usize) -> Result<Self, ConfigError> {
        let spec = config.the_norm();
        let conv = |name: &str| config.conv(&scope.enter(name), [channels; 2], 3, 1, false);
        Ok(ResBlock {
            norm1: norm(&scope.enter("norm1"), &spec, channels)?,
            norm2: norm(&scope.enter("norm2"), &spec, channels)?,
            act: act(&scope.enter("act"), &config.act)?,
            conv1: conv("conv1")?,
            conv2: conv("conv2")?,
        })
    }

    fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        let out = Channels::One(norm_then_act(&self.norm1, &self.act, x.clone()));
        residual_sum(self.conv2.forward(self.conv1.forward_with(out, &self.norm2, &self.act)), x)
    }
}

/// An entry of a level.
#[derive(Module, Debug)]
#[allow(clippy::large_enum_variant, reason = "a network has a few dozen of them, and modules cannot be boxed")]
enum Entry {
    Conv(Convolution),
    Res(ResBlock),
}

/// Norm and convolution of kernel 1. The activation between them is the network's own, which is a
/// single module in MONAI.
pub(super) fn final_conv(scope: &Scope, config: &SegResNetConfig, outputs: usize) -> Result<Sequential, ConfigError> {
    let mut layers = Vec::new();
    if let Some(norm) = norm(&scope.enter("0"), &config.the_norm(), config.init_filters)? {
        layers.push(("0".to_owned(), Layer::Norm(norm)));
    }
    let conv = config.conv(&scope.enter("2"), [config.init_filters, outputs], 1, 1, true)?;
    layers.push(("2".to_owned(), Layer::Convolution(conv)));
    Ok(Named::new(layers))
}

/// The layers of a [`SegResNet`].
#[derive(Module, Debug)]
pub(super) struct Body {
    pub act_mod: Option<Act>,
    /// `convInit` in the state dict.
    conv_init: Convolution,
    down_layers: Named<Named<Entry>>,
    up_layers: Named<Named<ResBlock>>,
    up_samples: Named<Sequential>,
    pub conv_final: Sequential,
    dropout: Option<Dropout>,
}

impl Body {
    pub fn new(scope: &Scope, config: &SegResNetConfig, facts: &Facts) -> Result<Self, ConfigError> {
        let filters = config.init_filters;
        let down = config.blocks_down.iter().enumerate().map(|(i, blocks)| {
            let (scope, channels) = (scope.enter("down_layers").enter(&i.to_string()), filters << i);
            let mut entries = Vec::new();
            if i > 0 {
                let conv = config.conv(&scope.enter("0"), [channels / 2, channels], 3, 2, false)?;
                entries.push(("0".to_owned(), Entry::Conv(conv)));
            }
            for block in 1..=*blocks {
                let name = block.to_string();
                let block = ResBlock::new(&scope.enter(&name), config, channels)?;
                entries.push((name, Entry::Res(block)));
            }
            Ok(Named::new(entries))
        });
        let down_layers = Named::numbered(down.collect::<Result<Vec<_>, ConfigError>>()?);
        let levels = config.blocks_up.len();
        let up = config.blocks_up.iter().enumerate().map(|(i, blocks)| {
            let (scope, channels) = (scope.enter("up_layers").enter(&i.to_string()), filters << (levels - i - 1));
            let blocks = (0..*blocks).map(|block| ResBlock::new(&scope.enter(&block.to_string()), config, channels));
            Ok(Named::numbered(blocks.collect::<Result<Vec<_>, _>>()?))
        });
        let up_layers = Named::numbered(up.collect::<Result<Vec<_>, ConfigError>>()?);
        let samples = (0..levels).map(|i| {
            let (scope, channels) = (scope.enter("up_samples").enter(&i.to_string()), filters << (levels - i - 1));
            let conv = config.conv(&scope.enter("0"), [2 * channels, channels], 1, 1, false)?;
            let up = config.upsample(&scope.enter("1"), channels)?;
            Ok(Named::numbered([Layer::Convolution(conv), Layer::UpSample(up)]))
        });
        let up_samples = Named::numbered(samples.collect::<Result<Vec<_>, ConfigError>>()?);
        let dropout = config.dropout_prob.map(|p| Dropout::new("dropout", p, &facts.clock)).transpose()?;
        Ok(Body {
            act_mod: act(&scope.enter("act_mod"), &config.act)?,
            conv_init: config.conv(&scope.enter("convInit"), [config.in_channels, filters], 3, 1, false)?,
            down_layers,
            up_layers,
            up_samples,
            conv_final: final_conv(&scope.enter("conv_final"), config, config.out_channels)?,
            dropout: dropout.map(Dropout::by_channel),
        })
    }

    /// The features of each level, top first.
    pub fn encode(&self, x: Tensor<5>) -> Vec<Tensor<5>> {
        let x = self.conv_init.forward(x);
        let mut x = self.dropout.iter().fold(x, |x, dropout| dropout.forward(x));
        let mut levels = Vec::with_capacity(self.down_layers.len());
        for level in self.down_layers.iter() {
            x = level.iter().fold(x, |x, entry| match entry {
                Entry::Conv(conv) => conv.forward(x),
                Entry::Res(block) => block.forward(x),
            });
            levels.push(x.clone());
        }
        levels
    }

    /// Decodes the lowest features; `skips` are those of the levels above, top first, or empty.
    pub fn decode(&self, mut x: Tensor<5>, mut skips: Vec<Tensor<5>>) -> Tensor<5> {
        for (sample, blocks) in self.up_samples.iter().zip(self.up_layers.iter()) {
            x = sample.forward(x);
            if let Some(skip) = skips.pop() {
                x = residual_sum(x, skip);
            }
            x = blocks.iter().fold(x, |x, block| block.forward(x));
        }
        x
    }

    /// Runs the layers of [`final_conv`].
    pub fn finish(&self, last: &Sequential, x: Tensor<5>) -> Tensor<5> {
        last.iter().fold(x, |x, layer| match layer {
            Layer::Convolution(conv) => conv.forward(self.act_mod.apply(x)),
            layer => layer.forward(x),
        })
    }
}

/// A residual encoder and decoder (Myronenko, <https://arxiv.org/abs/1810.11654>), without the
/// autoencoder branch.
///
/// `[b, in, x, y, z]` to `[b, out, x, y, z]`; each axis must be divisible by `2^(levels - 1)`.
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::networks::{Network, SegResNetConfig};
/// let config = SegResNetConfig { blocks_down: vec![1, 1], blocks_up: vec![1], ..SegResNetConfig::default() };
/// let net = config.init(&Device::default(), 0)?;
/// assert_eq!(net.forward(Tensor::zeros([1, 1, 8, 8, 8], &Device::default())).dims(), [1, 2, 8, 8, 8]);
/// # Ok::<(), hearth_nn::ConfigError>(())
/// ```
#[derive(Module, Debug)]
pub struct SegResNet {
    body: Body,
    #[module(skip)]
    use_conv_final: bool,
    #[module(skip)]
    facts: Facts,
}

/// The state-dict key of a parameter of the [`Body`].
pub(super) fn body_name(path: &str) -> String {
    let path = path.strip_prefix("body.").unwrap_or(path);
    path.strip_prefix("conv_init.").map_or_else(|| path.to_owned(), |rest| format!("convInit.{rest}"))
}

/// Returns the features of the lowest level, and those of the levels above.
pub(super) fn lowest(mut levels: Vec<Tensor<5>>, x: Tensor<5>) -> (Tensor<5>, Vec<Tensor<5>>) {
    let lowest = levels.pop().unwrap_or(x);
    (lowest, levels)
}

impl Network for SegResNet {
    by_facts!();

    fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        self.facts.clock.next_pass();
        let (features, skips) = lowest(self.body.encode(x.clone()), x);
        let out = self.body.decode(features, skips);
        if self.use_conv_final { self.body.finish(&self.body.conv_final, out) } else { out }
    }

    fn torch_name(&self, path: &str) -> Option<String> {
        Some(body_name(path))
    }

    /// The activation is one module with two names.
    fn torch_aliases(&self, path: &str) -> Vec<String> {
        path.strip_prefix("body.act_mod.").map(|rest| format!("conv_final.1.{rest}")).into_iter().collect()
    }
}

network_entry!(SegResNetConfig {
    name: "SegResNet",
    aliases: &[],
    about: "Segmentation: residual encoder, light decoder (BraTS 2018).",
    paper: "Myronenko 2018, arXiv:1810.11654",
    example: r#"spatial_dims = 3
in_channels = 1
out_channels = 2
init_filters = 16"#,
    input: [1, 1, 64, 64, 64],
    dims: &[2, 3],
    in_channels: |c| c.in_channels,
    init: |c, d, s| c.init(d, s),
});
