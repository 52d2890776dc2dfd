//! The nested U-Net of `monai.networks.nets.BasicUNetPlusPlus`.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use derive_setters::Setters;
use hearth_kernels::InterpolateMode;
use hearth_kernels::conv3d::ConvShape;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Network;
use super::basic_unet::{Blocks, Down, TwoConv, UpCat, deconv, features, leaky, six, two_conv};
use super::defaults::{affine_instance, nda, one, three_dims, two, yes};
use super::facts::{Facts, by_facts};
use crate::layers::{AdnOptions, ConfigError, Conv, DropoutSpec, LayerSpec, Scope, UpsampleMode};

/// Options of [`BasicUNetPlusPlus`]: MONAI's parameters and defaults.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(deny_unknown_fields)]
#[setters(strip_option)]
pub struct BasicUNetPlusPlusConfig {
    /// Number of spatial axes: 2 or 3.
    #[serde(default = "three_dims")]
    pub spatial_dims: usize,
    /// Number of channels of the image.
    #[serde(default = "one")]
    pub in_channels: usize,
    /// Number of channels of each output: one per class.
    #[serde(default = "two")]
    pub out_channels: usize,
    /// Six numbers of channels: those of the five levels, top first, and of the last upsampling.
    #[serde(default = "features")]
    #[setters(into)]
    pub features: Vec<usize>,
    /// Whether the outputs of all four depths are returned.
    #[serde(default)]
    pub deep_supervision: bool,
    /// Activation; `""` for none.
    #[serde(default = "leaky")]
    #[setters(into)]
    pub act: Option<LayerSpec>,
    /// Norm; `""` for none.
    #[serde(default = "affine_instance")]
    #[setters(into)]
    pub norm: Option<LayerSpec>,
    /// Whether convolutions have a bias.
    #[serde(default = "yes")]
    pub bias: bool,
    /// Dropout probability.
    #[serde(default)]
    #[setters(into)]
    pub dropout: DropoutSpec,
    /// Upsampling of a level to the size of the next.
    #[serde(default = "deconv")]
    pub upsample: UpsampleMode,
}

impl Default for BasicUNetPlusPlusConfig {
    fn default() -> Self {
        BasicUNetPlusPlusConfig {
            spatial_dims: 3,
            in_channels: 1,
            out_channels: 2,
            features: features(),
            deep_supervision: false,
            act: leaky(),
            norm: affine_instance(),
            bias: true,
            dropout: DropoutSpec::default(),
            upsample: deconv(),
        }
    }
}

impl BasicUNetPlusPlusConfig {
    /// Builds the network with weights drawn from `seed`.
    ///
    /// # Errors
    /// If an option is invalid; the error names it.
    pub fn init(&self, device: &Device, seed: u64) -> Result<BasicUNetPlusPlus, ConfigError> {
        let channels = [self.in_channels, self.out_channels];
        let facts = Facts::new("BasicUNetPlusPlus", self.spatial_dims, channels)?.at_least(16);
        let [f0, f1, f2, f3, f4, f5] = six(&self.features)?;
        let blocks = Blocks {
            spatial_dims: self.spatial_dims,
            adn: AdnOptions {
                ordering: nda(),
                act: self.act.clone(),
                norm: self.norm.clone(),
                dropout: Some(self.dropout.clone()),
                clock: facts.clock.clone(),
            },
            bias: self.bias,
            upsample: self.upsample,
            interpolation: InterpolateMode::Linear,
            align_corners: true,
        };
        let root = Scope::new(device, seed);
        let scope = |name: &str| root.enter(name);
        let last = |name: &str, input: usize| {
            Conv::new(&scope(name), [input, self.out_channels], [1; 3], ConvShape::default(), true)
        };
        Ok(BasicUNetPlusPlus {
            conv_0_0: blocks.two_conv(&scope("conv_0_0"), [self.in_channels, f0])?,
            conv_1_0: blocks.down(&scope("conv_1_0"), [f0, f1])?,
            conv_2_0: blocks.down(&scope("conv_2_0"), [f1, f2])?,
            conv_3_0: blocks.down(&scope("conv_3_0"), [f2, f3])?,
            conv_4_0: blocks.down(&scope("conv_4_0"), [f3, f4])?,
            upcat_0_1: blocks.up_cat(&scope("upcat_0_1"), f1, f0, f0, false)?,
            upcat_1_1: blocks.up_cat(&scope("upcat_1_1"), f2, f1, f1, true)?,
            upcat_2_1: blocks.up_cat(&scope("upcat_2_1"), f3, f2, f2, true)?,
            upcat_3_1: blocks.up_cat(&scope("upcat_3_1"), f4, f3, f3, true)?,
            upcat_0_2: blocks.up_cat(&scope("upcat_0_2"), f1, 2 * f0, f0, false)?,
            upcat_1_2: blocks.up_cat(&scope("upcat_1_2"), f2, 2 * f1, f1, true)?,
            upcat_2_2: blocks.up_cat(&scope("upcat_2_2"), f3, 2 * f2, f2, true)?,
            upcat_0_3: blocks.up_cat(&scope("upcat_0_3"), f1, 3 * f0, f0, false)?,
            upcat_1_3: blocks.up_cat(&scope("upcat_1_3"), f2, 3 * f1, f1, true)?,
            upcat_0_4: blocks.up_cat(&scope("upcat_0_4"), f1, 4 * f0, f5, false)?,
            final_conv_0_1: last("final_conv_0_1", f0),
            final_conv_0_2: last("final_conv_0_2", f0),
            final_conv_0_3: last("final_conv_0_3", f0),
            final_conv_0_4: last("final_conv_0_4", f5),
            deep_supervision: self.deep_supervision,
            facts,
        })
    }
}

/// A U-Net whose skips are nested U-Nets (Zhou et al., <https://arxiv.org/abs/1807.10165>).
///
/// `[b, in, x, y, z]` to `[b, out, x, y, z]`; each axis at least 16. With deep supervision
/// `forward_all` returns the outputs of the four depths, shallowest first: the last is the one that
/// `forward` returns.
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::networks::{BasicUNetPlusPlusConfig, Network};
/// let config = BasicUNetPlusPlusConfig {
///     spatial_dims: 2,
///     features: vec![4; 6],
///     deep_supervision: true,
///     ..BasicUNetPlusPlusConfig::default()
/// };
/// let outputs = config.init(&Device::default(), 0)?.forward_all(Tensor::zeros([1, 1, 16, 16, 1], &Device::default()));
/// assert_eq!(outputs.iter().map(Tensor::dims).collect::<Vec<_>>(), [[1, 2, 16, 16, 1]; 4]);
/// # Ok::<(), hearth_nn::ConfigError>(())
/// ```
#[derive(Module, Debug)]
pub struct BasicUNetPlusPlus {
    conv_0_0: TwoConv,
    conv_1_0: Down,
    conv_2_0: Down,
    conv_3_0: Down,
    conv_4_0: Down,
    upcat_0_1: UpCat,
    upcat_1_1: UpCat,
    upcat_2_1: UpCat,
    upcat_3_1: UpCat,
    upcat_0_2: UpCat,
    upcat_1_2: UpCat,
    upcat_2_2: UpCat,
    upcat_0_3: UpCat,
    upcat_1_3: UpCat,
    upcat_0_4: UpCat,
    final_conv_0_1: Conv,
    final_conv_0_2: Conv,
    final_conv_0_3: Conv,
    final_conv_0_4: Conv,
    #[module(skip)]
    deep_supervision: bool,
    #[module(skip)]
    facts: Facts,
}

fn cat<const N: usize>(parts: [&Tensor<5>; N]) -> Tensor<5> {
    Tensor::cat(parts.into_iter().cloned().collect(), 1)
}

impl BasicUNetPlusPlus {
    /// The features of the top level at the four depths.
    fn features(&self, x: Tensor<5>) -> [Tensor<5>; 4] {
        self.facts.clock.next_pass();
        let x00 = two_conv(&self.conv_0_0, x);
        let x10 = self.conv_1_0.forward(x00.clone());
        let x01 = self.upcat_0_1.forward(x10.clone(), x00.clone());

        let x20 = self.conv_2_0.forward(x10.clone());
        let x11 = self.upcat_1_1.forward(x20.clone(), x10.clone());
        let x02 = self.upcat_0_2.forward(x11.clone(), cat([&x00, &x01]));

        let x30 = self.conv_3_0.forward(x20.clone());
        let x21 = self.upcat_2_1.forward(x30.clone(), x20.clone());
        let x12 = self.upcat_1_2.forward(x21.clone(), cat([&x10, &x11]));
        let x03 = self.upcat_0_3.forward(x12.clone(), cat([&x00, &x01, &x02]));

        let x40 = self.conv_4_0.forward(x30.clone());
        let x31 = self.upcat_3_1.forward(x40, x30);
        let x22 = self.upcat_2_2.forward(x31, cat([&x20, &x21]));
        let x13 = self.upcat_1_3.forward(x22, cat([&x10, &x11, &x12]));
        let x04 = self.upcat_0_4.forward(x13, cat([&x00, &x01, &x02, &x03]));
        [x01, x02, x03, x04]
    }
}

impl Network for BasicUNetPlusPlus {
    by_facts!();

    fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        let [_, _, _, deepest] = self.features(x);
        self.final_conv_0_4.forward(deepest)
    }

    fn forward_all(&self, x: Tensor<5>) -> Vec<Tensor<5>> {
        if !self.deep_supervision {
            return vec![self.forward(x)];
        }
        let heads = [&self.final_conv_0_1, &self.final_conv_0_2, &self.final_conv_0_3, &self.final_conv_0_4];
        self.features(x).into_iter().zip(heads).map(|(features, head)| head.forward(features)).collect()
    }

    fn main_output(&self) -> usize {
        if self.deep_supervision { 3 } else { 0 }
    }
}

network_entry!(BasicUNetPlusPlusConfig {
    name: "BasicUNetPlusPlus",
    aliases: &[],
    about: "Segmentation: nested U-Net, deep supervision.",
    paper: "Zhou et al. 2018, arXiv:1807.10165",
    example: r#"spatial_dims = 3
in_channels = 1
out_channels = 2
deep_supervision = true"#,
    input: [1, 1, 64, 64, 64],
    dims: &[2, 3],
    in_channels: |c| c.in_channels,
    init: |c, d, s| c.init(d, s),
    deep_supervision: |c| c.deep_supervision,
});
