//! UNesT, a U-Net with a nested transformer as its encoder: the network of MONAI's bundles
//! `renalStructures_UNEST_segmentation` and `wholeBrainSeg_Large_UNEST_segmentation`.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use derive_setters::Setters;
use hearth_kernels::conv3d::ConvShape;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Network;
use super::defaults::yes;
use super::facts::{Facts, by_facts};
use super::nest_transformer::{LEVELS, NestOptions, NestTransformer, nest_name};
use crate::blocks::{UnetOutBlock, UnetrBasicBlock, UnetrOptions, UnetrUpBlock};
use crate::layers::{
    AdnOptions, Axes, ConfigError, ConvTranspose, Convolution, ConvolutionOptions, Kernel, LayerPath, LayerSpec, Scope,
};
use crate::named::Named;

/// Options of [`UNesT`]: parameters and values of the bundles' scripts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(deny_unknown_fields)]
pub struct UNesTConfig {
    /// Number of channels of the image.
    pub in_channels: usize,
    /// Number of channels of the output: one per class.
    pub out_channels: usize,
    /// Size of the image, the same along each axis: a multiple of 32, at least 64.
    #[serde(default = "img_size")]
    #[setters(into)]
    pub img_size: Axes,
    /// Half of the number of channels of the last level.
    #[serde(default = "sixteen")]
    pub feature_size: usize,
    /// Length of a patch; must be 4, which the decoder's levels need.
    #[serde(default = "four")]
    pub patch_size: usize,
    /// Number of transformer layers of each level.
    #[serde(default = "depths")]
    pub depths: [usize; LEVELS],
    /// Number of heads of each level.
    #[serde(default = "num_heads")]
    pub num_heads: [usize; LEVELS],
    /// Number of features of each level; the last is 32 times `feature_size`.
    #[serde(default = "embed_dim")]
    pub embed_dim: [usize; LEVELS],
    /// No effect: blocks are an eighth of the image at the first level.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_size: Option<Axes>,
    /// Norm of the convolutions.
    #[serde(default = "instance")]
    #[setters(into)]
    pub norm_name: LayerSpec,
    /// No effect.
    #[serde(default)]
    pub conv_block: bool,
    /// Whether convolution blocks have a shortcut.
    #[serde(default = "yes")]
    pub res_block: bool,
    /// No effect.
    #[serde(default)]
    pub dropout_rate: f64,
}

fn img_size() -> Axes {
    Axes::All(96)
}

fn sixteen() -> usize {
    16
}

fn four() -> usize {
    4
}

fn depths() -> [usize; LEVELS] {
    [2, 2, 8]
}

fn num_heads() -> [usize; LEVELS] {
    [4, 8, 16]
}

fn embed_dim() -> [usize; LEVELS] {
    [128, 256, 512]
}

fn instance() -> LayerSpec {
    "instance".into()
}

impl UNesTConfig {
    /// Options with the bundles' values for everything else.
    pub fn new(in_channels: usize, out_channels: usize) -> Self {
        UNesTConfig {
            in_channels,
            out_channels,
            img_size: img_size(),
            feature_size: sixteen(),
            patch_size: four(),
            depths: depths(),
            num_heads: num_heads(),
            embed_dim: embed_dim(),
            window_size: None,
            norm_name: instance(),
            conv_block: false,
            res_block: true,
            dropout_rate: 0.0,
        }
    }

    /// Builds the network with weights drawn from `seed`.
    ///
    /// # Errors
    /// If an option is invalid; the error names it.
    pub fn init(&self, device: &Device, seed: u64) -> Result<UNesT, ConfigError> {
        let mut facts = Facts::new("UNesT", 3, [self.in_channels, self.out_channels])?;
        let size = self.img_size.positive("img_size", 3)?;
        if size != [size[0]; 3] || size[0] % 32 != 0 || size[0] < 64 {
            let expected = "expected the same multiple of 32 along each axis, at least 64";
            return Err(ConfigError::value("img_size", size, expected));
        }
        if self.patch_size != 4 {
            return Err(ConfigError::value("patch_size", self.patch_size, "expected 4, which the decoder needs"));
        }
        let f = self.feature_size;
        let [e0, e1, e2] = self.embed_dim;
        if f == 0 || e2 != 32 * f {
            let expected = format!("expected the last to be 32 times feature_size, which is {f}");
            return Err(ConfigError::value("embed_dim", self.embed_dim, expected));
        }
        facts.exact = Some(size);
        let root = Scope::new(device, seed);
        let options = NestOptions {
            in_channels: self.in_channels,
            img_size: size[0],
            patch_size: self.patch_size,
            embed_dims: self.embed_dim,
            num_heads: self.num_heads,
            depths: self.depths,
            drop_path_rate: 0.5,
        };
        let blocks = UnetrOptions { spatial_dims: 3, norm_name: self.norm_name.clone(), res_block: self.res_block };
        let encoder = |name: &str, channels| UnetrBasicBlock::new(&root.enter(name), &blocks, channels);
        let decoder = |name: &str, channels| UnetrUpBlock::new(&root.enter(name), &blocks, channels);
        let encoder10 = ConvolutionOptions {
            stride: [2; 3],
            adn: Some(AdnOptions {
                ordering: "ADN".to_owned(),
                act: Some("prelu".into()),
                norm: Some("instance".into()),
                dropout: None,
                clock: facts.clock.clone(),
            }),
            ..ConvolutionOptions::new([e2, 2 * e2], [3; 3])
        };
        Ok(UNesT {
            nest_vit: NestTransformer::new(&root.enter("nestViT"), &options, &facts.clock)?,
            encoder1: encoder("encoder1", [self.in_channels, 2 * f])?,
            encoder2: Doubling::new(&root.enter("encoder2"), [e0, 4 * f]),
            encoder3: encoder("encoder3", [e0, 8 * f])?,
            encoder4: encoder("encoder4", [e1, 16 * f])?,
            decoder5: decoder("decoder5", [2 * e2, 32 * f])?,
            decoder4: decoder("decoder4", [e2, 16 * f])?,
            decoder3: decoder("decoder3", [16 * f, 8 * f])?,
            decoder2: decoder("decoder2", [8 * f, 4 * f])?,
            decoder1: decoder("decoder1", [4 * f, 2 * f])?,
            encoder10: Convolution::new(&root.enter("encoder10"), &encoder10)?,
            out: UnetOutBlock::new(&root.enter("out"), 3, [2 * f, self.out_channels]),
            facts,
        })
    }
}

/// A transposed convolution of stride 2, followed by a convolution of kernel 1.
#[derive(Module, Debug)]
struct Doubling {
    transp_conv_init: Convolution,
    blocks: Named<Convolution>,
}

impl Doubling {
    fn new(scope: &Scope, [input, output]: [usize; 2]) -> Self {
        let transposed = |scope: &Scope, channels, kernel: usize| {
            let shape = ConvShape { stride: [kernel; 3], ..ConvShape::default() };
            let conv = ConvTranspose::new(&scope.enter("conv"), channels, [kernel; 3], shape, [0; 3], false);
            Convolution { conv: Kernel::ConvTranspose(conv), adn: None, path: LayerPath::of(scope) }
        };
        Doubling {
            transp_conv_init: transposed(&scope.enter("transp_conv_init"), [input, output], 2),
            blocks: Named::numbered([transposed(&scope.enter("blocks").enter("0"), [output; 2], 1)]),
        }
    }

    fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        self.blocks.iter().fold(self.transp_conv_init.forward(x), |x, block| block.forward(x))
    }
}

/// A U-Net with a nested transformer as its encoder (Yu et al.,
/// <https://arxiv.org/abs/2209.14378>).
///
/// `[b, in, x, y, z]`, of the size that the network was built for (96), to `[b, out, x, y, z]`.
///
/// ```no_run
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::networks::{Network, UNesTConfig};
/// let net = UNesTConfig::new(1, 4).init(&Device::default(), 0)?;
/// assert_eq!(net.forward(Tensor::zeros([1, 1, 96, 96, 96], &Device::default())).dims(), [1, 4, 96, 96, 96]);
/// # Ok::<(), hearth_nn::ConfigError>(())
/// ```
#[derive(Module, Debug)]
pub struct UNesT {
    /// `nestViT` in the state dict.
    nest_vit: NestTransformer,
    encoder1: UnetrBasicBlock,
    encoder2: Doubling,
    encoder3: UnetrBasicBlock,
    encoder4: UnetrBasicBlock,
    decoder5: UnetrUpBlock,
    decoder4: UnetrUpBlock,
    decoder3: UnetrUpBlock,
    decoder2: UnetrUpBlock,
    decoder1: UnetrUpBlock,
    encoder10: Convolution,
    out: UnetOutBlock,
    #[module(skip)]
    facts: Facts,
}

impl Network for UNesT {
    by_facts!();

    fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        self.facts.clock.next_pass();
        let (lowest, patches, states) = self.nest_vit.forward(x.clone());
        let [first, second, third] = [0, 1, 2].map(|level| states.get(level).unwrap_or(&patches).clone());
        let y = self.decoder5.forward(self.encoder10.forward(lowest), third);
        let y = self.decoder4.forward(y, self.encoder4.forward(second));
        let y = self.decoder3.forward(y, self.encoder3.forward(first));
        let y = self.decoder2.forward(y, self.encoder2.forward(patches));
        self.out.forward(self.decoder1.forward(y, self.encoder1.forward(x)))
    }

    fn torch_name(&self, path: &str) -> Option<String> {
        Some(match path.strip_prefix("nest_vit.") {
            Some(rest) => format!("nestViT.{}", nest_name(rest)),
            None => path.to_owned(),
        })
    }
}

network_entry!(UNesTConfig {
    name: "UNesT",
    aliases: &[],
    about: "Segmentation: a nested transformer with a convolutional decoder, for volumes of 96.",
    paper: "Yu et al. 2023, arXiv:2209.14378",
    example: r#"in_channels = 1
out_channels = 4
img_size = 96"#,
    input: [1, 1, 96, 96, 96],
    dims: &[3],
    in_channels: |c| c.in_channels,
    init: |c, d, s| c.init(d, s),
});
