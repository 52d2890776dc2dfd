//! nnU-Net's U-Net: `dynamic_network_architectures.architectures.unet.PlainConvUNet`.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use derive_setters::Setters;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Network;
use super::defaults::{affine_instance, leaky_relu, yes};
use super::facts::{Facts, by_facts};
use super::nnunet_blocks::{ConvStack, Layers, Stages, UNetDecoder, aliases};
use crate::layers::{Axes, ConfigError, Init, LayerSpec, Scope};
use crate::named::Named;

/// Options of [`PlainConvUNet`]: nnU-Net's parameters and defaults.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(deny_unknown_fields)]
#[setters(strip_option)]
pub struct PlainConvUNetConfig {
    /// Number of spatial axes: 2 or 3.
    pub spatial_dims: usize,
    /// Number of channels of the image.
    pub in_channels: usize,
    /// Number of channels of the output: one per class or region.
    pub out_channels: usize,
    /// Number of channels of each stage, top first; at least two stages.
    #[setters(into)]
    pub features_per_stage: Vec<usize>,
    /// Kernel of each stage, odd.
    #[setters(into)]
    pub kernel_sizes: Vec<Axes>,
    /// Stride of the first convolution of each stage. The first one makes the output smaller than
    /// the image.
    #[setters(into)]
    pub strides: Vec<Axes>,
    /// Number of convolutions of each stage of the encoder; null for two each.
    #[serde(default)]
    #[setters(into)]
    pub n_conv_per_stage: Option<Vec<usize>>,
    /// Number of convolutions of each step of the decoder, lowest first; null for two each.
    #[serde(default)]
    #[setters(into)]
    pub n_conv_per_stage_decoder: Option<Vec<usize>>,
    /// Whether convolutions have a bias.
    #[serde(default = "yes")]
    pub conv_bias: bool,
    /// The norm.
    #[serde(default = "affine_instance")]
    #[setters(into)]
    pub norm: Option<LayerSpec>,
    /// The activation.
    #[serde(default = "leaky")]
    #[setters(into)]
    pub act: Option<LayerSpec>,
    /// Probability that a channel is dropped after a convolution.
    #[serde(default)]
    pub dropout: f64,
    /// Whether lower steps of the decoder have their own outputs in training.
    #[serde(default)]
    pub deep_supervision: bool,
}

pub(super) fn leaky() -> Option<LayerSpec> {
    leaky_relu(0.01)
}

impl PlainConvUNetConfig {
    /// Options with nnU-Net's defaults for everything else, and the same kernel and stride on every
    /// axis.
    pub fn new(
        spatial_dims: usize,
        in_channels: usize,
        out_channels: usize,
        features: &[usize],
        kernels: &[usize],
        strides: &[usize],
    ) -> Self {
        let axes = |numbers: &[usize]| numbers.iter().copied().map(Axes::All).collect();
        PlainConvUNetConfig {
            spatial_dims,
            in_channels,
            out_channels,
            features_per_stage: features.to_vec(),
            kernel_sizes: axes(kernels),
            strides: axes(strides),
            n_conv_per_stage: None,
            n_conv_per_stage_decoder: None,
            conv_bias: true,
            norm: affine_instance(),
            act: leaky(),
            dropout: 0.0,
            deep_supervision: false,
        }
    }

    /// Builds the network with weights drawn from `seed`.
    ///
    /// # Errors
    /// If an option is invalid; the error names it.
    pub fn init(&self, device: &Device, seed: u64) -> Result<PlainConvUNet, ConfigError> {
        let facts = Facts::new("PlainConvUNet", self.spatial_dims, [self.in_channels, self.out_channels])?;
        let layers =
            Layers { bias: self.conv_bias, norm: self.norm.clone(), act: self.act.clone(), dropout: self.dropout };
        let sizes = [&self.kernel_sizes[..], &self.strides[..]];
        let stages = Stages::new(facts, &self.features_per_stage, sizes, layers)?;
        let count = stages.len();
        let encoder = Stages::counts("n_conv_per_stage", &self.n_conv_per_stage, count, 2)?;
        let decoder = Stages::counts("n_conv_per_stage_decoder", &self.n_conv_per_stage_decoder, count - 1, 2)?;
        let scope = Scope::new(device, seed).with_init(Init::KaimingLeaky(0.01));
        let inside = scope.enter("encoder").enter("stages");
        let blocks = (0..count).map(|s| {
            let input = if s == 0 { self.in_channels } else { stages.features[s - 1] };
            let sizes = [stages.kernels[s], stages.strides[s]];
            let scope = inside.enter(&s.to_string()).enter("0");
            let stack = ConvStack::new(&scope, [input, stages.features[s]], sizes, encoder[s], &stages)?;
            Ok(Named::numbered([stack]))
        });
        Ok(PlainConvUNet {
            encoder: PlainConvEncoder { stages: Named::numbered(blocks.collect::<Result<Vec<_>, ConfigError>>()?) },
            decoder: UNetDecoder::new(&scope.enter("decoder"), &decoder, self.out_channels, &stages)?,
            deep_supervision: self.deep_supervision,
            dropout: self.dropout,
            facts: stages.facts,
        })
    }
}

/// Stages of convolutions; each stage is a sequence of one stack.
#[derive(Module, Debug)]
struct PlainConvEncoder {
    stages: Named<Named<ConvStack>>,
}

/// The U-Net of nnU-Net v2 (Isensee et al., <https://doi.org/10.1038/s41592-020-01008-z>): stages of
/// convolutions with strides, transposed convolutions, and an output per step of the decoder. Its
/// state-dict names are those of nnU-Net's checkpoints.
///
/// `[b, in, x, y, z]` to `[b, out, x / s, y / s, z / s]` with `s` the first stride; each axis must
/// be divisible by the product of its strides. In training with deep supervision `forward_all`
/// returns the outputs of all steps, finest first, each at its own size.
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::networks::{Network, PlainConvUNetConfig};
/// let config = PlainConvUNetConfig::new(3, 1, 2, &[4, 8, 16], &[3, 3, 3], &[1, 2, 2]).deep_supervision(true);
/// let device = Device::default().autodiff();
/// let outputs = config.init(&device, 0)?.forward_all(Tensor::zeros([1, 1, 16, 16, 16], &device));
/// assert_eq!((outputs[0].dims(), outputs[1].dims()), ([1, 2, 16, 16, 16], [1, 2, 8, 8, 8]));
/// # Ok::<(), hearth_nn::ConfigError>(())
/// ```
#[derive(Module, Debug)]
pub struct PlainConvUNet {
    encoder: PlainConvEncoder,
    decoder: UNetDecoder,
    #[module(skip)]
    deep_supervision: bool,
    #[module(skip)]
    dropout: f64,
    #[module(skip)]
    facts: Facts,
}

impl PlainConvUNet {
    fn outputs(&self, x: Tensor<5>, all: bool) -> Vec<Tensor<5>> {
        self.facts.clock.next_pass();
        let mut skips: Vec<Tensor<5>> = Vec::with_capacity(self.encoder.stages.len());
        for stage in self.encoder.stages.iter() {
            let above = skips.last().unwrap_or(&x).clone();
            skips.push(stage.iter().fold(above, |x, stack| stack.forward(x)));
        }
        self.decoder.forward(skips, all)
    }
}

impl Network for PlainConvUNet {
    by_facts!();

    fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        self.outputs(x, false).swap_remove(0)
    }

    fn forward_all(&self, x: Tensor<5>) -> Vec<Tensor<5>> {
        let all = self.deep_supervision && x.is_autodiff();
        self.outputs(x, all)
    }

    fn torch_aliases(&self, path: &str) -> Vec<String> {
        aliases(path, self.dropout)
    }
}

network_entry!(PlainConvUNetConfig {
    name: "PlainConvUNet",
    aliases: &[],
    about: "Segmentation: nnU-Net's U-Net, loads nnU-Net's checkpoints, deep supervision.",
    paper: "Isensee et al. 2021, doi:10.1038/s41592-020-01008-z",
    example: r#"spatial_dims = 3
in_channels = 1
out_channels = 2
features_per_stage = [32, 64, 128, 256, 320]
kernel_sizes = [3, 3, 3, 3, 3]
strides = [1, 2, 2, 2, 2]"#,
    input: [1, 1, 64, 64, 64],
    dims: &[2, 3],
    in_channels: |c| c.in_channels,
    init: |c, d, s| c.init(d, s),
    deep_supervision: |c| c.deep_supervision,
});
