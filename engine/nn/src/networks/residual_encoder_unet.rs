//! nnU-Net's U-Net with a residual encoder:
//! `dynamic_network_architectures.architectures.unet.ResidualEncoderUNet`.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use derive_setters::Setters;
use hearth_kernels::pool3d::PoolShape;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Network;
use super::defaults::{affine_instance, yes};
use super::facts::{Facts, by_facts};
use super::nnunet_blocks::{ConvStack, ConvUnit, Layers, Stages, UNetDecoder, UnitOptions, aliases, sum_then_act};
use super::plain_conv_unet::leaky;
use crate::layers::{Act, Axes, ConfigError, Init, LayerSpec, Pool, Scope, act};
use crate::named::Named;

/// Options of [`ResidualEncoderUNet`]: nnU-Net's parameters and defaults.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(deny_unknown_fields)]
#[setters(strip_option)]
pub struct ResidualEncoderUNetConfig {
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
    /// Stride of the first block of each stage. The first one makes the output smaller than the
    /// image.
    #[setters(into)]
    pub strides: Vec<Axes>,
    /// Number of residual blocks of each stage; null for nnU-Net's presets: 1, 3, 4, and 6 for all
    /// others.
    #[serde(default)]
    #[setters(into)]
    pub n_blocks_per_stage: Option<Vec<usize>>,
    /// Number of convolutions of each step of the decoder, lowest first; null for one each.
    #[serde(default)]
    #[setters(into)]
    pub n_conv_per_stage_decoder: Option<Vec<usize>>,
    /// Number of channels of the first convolution; null for that of the first stage.
    #[serde(default)]
    pub stem_channels: Option<usize>,
    /// Whether convolutions have a bias; those of shortcuts never do.
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

impl ResidualEncoderUNetConfig {
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
        ResidualEncoderUNetConfig {
            spatial_dims,
            in_channels,
            out_channels,
            features_per_stage: features.to_vec(),
            kernel_sizes: axes(kernels),
            strides: axes(strides),
            n_blocks_per_stage: None,
            n_conv_per_stage_decoder: None,
            stem_channels: None,
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
    pub fn init(&self, device: &Device, seed: u64) -> Result<ResidualEncoderUNet, ConfigError> {
        let facts = Facts::new("ResidualEncoderUNet", self.spatial_dims, [self.in_channels, self.out_channels])?;
        let layers =
            Layers { bias: self.conv_bias, norm: self.norm.clone(), act: self.act.clone(), dropout: self.dropout };
        let sizes = [&self.kernel_sizes[..], &self.strides[..]];
        let stages = Stages::new(facts, &self.features_per_stage, sizes, layers)?;
        let count = stages.len();
        let preset: Vec<usize> = (0..count).map(|s| [1, 3, 4].get(s).copied().unwrap_or(6)).collect();
        let blocks = self.n_blocks_per_stage.clone().or(Some(preset));
        let blocks = Stages::counts("n_blocks_per_stage", &blocks, count, 1)?;
        let decoder = Stages::counts("n_conv_per_stage_decoder", &self.n_conv_per_stage_decoder, count - 1, 1)?;
        let stem = self.stem_channels.unwrap_or(stages.features[0]);
        if stem == 0 {
            return Err(ConfigError::value("stem_channels", stem, "expected at least 1"));
        }
        let scope = Scope::new(device, seed).with_init(Init::KaimingLeaky(0.01));
        let encoder = scope.enter("encoder");
        let inside = encoder.enter("stages");
        let all = (0..count).map(|s| {
            let input = if s == 0 { stem } else { stages.features[s - 1] };
            let scope = inside.enter(&s.to_string()).enter("blocks");
            let blocks = (0..blocks[s]).map(|b| {
                let (input, stride) = if b == 0 { (input, stages.strides[s]) } else { (stages.features[s], [1; 3]) };
                let channels = [input, stages.features[s]];
                BasicBlockD::new(&scope.enter(&b.to_string()), channels, stages.kernels[s], stride, &stages)
            });
            Ok(StackedResidualBlocks { blocks: Named::numbered(blocks.collect::<Result<Vec<_>, _>>()?) })
        });
        let first = [stages.kernels[0], [1; 3]];
        Ok(ResidualEncoderUNet {
            encoder: ResidualEncoder {
                stem: ConvStack::new(&encoder.enter("stem"), [self.in_channels, stem], first, 1, &stages)?,
                stages: Named::numbered(all.collect::<Result<Vec<_>, ConfigError>>()?),
            },
            decoder: UNetDecoder::new(&scope.enter("decoder"), &decoder, self.out_channels, &stages)?,
            deep_supervision: self.deep_supervision,
            dropout: self.dropout,
            facts: stages.facts,
        })
    }
}

/// Two convolutions and a shortcut, which is pooled if there is a stride and projected if the
/// number of channels changes (He et al., <https://arxiv.org/abs/1812.01187>, figure 2c).
#[derive(Module, Debug)]
struct BasicBlockD {
    conv1: ConvUnit,
    conv2: ConvUnit,
    skip: Named<ConvUnit>,
    pool: Option<Pool>,
    nonlin2: Option<Act>,
}

impl BasicBlockD {
    fn new(
        scope: &Scope,
        [input, output]: [usize; 2],
        kernel: [usize; 3],
        stride: [usize; 3],
        stages: &Stages,
    ) -> Result<Self, ConfigError> {
        let unit = |name: &str, channels: [usize; 2], stride: [usize; 3], activated: bool| {
            ConvUnit::new(&scope.enter(name), UnitOptions { channels, kernel, stride, activated }, stages)
        };
        let pool = (stride != [1; 3]).then(|| Pool::avg(PoolShape::new(stride)));
        // The pooling is the first module of the shortcut.
        let index = usize::from(pool.is_some()).to_string();
        let mut skip = Vec::new();
        if input != output {
            let scope = scope.enter("skip").enter(&index);
            skip.push((index, ConvUnit::projection(&scope, [input, output], stages)?));
        }
        let second = scope.enter("conv2").enter("norm");
        Ok(BasicBlockD {
            conv1: unit("conv1", [input, output], stride, true)?,
            conv2: unit("conv2", [output, output], [1; 3], false)?.zeroed(&second),
            skip: Named::new(skip),
            pool,
            nonlin2: act(&scope.enter("nonlin2"), &stages.layers.act)?,
        })
    }

    fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        let shortcut = self.pool.iter().fold(x.clone(), |x, pool| pool.forward(x));
        let shortcut = self.skip.iter().fold(shortcut, |x, unit| unit.forward(x));
        sum_then_act(self.conv2.forward(self.conv1.forward(x)), shortcut, &self.nonlin2)
    }
}

#[derive(Module, Debug)]
struct StackedResidualBlocks {
    blocks: Named<BasicBlockD>,
}

#[derive(Module, Debug)]
struct ResidualEncoder {
    stem: ConvStack,
    stages: Named<StackedResidualBlocks>,
}

/// The U-Net of nnU-Net's residual-encoder presets (Isensee et al.,
/// <https://arxiv.org/abs/2404.09556>): stages of residual blocks, and the decoder of
/// [`PlainConvUNet`](super::PlainConvUNet). Its state-dict names are those of nnU-Net's checkpoints.
///
/// `[b, in, x, y, z]` to `[b, out, x / s, y / s, z / s]` with `s` the first stride; each axis must
/// be divisible by the product of its strides. In training with deep supervision `forward_all`
/// returns the outputs of all steps, finest first, each at its own size.
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::networks::{Network, ResidualEncoderUNetConfig};
/// let config = ResidualEncoderUNetConfig::new(2, 1, 3, &[4, 8], &[3, 3], &[1, 2]);
/// let net = config.init(&Device::default(), 0)?;
/// assert_eq!(net.forward(Tensor::zeros([1, 1, 16, 16, 1], &Device::default())).dims(), [1, 3, 16, 16, 1]);
/// # Ok::<(), hearth_nn::ConfigError>(())
/// ```
#[derive(Module, Debug)]
pub struct ResidualEncoderUNet {
    encoder: ResidualEncoder,
    decoder: UNetDecoder,
    #[module(skip)]
    deep_supervision: bool,
    #[module(skip)]
    dropout: f64,
    #[module(skip)]
    facts: Facts,
}

impl ResidualEncoderUNet {
    fn outputs(&self, x: Tensor<5>, all: bool) -> Vec<Tensor<5>> {
        self.facts.clock.next_pass();
        let stem = self.encoder.stem.forward(x);
        let mut skips: Vec<Tensor<5>> = Vec::with_capacity(self.encoder.stages.len());
        for stage in self.encoder.stages.iter() {
            let above = skips.last().unwrap_or(&stem).clone();
            skips.push(stage.blocks.iter().fold(above, |x, block| block.forward(x)));
        }
        self.decoder.forward(skips, all)
    }
}

impl Network for ResidualEncoderUNet {
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

network_entry!(ResidualEncoderUNetConfig {
    name: "ResidualEncoderUNet",
    aliases: &[],
    about: "Segmentation: nnU-Net's U-Net with residual blocks, loads nnU-Net's checkpoints, deep supervision.",
    paper: "Isensee et al. 2024, arXiv:2404.09556",
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
