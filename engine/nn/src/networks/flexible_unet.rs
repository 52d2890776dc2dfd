//! The U-Net with an EfficientNet encoder of `monai.networks.nets.FlexibleUNet`.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use derive_setters::Setters;
use hearth_kernels::InterpolateMode;
use hearth_kernels::conv3d::ConvShape;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::basic_unet::{Blocks, UpCat};
use super::check::untrained;
use super::defaults::{nda, yes};
use super::efficientnet::{self, EfficientNet, Scaling, efficientnet_name, two_dims};
use super::facts::Facts;
use super::{Network, ShapeError};
use crate::layers::{
    AdnOptions, ConfigError, Conv, DropoutSpec, Layer, LayerSpec, Scope, Sequential, UpsampleMode, in_space, per_axis,
};
use crate::named::Named;

/// The interpolation of a [`FlexibleUNet`]; linear is bilinear in 2-D and trilinear in 3-D.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum InterpMode {
    /// The nearest voxel below.
    #[default]
    Nearest,
    /// Linear along every axis, outer corners aligned.
    #[serde(alias = "bilinear", alias = "trilinear")]
    Linear,
    /// Cubic along both axes, outer corners aligned; 2-D only.
    Bicubic,
}

/// Options of [`FlexibleUNet`]: MONAI's parameters and defaults.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(deny_unknown_fields)]
pub struct FlexibleUNetConfig {
    /// Number of channels of the image.
    pub in_channels: usize,
    /// Number of channels of the output: one per class.
    pub out_channels: usize,
    /// The encoder: `efficientnet-b0` to `efficientnet-b8`, or `efficientnet-l2`.
    #[setters(into)]
    pub backbone: String,
    /// Must be false: weights are loaded from a file.
    #[serde(default)]
    pub pretrained: bool,
    /// Number of channels of each level of the decoder, lowest first; only the first five are used.
    #[serde(default = "decoder_channels")]
    #[setters(into)]
    pub decoder_channels: Vec<usize>,
    /// Number of spatial axes: 2 or 3.
    #[serde(default = "two_dims")]
    pub spatial_dims: usize,
    /// Norm of the decoder.
    #[serde(default = "norm")]
    #[setters(into)]
    pub norm: LayerSpec,
    /// Activation of the decoder.
    #[serde(default = "act")]
    #[setters(into)]
    pub act: LayerSpec,
    /// Dropout of the decoder.
    #[serde(default)]
    #[setters(into)]
    pub dropout: DropoutSpec,
    /// Whether convolutions of the decoder have a bias.
    #[serde(default)]
    pub decoder_bias: bool,
    /// Upsampling of a level to the size of the next.
    #[serde(default = "non_trainable")]
    pub upsample: UpsampleMode,
    /// The convolution that halves the channels before an upsampling without learned weights;
    /// `none` (null in MONAI's files) leaves the channels unchanged.
    #[serde(default, deserialize_with = "or_none")]
    pub pre_conv: PreConv,
    /// Interpolation of an upsampling without learned weights.
    #[serde(default)]
    pub interp_mode: InterpMode,
    /// Whether upsampled features are padded by a voxel to the size of the encoder's features, if
    /// these are larger. Without padding, axes must be divisible by 32.
    #[serde(default = "yes")]
    pub is_pad: bool,
}

/// The convolution before features of a [`FlexibleUNet`] are upsampled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PreConv {
    /// A convolution of kernel 1, if the number of channels changes.
    #[default]
    Default,
    /// No convolution: the number of channels is unchanged.
    None,
}

fn or_none<'de, D: serde::Deserializer<'de>>(from: D) -> Result<PreConv, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or(PreConv::None))
}

fn decoder_channels() -> Vec<usize> {
    vec![256, 128, 64, 32, 16]
}

fn norm() -> LayerSpec {
    LayerSpec::with("batch", &[("eps", json!(1e-3)), ("momentum", json!(0.1))])
}

fn act() -> LayerSpec {
    LayerSpec::with("relu", &[("inplace", json!(true))])
}

fn non_trainable() -> UpsampleMode {
    UpsampleMode::NonTrainable
}

impl FlexibleUNetConfig {
    /// Options for 2-D with MONAI's defaults for everything else.
    pub fn new(in_channels: usize, out_channels: usize, backbone: &str) -> Self {
        FlexibleUNetConfig {
            in_channels,
            out_channels,
            backbone: backbone.to_owned(),
            pretrained: false,
            decoder_channels: decoder_channels(),
            spatial_dims: two_dims(),
            norm: norm(),
            act: act(),
            dropout: DropoutSpec::default(),
            decoder_bias: false,
            upsample: non_trainable(),
            pre_conv: PreConv::Default,
            interp_mode: InterpMode::Nearest,
            is_pad: true,
        }
    }

    /// Builds the network; its weights depend on `seed` only, so they are the same on every device.
    ///
    /// # Errors
    /// If an option is invalid; the error names it.
    pub fn init(&self, device: &Device, seed: u64) -> Result<FlexibleUNet, ConfigError> {
        untrained(self.pretrained)?;
        let scaling = Scaling::of("backbone", &self.backbone)?;
        let dims = self.spatial_dims;
        let facts = Facts::new("FlexibleUNet", dims, [self.in_channels, self.out_channels])?;
        let channels = match self.decoder_channels.get(..5) {
            Some(five) if !five.contains(&0) => five,
            _ => {
                let expected = "expected five numbers, each at least 1";
                return Err(ConfigError::value("decoder_channels", &self.decoder_channels, expected));
            }
        };
        let interpolation = match self.interp_mode {
            InterpMode::Nearest => InterpolateMode::Nearest,
            InterpMode::Linear => InterpolateMode::Linear,
            InterpMode::Bicubic if dims == 2 => InterpolateMode::Cubic,
            InterpMode::Bicubic => {
                return Err(ConfigError::value("interp_mode", "bicubic", "it is for two axes; use \"trilinear\""));
            }
        };
        let without = self.pre_conv == PreConv::None;
        if without && self.upsample == UpsampleMode::PixelShuffle {
            return Err(ConfigError::value("pre_conv", "none", "`pixelshuffle` needs the convolution"));
        }
        let halves = !(without && self.upsample == UpsampleMode::NonTrainable);
        let root = Scope::new(device, seed);
        // MONAI's encoder includes its linear layer to the classes of ImageNet.
        let sizes = [dims, self.in_channels, 1000];
        let encoder = EfficientNet::new(&root.enter("encoder"), scaling, sizes, &efficientnet::norm(), &facts.clock)?;
        let features = EfficientNet::feature_channels(scaling);
        let blocks = Blocks {
            spatial_dims: dims,
            adn: AdnOptions {
                ordering: nda(),
                act: Some(self.act.clone()),
                norm: Some(self.norm.clone()),
                dropout: Some(self.dropout.clone()),
                clock: facts.clock.clone(),
            },
            bias: self.decoder_bias,
            upsample: self.upsample,
            interpolation,
            align_corners: false,
        };
        let scope = root.enter("decoder").enter("blocks");
        let mut below = features.last().copied().unwrap_or_default();
        let mut decoder = Vec::with_capacity(5);
        for (i, output) in channels.iter().enumerate() {
            // The last level has no features of the encoder, which starts at half the size.
            let skip = features.iter().rev().nth(i + 1).copied();
            let scope = scope.enter(&i.to_string());
            decoder.push(blocks.up_cat(&scope, below, skip.unwrap_or(0), *output, skip.is_some() && halves)?);
            below = *output;
        }
        let shape = ConvShape { padding: per_axis(dims, 1, 0), ..ConvShape::default() };
        let kernel = in_space(dims, 3);
        let head = root.enter("segmentation_head").enter("0");
        let head = Conv::new(&head, [below, self.out_channels], kernel, shape, true);
        Ok(FlexibleUNet {
            encoder,
            decoder: Decoder { blocks: Named::numbered(decoder) },
            segmentation_head: Named::numbered([Layer::Conv(head)]),
            is_pad: self.is_pad,
            facts,
        })
    }
}

/// The levels of the decoder, lowest first.
#[derive(Module, Debug)]
struct Decoder {
    blocks: Named<UpCat>,
}

/// A U-Net whose encoder is an EfficientNet (Tan and Le, <https://arxiv.org/abs/1905.11946>).
///
/// `[b, in, x, y, z]` to `[b, out, x, y, z]`; axes divisible by 32 always fit. Other lengths are
/// accepted if the sizes of the levels match; an odd length is one voxel shorter in the output.
///
/// ```no_run
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::networks::{FlexibleUNetConfig, Network};
/// let net = FlexibleUNetConfig::new(3, 2, "efficientnet-b0").init(&Device::default(), 0)?;
/// assert_eq!(net.forward(Tensor::zeros([1, 3, 64, 64, 1], &Device::default())).dims(), [1, 2, 64, 64, 1]);
/// # Ok::<(), hearth_nn::ConfigError>(())
/// ```
#[derive(Module, Debug)]
pub struct FlexibleUNet {
    encoder: EfficientNet,
    decoder: Decoder,
    segmentation_head: Sequential,
    #[module(skip)]
    is_pad: bool,
    #[module(skip)]
    facts: Facts,
}

impl FlexibleUNet {
    /// Whether the sizes of the levels match for an axis of this length: twice the length of a
    /// level equals that of the next one, or is one voxel shorter and padding is enabled.
    fn meets(&self, length: usize) -> bool {
        let Some(lengths) = self.encoder.feature_lengths(length) else { return false };
        let missing = if self.is_pad { 1 } else { 0 };
        lengths.windows(2).all(|pair| (2 * pair[1]..=2 * pair[1] + missing).contains(&pair[0]))
    }
}

impl Network for FlexibleUNet {
    fn name(&self) -> &'static str {
        self.facts.name
    }

    fn spatial_dims(&self) -> usize {
        self.facts.spatial_dims
    }

    fn channels(&self) -> [usize; 2] {
        self.facts.channels
    }

    fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        self.facts.clock.next_pass();
        let mut features = self.encoder.features(x.clone());
        let lowest = features.pop().unwrap_or(x);
        let y = self.decoder.blocks.iter().fold(lowest, |below, block| block.forward_to(below, features.pop()));
        self.segmentation_head.forward(y)
    }

    fn check_input(&self, shape: [usize; 5]) -> Result<(), ShapeError> {
        self.facts.check(shape)?;
        let axes = &shape[2..2 + self.facts.spatial_dims];
        if axes.iter().all(|length| self.meets(*length)) {
            return Ok(());
        }
        let fits: Vec<usize> = axes.iter().map(|length| length.next_multiple_of(32).max(32)).collect();
        let reason = format!("its levels, each half of the one above, do not meet; pad or crop to {fits:?}");
        Err(ShapeError { network: self.facts.name, shape, reason })
    }

    fn torch_name(&self, path: &str) -> Option<String> {
        Some(match path.strip_prefix("encoder.") {
            Some(rest) => format!("encoder.{}", efficientnet_name(rest)),
            None => path.to_owned(),
        })
    }

    fn set_draw(&self, seed: u64, step: u64) {
        self.facts.clock.set(seed, step);
    }
}

network_entry!(FlexibleUNetConfig {
    name: "FlexibleUNet",
    aliases: &["FlexUNet"],
    about: "Segmentation: a U-Net whose encoder is an EfficientNet.",
    paper: "Tan and Le 2019, arXiv:1905.11946",
    example: r#"in_channels = 3
out_channels = 2
backbone = "efficientnet-b0"
spatial_dims = 2"#,
    input: [1, 3, 256, 256, 1],
    dims: &[2, 3],
    in_channels: |c| c.in_channels,
    init: |c, d, s| c.init(d, s),
});
