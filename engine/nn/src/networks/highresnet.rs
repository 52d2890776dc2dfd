//! The high-resolution network of `monai.networks.nets.HighResNet`.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use derive_setters::Setters;
use hearth_kernels::conv3d::ConvShape;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::Network;
use super::defaults::{one, relu, three_dims};
use super::facts::{Facts, by_facts};
use crate::layers::{
    Adn, AdnOptions, Axes, ConfigError, Conv, Convolution, ConvolutionOptions, DropoutClock, DropoutSpec, LayerSpec,
    Scope, residual_sum,
};
use crate::named::Named;

/// An entry of `layer_params`. The first and the last two are convolutions (`n_features`,
/// `kernel_size`); the others are residual blocks (`n_features`, `kernels`, `repeat`), each with
/// twice the dilation of the previous one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(deny_unknown_fields, default)]
#[setters(strip_option)]
pub struct HighResLayer {
    /// A name for the reader; ignored.
    #[setters(into)]
    pub name: Option<String>,
    /// Number of output channels; the last convolution has those of the network.
    pub n_features: Option<usize>,
    /// Kernel of a convolution.
    #[setters(into)]
    pub kernel_size: Option<Axes>,
    /// Kernels of a residual block.
    #[setters(into)]
    pub kernels: Option<Vec<Axes>>,
    /// Number of repetitions of the residual block.
    pub repeat: Option<usize>,
}

/// The shortcut of a residual block if the number of channels changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ChannelMatching {
    /// Channels of zeros on both sides.
    #[default]
    Pad,
    /// A convolution of kernel 1.
    Project,
}

/// Options of [`HighResNet`]: MONAI's parameters and defaults.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(deny_unknown_fields)]
#[setters(strip_option)]
pub struct HighResNetConfig {
    /// Number of spatial axes: 2 or 3.
    #[serde(default = "three_dims")]
    pub spatial_dims: usize,
    /// Number of channels of the image.
    #[serde(default = "one")]
    pub in_channels: usize,
    /// Number of channels of the output: one per class.
    #[serde(default = "one")]
    pub out_channels: usize,
    /// The norm.
    #[serde(default = "affine_batch")]
    #[setters(into)]
    pub norm_type: Option<LayerSpec>,
    /// The activation.
    #[serde(default = "relu")]
    #[setters(into)]
    pub acti_type: Option<LayerSpec>,
    /// Dropout probability of the last two convolutions; null for none.
    #[serde(default = "no_dropout")]
    #[setters(into)]
    pub dropout_prob: Option<DropoutSpec>,
    /// Whether convolutions have a bias.
    #[serde(default)]
    pub bias: bool,
    /// The layers.
    #[serde(default = "layer_params")]
    #[setters(into)]
    pub layer_params: Vec<HighResLayer>,
    /// The shortcut of residual blocks if the number of channels changes.
    #[serde(default)]
    pub channel_matching: ChannelMatching,
}

fn affine_batch() -> Option<LayerSpec> {
    Some(LayerSpec::with("batch", &[("affine", json!(true))]))
}

fn no_dropout() -> Option<DropoutSpec> {
    Some(0.0.into())
}

/// MONAI's `DEFAULT_LAYER_PARAMS_3D`.
fn layer_params() -> Vec<HighResLayer> {
    let conv = |name: &str, features: Option<usize>, kernel: usize| HighResLayer {
        name: Some(name.to_owned()),
        n_features: features,
        kernel_size: Some(kernel.into()),
        ..HighResLayer::default()
    };
    let block = |name: &str, features: usize| HighResLayer {
        name: Some(name.to_owned()),
        n_features: Some(features),
        kernels: Some(vec![3.into(), 3.into()]),
        repeat: Some(3),
        ..HighResLayer::default()
    };
    vec![
        conv("conv_0", Some(16), 3),
        block("res_1", 16),
        block("res_2", 32),
        block("res_3", 64),
        conv("conv_1", Some(80), 1),
        conv("conv_2", None, 1),
    ]
}

impl Default for HighResNetConfig {
    fn default() -> Self {
        HighResNetConfig {
            spatial_dims: three_dims(),
            in_channels: one(),
            out_channels: one(),
            norm_type: affine_batch(),
            acti_type: relu(),
            dropout_prob: no_dropout(),
            bias: false,
            layer_params: layer_params(),
            channel_matching: ChannelMatching::Pad,
        }
    }
}

impl HighResNetConfig {
    /// Builds the network with weights drawn from `seed`.
    ///
    /// # Errors
    /// If an option is invalid; the error names it.
    pub fn init(&self, device: &Device, seed: u64) -> Result<HighResNet, ConfigError> {
        let facts = Facts::new("HighResNet", self.spatial_dims, [self.in_channels, self.out_channels])?;
        let [first, blocks @ .., penultimate, last] = &self.layer_params[..] else {
            let expected = "expected at least three: a first convolution and the last two";
            return Err(ConfigError::value("layer_params", &self.layer_params, expected));
        };
        let builder = Builder { config: self, clock: facts.clock.clone() };
        let scope = Scope::new(device, seed).enter("blocks");
        let mut layers: Vec<Block> = Vec::new();
        let mut channels = [self.in_channels, features(first, 0)?];
        layers.push(builder.conv(&scope.enter("0"), channels, first, 0, "NA", None)?);
        for (i, params) in blocks.iter().enumerate() {
            channels = [channels[1], features(params, i + 1)?];
            let repeat = given(params.repeat, "repeat", i + 1)?;
            for _ in 0..repeat {
                let scope = scope.enter(&layers.len().to_string());
                layers.push(Block::Residual(builder.residual(&scope, channels, params, i)?));
                channels = [channels[1]; 2];
            }
        }
        let place = self.layer_params.len() - 2;
        for (place, output, params) in
            [(place, features(penultimate, place)?, penultimate), (place + 1, self.out_channels, last)]
        {
            channels = [channels[1], output];
            let scope = scope.enter(&layers.len().to_string());
            layers.push(builder.conv(&scope, channels, params, place, "NAD", self.dropout_prob.clone())?);
        }
        Ok(HighResNet { blocks: Named::numbered(layers), facts })
    }
}

fn given<T: Clone>(value: Option<T>, what: &str, place: usize) -> Result<T, ConfigError> {
    value.ok_or_else(|| ConfigError::value(format!("layer_params[{place}].{what}"), (), "this layer needs it"))
}

fn features(params: &HighResLayer, place: usize) -> Result<usize, ConfigError> {
    match given(params.n_features, "n_features", place)? {
        0 => Err(ConfigError::value(format!("layer_params[{place}].n_features"), 0, "expected at least 1")),
        n => Ok(n),
    }
}

/// A layer of a residual block.
#[derive(Module, Debug)]
#[allow(clippy::large_enum_variant, reason = "a network has a few dozen of them, and modules cannot be boxed")]
enum Step {
    Adn(Adn),
    Convolution(Convolution),
}

/// Matches the shortcut to the block's number of channels.
#[derive(Module, Debug)]
struct ChannelPad {
    project: Option<Conv>,
    #[module(skip)]
    pad: [usize; 2],
}

/// A residual block: norm, activation and dilated convolution, once per kernel, with the input
/// added.
#[derive(Module, Debug)]
struct HighResBlock {
    chn_pad: ChannelPad,
    layers: Named<Step>,
}

impl HighResBlock {
    fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        let out = self.layers.iter().fold(x.clone(), |x, step| match step {
            Step::Adn(adn) => adn.forward(x),
            Step::Convolution(conv) => conv.forward(x),
        });
        let shortcut = match (&self.chn_pad.project, self.chn_pad.pad) {
            (Some(conv), _) => conv.forward(x),
            (None, [0, 0]) => x,
            (None, pad) => {
                let [b, _, dx, dy, dz] = x.dims();
                let zeros =
                    |channels: usize| Tensor::<5>::zeros([b, channels, dx, dy, dz], &x.device()).cast(x.dtype());
                let sides = [zeros(pad[0]), x.clone(), zeros(pad[1])];
                Tensor::cat(sides.into_iter().filter(|side| side.dims()[1] > 0).collect(), 1)
            }
        };
        residual_sum(out, shortcut)
    }
}

#[derive(Module, Debug)]
#[allow(clippy::large_enum_variant, reason = "a network has a few dozen of them, and modules cannot be boxed")]
enum Block {
    Convolution(Convolution),
    Residual(HighResBlock),
}

/// A network that keeps the size of its input and has a large receptive field through dilation (Li
/// et al., <https://arxiv.org/abs/1707.01992>).
///
/// `[b, in, x, y, z]` to `[b, out, x, y, z]`.
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::networks::{HighResNetConfig, Network};
/// let config = HighResNetConfig { spatial_dims: 2, out_channels: 3, ..HighResNetConfig::default() };
/// let net = config.init(&Device::default(), 0)?;
/// assert_eq!(net.forward(Tensor::zeros([1, 1, 9, 8, 1], &Device::default())).dims(), [1, 3, 9, 8, 1]);
/// # Ok::<(), hearth_nn::ConfigError>(())
/// ```
#[derive(Module, Debug)]
pub struct HighResNet {
    blocks: Named<Block>,
    #[module(skip)]
    facts: Facts,
}

impl Network for HighResNet {
    by_facts!();

    fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        self.facts.clock.next_pass();
        self.blocks.iter().fold(x, |x, block| match block {
            Block::Convolution(conv) => conv.forward(x),
            Block::Residual(block) => block.forward(x),
        })
    }
}

struct Builder<'a> {
    config: &'a HighResNetConfig,
    clock: DropoutClock,
}

impl Builder<'_> {
    fn adn(&self, ordering: &str, dropout: Option<DropoutSpec>) -> AdnOptions {
        AdnOptions {
            ordering: ordering.to_owned(),
            act: self.config.acti_type.clone(),
            norm: self.config.norm_type.clone(),
            dropout,
            clock: self.clock.clone(),
        }
    }

    fn conv(
        &self,
        scope: &Scope,
        channels: [usize; 2],
        params: &HighResLayer,
        place: usize,
        ordering: &str,
        dropout: Option<DropoutSpec>,
    ) -> Result<Block, ConfigError> {
        let kernel = given(params.kernel_size.clone(), "kernel_size", place)?;
        let kernel = kernel.positive("kernel_size", self.config.spatial_dims)?;
        let (bias, adn) = (self.config.bias, Some(self.adn(ordering, dropout)));
        let options = ConvolutionOptions { bias, adn, ..ConvolutionOptions::new(channels, kernel) };
        Ok(Block::Convolution(Convolution::new(scope, &options)?))
    }

    /// The residual block of the entry `index` of `layer_params`, dilated by `2^index`.
    fn residual(
        &self,
        scope: &Scope,
        channels: [usize; 2],
        params: &HighResLayer,
        index: usize,
    ) -> Result<HighResBlock, ConfigError> {
        let [input, output] = channels;
        let kernels = given(params.kernels.clone(), "kernels", index + 1)?;
        let dims = self.config.spatial_dims;
        let dilation = Axes::All(1_usize << index.min(32)).resolve("dilation", dims, 1)?;
        let inner = scope.enter("layers");
        let mut steps = Vec::with_capacity(2 * kernels.len());
        for (i, kernel) in kernels.iter().enumerate() {
            let input = if i == 0 { input } else { output };
            let before = inner.enter(&steps.len().to_string());
            steps.push(Step::Adn(self.adn("NA", None).build(&before, input)?));
            let kernel = kernel.positive("kernels", dims)?;
            let base = ConvolutionOptions::new([input, output], kernel);
            let options = ConvolutionOptions { dilation, bias: self.config.bias, ..base };
            steps.push(Step::Convolution(Convolution::new(&inner.enter(&steps.len().to_string()), &options)?));
        }
        let (mut project, mut pad) = (None, [0; 2]);
        if input != output {
            match self.config.channel_matching {
                ChannelMatching::Project => {
                    let scope = scope.enter("chn_pad").enter("project");
                    project = Some(Conv::new(&scope, channels, [1; 3], ConvShape::default(), true));
                }
                ChannelMatching::Pad if input < output => {
                    let before = (output - input) / 2;
                    pad = [before, output - input - before];
                }
                ChannelMatching::Pad => {
                    let expected = format!("a block from {input} to {output} channels needs \"project\"");
                    return Err(ConfigError::value("channel_matching", "pad", expected));
                }
            }
        }
        Ok(HighResBlock { chn_pad: ChannelPad { project, pad }, layers: Named::numbered(steps) })
    }
}

network_entry!(HighResNetConfig {
    name: "HighResNet",
    aliases: &[],
    about: "Segmentation at full resolution by dilated convolutions.",
    paper: "Li et al. 2017, arXiv:1707.01992",
    example: r#"spatial_dims = 3
in_channels = 1
out_channels = 2"#,
    input: [1, 1, 64, 64, 64],
    dims: &[2, 3],
    in_channels: |c| c.in_channels,
    init: |c, d, s| c.init(d, s),
});
