//! The anisotropic hybrid network of `monai.networks.nets.AHNet`.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use derive_setters::Setters;
use hearth_kernels::conv3d::ConvShape;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Network;
use super::ahnet_blocks::{
    Bottleneck, Builder, DENSE_LAYERS, GROWTH, MaxPool, Projection, Pseudo3DLayer, Pyramid, UpTransition, bare, norm,
};
use super::defaults::{one, three_dims};
use super::facts::{Facts, by_facts};
use crate::layers::{BatchNorm, ConfigError, Conv, Init, Scope, max_pool};
use crate::named::Named;

/// The upsampling of features in an [`AHNet`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AHNetUpsample {
    /// Transposed convolutions.
    #[default]
    Transpose,
    /// Bilinear interpolation (2-D), corners aligned.
    Bilinear,
    /// Trilinear interpolation (3-D), corners aligned.
    Trilinear,
    /// Nearest-neighbour interpolation.
    Nearest,
}

/// Options of [`AHNet`]: MONAI's parameters and defaults.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(deny_unknown_fields)]
pub struct AHNetConfig {
    /// Number of residual blocks of each of the four encoder levels.
    #[serde(default = "layers")]
    #[setters(into)]
    pub layers: Vec<usize>,
    /// Number of spatial axes: 2 or 3.
    #[serde(default = "three_dims")]
    pub spatial_dims: usize,
    /// Number of channels of the image.
    #[serde(default = "one")]
    pub in_channels: usize,
    /// Number of channels of the output: one per class.
    #[serde(default = "one")]
    pub out_channels: usize,
    /// Number of poolings of the pyramid before the output, 0 to 4.
    #[serde(default = "four")]
    pub psp_block_num: usize,
    /// Upsampling of features to the next size.
    #[serde(default)]
    pub upsample_mode: AHNetUpsample,
}

fn layers() -> Vec<usize> {
    vec![3, 4, 6, 3]
}

fn four() -> usize {
    4
}

impl Default for AHNetConfig {
    fn default() -> Self {
        AHNetConfig {
            layers: layers(),
            spatial_dims: three_dims(),
            in_channels: one(),
            out_channels: one(),
            psp_block_num: four(),
            upsample_mode: AHNetUpsample::Transpose,
        }
    }
}

impl AHNetConfig {
    /// Builds the network with weights drawn from `seed`.
    ///
    /// # Errors
    /// If an option is invalid; the error names it.
    pub fn init(&self, device: &Device, seed: u64) -> Result<AHNet, ConfigError> {
        let facts = self.facts()?;
        let [n1, n2, n3, n4] = self.layers[..] else {
            return Err(ConfigError::value("layers", &self.layers, "expected four numbers"));
        };
        if self.layers.contains(&0) {
            return Err(ConfigError::value("layers", &self.layers, "expected at least 1 each"));
        }
        let root = Scope::new(device, seed).with_init(Init::InPlane);
        let scope = |name: &str| root.enter(name);
        let builder = Builder { dims: self.spatial_dims, mode: self.upsample_mode };
        let dense = DENSE_LAYERS * GROWTH;
        let shape = ConvShape {
            stride: builder.last([2, 2, 1]),
            padding: builder.trailing([3, 3, 1], 0),
            ..ConvShape::default()
        };
        let blocks = self.psp_block_num;
        Ok(AHNet {
            conv1: Conv::new(&scope("conv1"), [self.in_channels, 64], builder.last([7, 7, 3]), shape, false),
            bn0: norm(&scope("bn0"), 64),
            layer1: builder.layer(&scope("layer1"), [64, 64], n1, 1),
            layer2: builder.layer(&scope("layer2"), [256, 128], n2, 2),
            layer3: builder.layer(&scope("layer3"), [512, 256], n3, 2),
            layer4: builder.layer(&scope("layer4"), [1024, 512], n4, 2),
            up0: builder.up(&scope("up0"), [2048, 1024], [1; 3], [0; 3]),
            dense0: builder.dense(&scope("dense0"), 1024),
            up1: builder.up(&scope("up1"), [1024 + dense, 512], [1; 3], [0; 3]),
            dense1: builder.dense(&scope("dense1"), 512),
            up2: builder.up(&scope("up2"), [512 + dense, 256], [1; 3], [0; 3]),
            dense2: builder.dense(&scope("dense2"), 256),
            trans1: Projection {
                norm: norm(&scope("trans1").enter("norm"), 256 + dense),
                conv: bare(&scope("trans1").enter("conv"), [256 + dense, 64], [1; 3]),
            },
            dense3: builder.dense(&scope("dense3"), 64),
            up3: builder.up(&scope("up3"), [64 + dense, 64], [1; 3], [0; 3]),
            dense4: builder.dense(&scope("dense4"), 64),
            psp: builder.pyramid(&scope("psp"), blocks, 64 + dense),
            last: builder.up(
                &scope("final"),
                [blocks + 64 + dense, self.out_channels],
                builder.last([3, 3, 1]),
                builder.trailing([1, 1, 0], 0),
            ),
            pool1: builder.last([1, 1, 2]),
            maxpool: builder.maxpool(),
            facts,
        })
    }

    /// The input sizes for which the sizes of all branches agree.
    fn facts(&self) -> Result<Facts, ConfigError> {
        let mut facts = Facts::new("AHNet", self.spatial_dims, [self.in_channels, self.out_channels])?;
        if self.psp_block_num > 4 {
            return Err(ConfigError::value("psp_block_num", self.psp_block_num, "expected 0 to 4"));
        }
        let flat = self.spatial_dims == 2;
        if (flat && self.upsample_mode == AHNetUpsample::Trilinear)
            || (!flat && self.upsample_mode == AHNetUpsample::Bilinear)
        {
            let expected =
                format!("expected bilinear in 2-D and trilinear in 3-D, this one is {}-D", self.spatial_dims);
            return Err(ConfigError::value("upsample_mode", self.upsample_mode, expected));
        }
        // The pyramid pools the features, which have half the in-plane size of the image.
        let pyramid = match self.psp_block_num {
            0 => 1,
            blocks => 1 << (blocks + 3),
        };
        let transposed = self.upsample_mode == AHNetUpsample::Transpose;
        let in_plane = if transposed { pyramid.max(32) } else { 32 };
        let least = if transposed { 32 } else { pyramid.max(32) };
        let along = 32;
        // In 2-D, MONAI takes the last entries of the kernels: the first axis is in the plane, the
        // second is perpendicular to it.
        (facts.divisor, facts.least) = if flat {
            ([in_plane, along, 1], [least, along, 1])
        } else {
            ([in_plane, in_plane, along], [least, least, along])
        };
        Ok(facts)
    }
}

/// A network with a 2-D encoder and a 3-D decoder (Liu et al., <https://arxiv.org/abs/1711.08580>).
///
/// `[b, in, x, y, z]` to `[b, out, x, y, z]`. In 3-D the last axis is perpendicular to the planes
/// and must be divisible by 32, the others by `max(32, 2^(psp_block_num + 3))` with transposed
/// convolutions and by 32 otherwise.
///
/// ```no_run
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::networks::{AHNetConfig, Network};
/// let net = AHNetConfig { out_channels: 2, psp_block_num: 2, ..AHNetConfig::default() }.init(&Device::default(), 0)?;
/// assert_eq!(net.forward(Tensor::zeros([1, 1, 64, 64, 32], &Device::default())).dims(), [1, 2, 64, 64, 32]);
/// # Ok::<(), hearth_nn::ConfigError>(())
/// ```
#[derive(Module, Debug)]
pub struct AHNet {
    conv1: Conv,
    bn0: BatchNorm,
    layer1: Named<Bottleneck>,
    layer2: Named<Bottleneck>,
    layer3: Named<Bottleneck>,
    layer4: Named<Bottleneck>,
    up0: UpTransition,
    dense0: Named<Pseudo3DLayer>,
    up1: UpTransition,
    dense1: Named<Pseudo3DLayer>,
    up2: UpTransition,
    dense2: Named<Pseudo3DLayer>,
    trans1: Projection,
    dense3: Named<Pseudo3DLayer>,
    up3: UpTransition,
    dense4: Named<Pseudo3DLayer>,
    psp: Pyramid,
    /// `final` in the state dict.
    last: UpTransition,
    #[module(skip)]
    pool1: [usize; 3],
    #[module(skip)]
    maxpool: MaxPool,
    #[module(skip)]
    facts: Facts,
}

fn down(layer: &Named<Bottleneck>, x: Tensor<5>) -> Tensor<5> {
    layer.iter().fold(x, |x, block| block.forward(x))
}

fn dense(layer: &Named<Pseudo3DLayer>, x: Tensor<5>) -> Tensor<5> {
    layer.iter().fold(x, |x, layer| layer.forward(x))
}

impl Network for AHNet {
    by_facts!();

    fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        self.facts.clock.next_pass();
        let x = max_pool(self.conv1.forward(x), self.pool1, self.pool1, [0; 3]);
        let conv = self.bn0.forward_relu(x);
        let [kernel, stride, padding] = self.maxpool;
        let pooled = max_pool(conv.clone(), kernel, stride, padding);
        let fm1 = down(&self.layer1, pooled.clone());
        let fm2 = down(&self.layer2, fm1.clone());
        let fm3 = down(&self.layer3, fm2.clone());
        let fm4 = down(&self.layer4, fm3.clone());
        let d0 = dense(&self.dense0, self.up0.forward(fm4) + fm3);
        let d1 = dense(&self.dense1, self.up1.forward(d0) + fm2);
        let d2 = dense(&self.dense2, self.up2.forward(d1) + fm1);
        let projected = self.trans1.conv.forward(self.trans1.norm.forward_relu(d2));
        let d3 = dense(&self.dense3, projected + pooled);
        let d4 = dense(&self.dense4, self.up3.forward(d3) + conv);
        self.last.forward(self.psp.forward(d4))
    }

    fn torch_name(&self, path: &str) -> Option<String> {
        let path = match path.strip_prefix("last.") {
            Some(rest) => format!("final.{rest}"),
            None => path.to_owned(),
        };
        // In MONAI these are entries of a Sequential with a pooling between them.
        Some(path.replace(".downsample.conv.", ".downsample.0.").replace(".downsample.norm.", ".downsample.2."))
    }
}

network_entry!(AHNetConfig {
    name: "AHNet",
    aliases: &[],
    about: "Segmentation of anisotropic volumes: in-plane encoder, 3-D decoder.",
    paper: "Liu et al. 2018, arXiv:1711.08580",
    example: r#"spatial_dims = 3
in_channels = 1
out_channels = 2
psp_block_num = 3"#,
    input: [1, 1, 64, 64, 64],
    dims: &[2, 3],
    in_channels: |c| c.in_channels,
    init: |c, d, s| c.init(d, s),
});
