//! A transformer with a convolutional decoder (`monai.networks.nets.UNETR`).

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use derive_setters::Setters;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::check::known_channels;
use super::vit::{ViT, ViTConfig, hidden, mlp, three, twelve};
use super::{Network, ShapeError};
use crate::blocks::{Projection, UnetOutBlock, UnetrBasicBlock, UnetrOptions, UnetrPrUpBlock, UnetrUpBlock};
use crate::layers::{Axes, ConfigError, LayerSpec, Scope};

/// Length of a patch.
const PATCH: usize = 16;

/// Options of [`UNETR`]: MONAI's parameters and defaults.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(deny_unknown_fields)]
pub struct UNETRConfig {
    /// Number of channels of the image.
    pub in_channels: usize,
    /// Number of channels of the output: one per class.
    pub out_channels: usize,
    /// Size of the image, every axis a multiple of 16.
    #[setters(into)]
    pub img_size: Axes,
    /// Number of channels of the first level.
    #[serde(default = "sixteen")]
    pub feature_size: usize,
    /// Number of features of a token, a multiple of `num_heads`.
    #[serde(default = "hidden")]
    pub hidden_size: usize,
    /// Number of hidden features of the perceptrons; 0 for `hidden_size`.
    #[serde(default = "mlp")]
    pub mlp_dim: usize,
    /// Number of heads.
    #[serde(default = "twelve")]
    pub num_heads: usize,
    /// How a patch becomes a token.
    #[serde(default)]
    pub proj_type: Projection,
    /// Norm of the convolutions; `""` for none.
    #[serde(default = "instance")]
    #[setters(into)]
    pub norm_name: LayerSpec,
    /// Whether a block follows each doubling of the encoders.
    #[serde(default = "yes")]
    pub conv_block: bool,
    /// Whether blocks have a shortcut.
    #[serde(default = "yes")]
    pub res_block: bool,
    /// Dropout probability in the transformer.
    #[serde(default)]
    pub dropout_rate: f64,
    /// Number of spatial axes: 2 or 3.
    #[serde(default = "three")]
    pub spatial_dims: usize,
    /// Whether queries, keys and values have a bias.
    #[serde(default)]
    pub qkv_bias: bool,
    /// No effect: attention maps are not stored.
    #[serde(default)]
    pub save_attn: bool,
}

fn sixteen() -> usize {
    16
}

pub(super) fn instance() -> LayerSpec {
    "instance".into()
}

fn yes() -> bool {
    true
}

impl UNETRConfig {
    /// Options with MONAI's defaults for everything else.
    pub fn new(spatial_dims: usize, in_channels: usize, out_channels: usize, img_size: Axes) -> Self {
        UNETRConfig {
            in_channels,
            out_channels,
            img_size,
            feature_size: 16,
            hidden_size: 768,
            mlp_dim: 3072,
            num_heads: 12,
            proj_type: Projection::default(),
            norm_name: instance(),
            conv_block: true,
            res_block: true,
            dropout_rate: 0.0,
            spatial_dims,
            qkv_bias: false,
            save_attn: false,
        }
    }

    /// Builds the network; its weights depend on `seed` only, so they are the same on every device.
    ///
    /// # Errors
    /// If an option is invalid; the error names it.
    pub fn init(&self, device: &Device, seed: u64) -> Result<UNETR, ConfigError> {
        let UNETRConfig { in_channels, out_channels, feature_size, hidden_size, spatial_dims, .. } = *self;
        if feature_size == 0 || out_channels == 0 {
            let expected = "feature_size and out_channels must be at least 1";
            return Err(ConfigError::value("feature_size", feature_size, expected));
        }
        let scope = Scope::new(device, seed);
        let vit = ViTConfig {
            hidden_size,
            mlp_dim: self.mlp_dim,
            num_heads: self.num_heads,
            proj_type: self.proj_type,
            dropout_rate: self.dropout_rate,
            qkv_bias: self.qkv_bias,
            ..ViTConfig::new(spatial_dims, in_channels, self.img_size.clone(), Axes::All(PATCH))
        };
        let vit = vit.build(&scope.enter("vit"))?;
        let size = self.img_size.resolve("img_size", spatial_dims, 1)?;
        if size[..spatial_dims].iter().any(|n| n % PATCH != 0) {
            return Err(ConfigError::value("img_size", &self.img_size, "every axis must be a multiple of 16"));
        }
        let options = UnetrOptions { spatial_dims, norm_name: self.norm_name.clone(), res_block: self.res_block };
        let encoder = |name: &str, factor: usize, layers: usize| {
            let channels = [hidden_size, factor * feature_size];
            UnetrPrUpBlock::new(&scope.enter(name), &options, channels, layers, self.conv_block)
        };
        let decoder = |name: &str, channels| UnetrUpBlock::new(&scope.enter(name), &options, channels);
        let mut grid = size;
        grid[..spatial_dims].iter_mut().for_each(|n| *n /= PATCH);
        Ok(UNETR {
            vit,
            encoder1: UnetrBasicBlock::new(&scope.enter("encoder1"), &options, [in_channels, feature_size])?,
            encoder2: encoder("encoder2", 2, 2)?,
            encoder3: encoder("encoder3", 4, 1)?,
            encoder4: encoder("encoder4", 8, 0)?,
            decoder5: decoder("decoder5", [hidden_size, 8 * feature_size])?,
            decoder4: decoder("decoder4", [8 * feature_size, 4 * feature_size])?,
            decoder3: decoder("decoder3", [4 * feature_size, 2 * feature_size])?,
            decoder2: decoder("decoder2", [2 * feature_size, feature_size])?,
            out: UnetOutBlock::new(&scope.enter("out"), spatial_dims, [feature_size, out_channels]),
            channels: [in_channels, out_channels],
            grid,
        })
    }
}

/// A U-shaped network with a vision transformer as its encoder (Hatamizadeh et al.,
/// <https://arxiv.org/abs/2103.10504>).
///
/// `[b, in, x, y, z]` to `[b, out, x, y, z]`, for images of the size that the network was built
/// for.
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::networks::{Network, UNETRConfig};
/// let config = UNETRConfig { hidden_size: 12, mlp_dim: 8, num_heads: 2, feature_size: 2, ..UNETRConfig::new(2, 1, 3, 32.into()) };
/// let net = config.init(&Device::default(), 0)?;
/// assert_eq!(net.forward(Tensor::zeros([1, 1, 32, 32, 1], &Device::default())).dims(), [1, 3, 32, 32, 1]);
/// # Ok::<(), hearth_nn::ConfigError>(())
/// ```
#[derive(Module, Debug)]
pub struct UNETR {
    vit: ViT,
    encoder1: UnetrBasicBlock,
    encoder2: UnetrPrUpBlock,
    encoder3: UnetrPrUpBlock,
    encoder4: UnetrPrUpBlock,
    decoder5: UnetrUpBlock,
    decoder4: UnetrUpBlock,
    decoder3: UnetrUpBlock,
    decoder2: UnetrUpBlock,
    out: UnetOutBlock,
    #[module(skip)]
    channels: [usize; 2],
    /// Number of patches per axis.
    #[module(skip)]
    grid: [usize; 3],
}

impl UNETR {
    /// Arranges tokens as an image of patches.
    fn image(&self, tokens: Tensor<3>) -> Tensor<5> {
        let [b, _, hidden] = tokens.dims();
        let [gx, gy, gz] = self.grid;
        tokens.swap_dims(1, 2).reshape([b, hidden, gx, gy, gz])
    }
}

impl Network for UNETR {
    fn spatial_dims(&self) -> usize {
        self.vit.spatial_dims()
    }

    fn channels(&self) -> [usize; 2] {
        self.channels
    }

    fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        let (tokens, hidden) = self.vit.tokens(x.clone());
        let at = |block: usize| self.image(hidden[block].clone());
        let decoded = self.decoder5.forward(self.image(tokens), self.encoder4.forward(at(9)));
        let decoded = self.decoder4.forward(decoded, self.encoder3.forward(at(6)));
        let decoded = self.decoder3.forward(decoded, self.encoder2.forward(at(3)));
        self.out.forward(self.decoder2.forward(decoded, self.encoder1.forward(x)))
    }

    fn check_input(&self, shape: [usize; 5]) -> Result<(), ShapeError> {
        known_channels(self, shape)?;
        self.vit.check_input(shape).map_err(|error| ShapeError { network: "UNETR", ..error })
    }

    fn set_draw(&self, seed: u64, step: u64) {
        self.vit.clock().set(seed, step);
    }
}

network_entry!(UNETRConfig {
    name: "UNETR",
    aliases: &[],
    about: "Segmentation: vision transformer encoder, convolutional decoder.",
    paper: "Hatamizadeh et al. 2022, arXiv:2103.10504",
    example: r#"in_channels = 1
out_channels = 2
img_size = [64, 64, 64]
feature_size = 16
spatial_dims = 3"#,
    input: [1, 1, 64, 64, 64],
    dims: &[2, 3],
    in_channels: |c| c.in_channels,
    init: |c, d, s| c.init(d, s),
});
